import assert from "node:assert/strict";
import test from "node:test";

import { atLine, call, notStarted, results, type Lens } from "../src/commands";

const lens = (line: number, command: string): Lens => ({ range: { start: { line } }, data: { command } });

test("a command means the function at the cursor", () => {
  const [g, other, f] = [lens(4, "fuseloop.run"), lens(5, "fuseloop.explain"), lens(1, "fuseloop.run")];
  const at = (line: number) => atLine([g, other, f], "fuseloop.run", line);
  assert.deepEqual([0, 1, 3, 4, 90].map(at), [f, f, f, g, g]);
  assert.equal(atLine([], "fuseloop.run", 0), undefined);
  assert.equal(atLine([{ range: { start: { line: 0 } } }], "fuseloop.run", 0), undefined);
});

test("arguments that describe no call are refused", () => {
  for (const wrong of [undefined, null, 3, "f", {}, { uri: "a" }, { uri: 1, function: "f" }]) assert.equal(call(wrong), undefined);
});

test("texts for people", () => {
  assert.equal(results({ uri: "", function: "f", arguments: "x=1" }, "2\n\n"), "# f(x=1)\n2\n");
  assert.match(notStarted("fuseloop", new Error("ENOENT")), /`fuseloop` cannot be started \(ENOENT\)/);
});
