// The colours of the TextMate grammar, which an editor has at once, are those of the server's tokens,
// which come later.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";

import { createOnigScanner, createOnigString, loadWASM } from "vscode-oniguruma";
import { INITIAL, parseRawGrammar, Registry, type IGrammar } from "vscode-textmate";

import { root, Server } from "./server";

/** The class of a token of the server, by the beginnings of scopes. */
const SCOPES: Record<string, string[]> = {
  keyword: ["keyword.control", "keyword.declaration"],
  type: ["support.type"],
  variable: ["variable.other", "constant.language"],
  function: ["entity.name.function", "support.function"],
  number: ["constant.numeric"],
  string: ["string.quoted"],
  operator: ["keyword.operator", "punctuation"],
  comment: ["comment.line"],
  decorator: ["entity.name.function.decorator"],
};

async function grammar(): Promise<IGrammar> {
  const wasm = readFileSync(require.resolve("vscode-oniguruma/release/onig.wasm"));
  await loadWASM(wasm.buffer.slice(wasm.byteOffset, wasm.byteOffset + wasm.byteLength));
  const path = join(process.cwd(), "syntaxes/fuseloop.tmLanguage.json");
  const registry = new Registry({
    onigLib: Promise.resolve({ createOnigScanner, createOnigString }),
    loadGrammar: async () => parseRawGrammar(readFileSync(path, "utf8"), path),
  });
  return (await registry.loadGrammar("source.fuseloop"))!;
}

test("colours agree with the server's tokens", () => Server.with(async (server) => {
  const own = await grammar();
  const legend: string[] = server.capabilities.semanticTokensProvider.legend.tokenTypes;
  const programs = readdirSync(join(root, "examples")).filter((name) => name.endsWith(".fl"));
  assert.ok(programs.length > 50);
  for (const program of programs) {
    const { uri, text } = await server.open(`examples/${program}`);
    let stack = INITIAL;
    const lines = text.split("\n").map((line) => {
      const { tokens, ruleStack } = own.tokenizeLine(line, stack);
      stack = ruleStack;
      return { line, tokens };
    });
    const { data } = await server.request<{ data: number[] }>("textDocument/semanticTokens/full", { textDocument: { uri } });
    let [line, character] = [0, 0];
    for (let at = 0; at < data.length; at += 5) {
      character = data[at] ? data[at + 1] : character + data[at + 1];
      line += data[at];
      const kind = legend[data[at + 3]];
      const scope = lines[line].tokens.find((token) => token.startIndex <= character && character < token.endIndex)?.scopes.at(-1) ?? "";
      const word = lines[line].line.slice(character, character + data[at + 2]);
      const agrees = SCOPES[kind].some((beginning) => scope.startsWith(beginning)) || (kind === "operator" && word === "@");
      assert.ok(agrees, `${program}:${line + 1}:${character + 1}: \`${word}\` is a ${kind}, and ${scope}`);
    }
  }
}));
