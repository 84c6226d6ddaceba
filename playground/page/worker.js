// Answers requests, one after the other.

import { run } from "./wasi.js";

onmessage = async ({ data: { number, request, files, module } }) => {
  const begin = performance.now();
  try {
    const { output, files: written } = await run(module, JSON.stringify(request), files);
    const lines = output.split("\n").filter((line) => line).map((line) => JSON.parse(line));
    postMessage({ number, lines, files: written, time: performance.now() - begin });
  } catch (error) {
    postMessage({ number, failure: error.message, time: performance.now() - begin });
  }
};
