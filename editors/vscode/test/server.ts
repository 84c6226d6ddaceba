// The language server, as the extension starts it.

import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

import { createMessageConnection, StreamMessageReader, StreamMessageWriter, type MessageConnection } from "vscode-jsonrpc/node";

/** The root of the repository. */
export const root = resolve(process.cwd(), "../..");

export class Server {
  private constructor(
    readonly connection: MessageConnection,
    readonly capabilities: Record<string, any>,
    private readonly child: ChildProcess,
  ) {}

  /** Runs a test with a server, which ends with it. */
  static async with(test: (server: Server) => Promise<void>): Promise<void> {
    const server = await Server.start();
    try {
      await test(server);
      await server.connection.sendRequest("shutdown");
      const ended = once(server.child, "exit");
      await server.connection.sendNotification("exit");
      assert.deepEqual(await ended, [0, null]);
    } finally {
      server.connection.dispose();
      server.child.kill();
    }
  }

  private static async start(): Promise<Server> {
    const path = process.env.FUSELOOP ?? join(root, "target/debug/fuseloop");
    const child = spawn(path, ["lsp"], { stdio: ["pipe", "pipe", "inherit"] });
    await once(child, "spawn");
    const connection = createMessageConnection(new StreamMessageReader(child.stdout), new StreamMessageWriter(child.stdin));
    connection.listen();
    const { capabilities } = await connection.sendRequest<any>("initialize", { capabilities: {} });
    await connection.sendNotification("initialized", {});
    return new Server(connection, capabilities, child);
  }

  /** Opens a file of the repository. */
  async open(path: string): Promise<{ uri: string; text: string }> {
    const text = readFileSync(join(root, path), "utf8");
    const uri = pathToFileURL(join(root, path)).toString();
    await this.connection.sendNotification("textDocument/didOpen", { textDocument: { uri, languageId: "fuseloop", version: 1, text } });
    return { uri, text };
  }

  request<T>(method: string, params: object): Promise<T> {
    return this.connection.sendRequest<T>(method, params);
  }
}
