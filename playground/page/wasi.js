// The part of WASI (preview 1) that the compiler uses: standard input and output, a clock, random
// bytes, and a folder of files in memory. There are no arguments and no environment.

const [OK, BAD_DESCRIPTOR, NO_ENTRY] = [0, 8, 44];
const [INPUT, OUTPUT, ERRORS, FOLDER] = [0, 1, 2, 3];
const [CHARACTERS, DIRECTORY, FILE] = [2, 3, 4];
const [CREATE, TRUNCATE] = [1, 8];

class Exit extends Error {
  constructor(code) {
    super(`exit ${code}`);
    this.code = code;
  }
}

// Parts of a file, one after the other.
function joined(parts) {
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

// Runs a command from the start with a text as its standard input and files by name. Returns its
// standard output, and the files that it wrote. Throws if it fails.
export async function run(module, input, files = {}) {
  let memory;
  const view = () => new DataView(memory.buffer);
  const bytes = (at, length) => new Uint8Array(memory.buffer, at, length);
  const text = (at, length) => new TextDecoder().decode(bytes(at, length)).replace(/^\//, "");
  const folder = new Map(Object.entries(files));
  const written = new Map();
  const open = new Map([
    [INPUT, { kind: CHARACTERS, at: 0, content: new TextEncoder().encode(input) }],
    [OUTPUT, { kind: CHARACTERS, at: 0, parts: [] }],
    [ERRORS, { kind: CHARACTERS, at: 0, parts: [] }],
    [FOLDER, { kind: DIRECTORY, at: 0 }],
  ]);
  const put = (at, value) => {
    view().setUint32(at, value, true);
    return OK;
  };
  const empty = (count, size) => put(count, 0) || put(size, 0);
  // Calls a function on each of the places of a list, until one is not filled.
  const each = (list, length, total, transfer) => {
    let sum = 0;
    for (let k = 0; k < length; k++) {
      const [at, size] = [view().getUint32(list + 8 * k, true), view().getUint32(list + 8 * k + 4, true)];
      const moved = transfer(bytes(at, size));
      sum += moved;
      if (moved < size) break;
    }
    return put(total, sum);
  };
  const stat = (at, kind, size) => {
    bytes(at, 64).fill(0);
    view().setUint8(at + 16, kind);
    view().setBigUint64(at + 32, BigInt(size), true);
    return OK;
  };
  const seek = (descriptor, offset, from, at) => {
    const file = open.get(descriptor);
    if (!file?.content) return BAD_DESCRIPTOR;
    file.at = [0, file.at, file.content.length][from] + Number(offset);
    view().setBigUint64(at, BigInt(file.at), true);
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
      const file = open.get(descriptor);
      if (!file?.content) return BAD_DESCRIPTOR;
      return each(list, length, total, (place) => {
        const part = file.content.subarray(file.at, file.at + place.length);
        place.set(part);
        file.at += part.length;
        return part.length;
      });
    },
    fd_write: (descriptor, list, length, total) => {
      const file = open.get(descriptor);
      if (!file?.parts) return BAD_DESCRIPTOR;
      return each(list, length, total, (place) => {
        file.parts.push(place.slice());
        return place.length;
      });
    },
    fd_close: (descriptor) => (open.delete(descriptor) ? OK : BAD_DESCRIPTOR),
    fd_seek: seek,
    fd_tell: (descriptor, at) => seek(descriptor, 0, 1, at),
    fd_fdstat_get: (descriptor, at) => {
      if (!open.has(descriptor)) return BAD_DESCRIPTOR;
      bytes(at, 24).fill(0);
      view().setUint8(at, open.get(descriptor).kind);
      bytes(at + 8, 16).fill(0xff);
      return OK;
    },
    fd_filestat_get: (descriptor, at) => {
      const file = open.get(descriptor);
      return file ? stat(at, file.kind, file.content?.length ?? 0) : BAD_DESCRIPTOR;
    },
    // The one folder is the root.
    fd_prestat_get: (descriptor, at) => (descriptor === FOLDER ? put(at, 0) || put(at + 4, 1) : BAD_DESCRIPTOR),
    fd_prestat_dir_name: (_descriptor, at) => {
      bytes(at, 1)[0] = "/".charCodeAt(0);
      return OK;
    },
    path_filestat_get: (_folder, _flags, name, length, at) => {
      const content = folder.get(text(name, length));
      return content ? stat(at, FILE, content.length) : NO_ENTRY;
    },
    path_open: (_folder, _lookup, name, length, flags, _rights, _inherited, _flags, at) => {
      const path = text(name, length);
      const descriptor = Math.max(...open.keys()) + 1;
      if (flags & (CREATE | TRUNCATE)) {
        const parts = [];
        written.set(path, parts);
        open.set(descriptor, { kind: FILE, at: 0, parts });
      } else if (folder.has(path)) {
        open.set(descriptor, { kind: FILE, at: 0, content: folder.get(path) });
      } else {
        return NO_ENTRY;
      }
      return put(at, descriptor);
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
  const said = (descriptor) => new TextDecoder().decode(joined(open.get(descriptor).parts));
  try {
    instance.exports._start();
  } catch (error) {
    if (!(error instanceof Exit) || error.code !== 0) throw new Error(said(ERRORS) || String(error));
  }
  return {
    output: said(OUTPUT),
    files: Object.fromEntries([...written].map(([name, parts]) => [name, joined(parts)])),
  };
}
