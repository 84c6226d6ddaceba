// The commands against the server that the extension starts.

import assert from "node:assert/strict";
import test from "node:test";

import { atLine, call, type Lens } from "../src/commands";
import { Server } from "./server";

test("the server has the commands of the extension", () => Server.with(async (server) => {
  assert.deepEqual(server.capabilities.executeCommandProvider.commands, ["fuseloop.explain", "fuseloop.run"]);
}));

test("a function is explained and run from its lens", () => Server.with(async (server) => {
  const { uri, text } = await server.open("examples/softmax.fl");
  const lenses = await server.request<Lens[]>("textDocument/codeLens", { textDocument: { uri } });
  const line = text.split("\n").findIndex((line) => line.startsWith("fn softmax_rows"));

  const called = async (command: string) => {
    const lens = await server.request<Lens>("codeLens/resolve", atLine(lenses, command, line + 1)!);
    return call(lens.command?.arguments?.[0])!;
  };

  const explained = await called("fuseloop.explain");
  assert.equal(explained.function, "softmax_rows");
  const html = await server.request<string>("workspace/executeCommand", { command: "fuseloop.explain", arguments: [explained] });
  assert.match(html, /<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">/);
  assert.match(html, /<title>softmax_rows: /);
  assert.doesNotMatch(html, /<script/);

  const run = await called("fuseloop.run");
  assert.equal(run.arguments, "x=random:8x8");
  const shown = await server.request<string>("workspace/executeCommand", { command: "fuseloop.run", arguments: [run] });
  assert.match(shown, /^\[\[0\.[^]*\]\]\n$/);
}));
