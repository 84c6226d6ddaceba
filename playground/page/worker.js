// Answers requests, one after the other.

import { run } from "./wasi.js";

const module = WebAssembly.compileStreaming(fetch("playground.wasm"));

onmessage = async ({ data: { number, request } }) => {
  const begin = performance.now();
  try {
    const text = await run(await module, JSON.stringify(request));
    const lines = text.split("\n").filter((line) => line).map((line) => JSON.parse(line));
    postMessage({ number, lines, time: performance.now() - begin });
  } catch (error) {
    postMessage({ number, failure: error.message, time: performance.now() - begin });
  }
};
