// The part of WASI (preview 1) that the compiler uses: standard input and output, a clock and
// random bytes. It has no files, no arguments and no environment.

const OK = 0;
const BAD_DESCRIPTOR = 8;
const [INPUT, OUTPUT] = [0, 1];

class Exit extends Error {
  constructor(code) {
    super(`exit ${code}`);
    this.code = code;
  }
}

// Runs a command from the start with a text as its standard input, and returns its standard output.
// Throws if it fails.
export async function run(module, input) {
  const given = new TextEncoder().encode(input);
  const written = { 1: [], 2: [] };
  let read = 0;
  let memory;
  const view = () => new DataView(memory.buffer);
  const bytes = (at, length) => new Uint8Array(memory.buffer, at, length);
  const empty = (count, size) => {
    view().setUint32(count, 0, true);
    view().setUint32(size, 0, true);
    return OK;
  };
  // Calls a function on each of the places of a list, until one is not filled.
  const each = (list, length, total, transfer) => {
    let sum = 0;
    for (let k = 0; k < length; k++) {
      const [at, size] = [view().getUint32(list + 8 * k, true), view().getUint32(list + 8 * k + 4, true)];
      const moved = transfer(bytes(at, size));
      sum += moved;
      if (moved < size) break;
    }
    view().setUint32(total, sum, true);
    return OK;
  };
  const wasi = {
    args_get: () => OK,
    args_sizes_get: empty,
    environ_get: () => OK,
    environ_sizes_get: empty,
    clock_time_get: (_id, _precision, at) => {
      view().setBigUint64(at, BigInt(Math.round(performance.now() * 1e6)), true);
      return OK;
    },
    random_get: (at, length) => {
      for (let done = 0; done < length; done += 65536) {
        crypto.getRandomValues(bytes(at + done, Math.min(65536, length - done)));
      }
      return OK;
    },
    fd_read: (descriptor, list, length, total) => {
      if (descriptor !== INPUT) return BAD_DESCRIPTOR;
      return each(list, length, total, (place) => {
        const part = given.subarray(read, read + place.length);
        place.set(part);
        read += part.length;
        return part.length;
      });
    },
    fd_write: (descriptor, list, length, total) => {
      if (!(descriptor in written)) return BAD_DESCRIPTOR;
      return each(list, length, total, (place) => {
        written[descriptor].push(place.slice());
        return place.length;
      });
    },
    proc_exit: (code) => {
      throw new Exit(code);
    },
  };
  const imports = Object.fromEntries(
    WebAssembly.Module.imports(module).map(({ name }) => [name, wasi[name] ?? (() => BAD_DESCRIPTOR)]),
  );
  const instance = await WebAssembly.instantiate(module, { wasi_snapshot_preview1: imports });
  memory = instance.exports.memory;
  try {
    instance.exports._start();
  } catch (error) {
    if (!(error instanceof Exit) || error.code !== 0) {
      const said = await new Blob(written[2]).text();
      throw new Error(said || String(error));
    }
  }
  return new Blob(written[OUTPUT]).text();
}
