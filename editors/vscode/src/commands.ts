// The commands as data: which function a command means, and texts for people. Nothing here needs the editor itself, so that tests can run it.

/** A code lens of the server, as far as the commands read it. */
export interface Lens {
  range: { start: { line: number } };
  /** As the server lists it. */
  data?: { command?: string };
  /** Once the server has resolved it. */
  command?: { command: string; arguments?: unknown[] };
}

/** The argument of the server's commands. */
export interface Call {
  /** The text that has the function. */
  uri: string;
  /** Its name. */
  function: string;
  /** For `fuseloop.run`: `x=random:8x8 k=3`. */
  arguments?: string;
}

/** The call that a command's argument describes, if it does. */
export function call(argument: unknown): Call | undefined {
  const { uri, function: name } = (argument ?? {}) as Partial<Call>;
  return typeof uri === "string" && typeof name === "string" ? (argument as Call) : undefined;
}

/** The lens that a command means at a line: the last that begins there or above, or else the first. */
export function atLine(lenses: readonly Lens[], command: string, line: number): Lens | undefined {
  const own = lenses.filter((lens) => lens.data?.command === command);
  own.sort((a, b) => a.range.start.line - b.range.start.line);
  return own.filter((lens) => lens.range.start.line <= line).at(-1) ?? own[0];
}

/** Results as a text to show: the call, then its results. */
export function results(called: Call, text: string): string {
  return `# ${called.function}(${called.arguments ?? ""})\n${text.trimEnd()}\n`;
}

/** A sentence for the error that the server could not be started. */
export function notStarted(path: string, error: unknown): string {
  const why = error instanceof Error ? error.message : String(error);
  return `The command \`${path}\` cannot be started (${why}). Install Fuseloop, or set \`fuseloop.path\`.`;
}
