// Arrays as bytes: elements of each type, pictures as `.npy`, and the shapes of files.

const half = (bits) => {
  const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
  const size = exponent === 31 ? (fraction ? NaN : Infinity) : exponent ? 2 ** (exponent - 25) * (1024 + fraction) : 2 ** -24 * fraction;
  return bits >> 15 ? -size : size;
};
const word = new DataView(new ArrayBuffer(4));
const brain = (bits) => {
  word.setUint32(0, bits << 16);
  return word.getFloat32(0);
};

// The array of the browser for each type, and how an element of it becomes a number.
const TYPES = {
  bool: [Uint8Array, Number],
  i8: [Int8Array, Number],
  u8: [Uint8Array, Number],
  i16: [Int16Array, Number],
  u16: [Uint16Array, Number],
  i32: [Int32Array, Number],
  u32: [Uint32Array, Number],
  i64: [BigInt64Array, Number],
  u64: [BigUint64Array, Number],
  f16: [Uint16Array, half],
  bf16: [Uint16Array, brain],
  f32: [Float32Array, Number],
  f64: [Float64Array, Number],
};

// The elements of an array as numbers, row-major.
export function numbers(dtype, bytes) {
  const [Elements, number] = TYPES[dtype];
  const elements = new Elements(bytes.buffer, bytes.byteOffset, bytes.length / Elements.BYTES_PER_ELEMENT);
  return Float64Array.from(elements, number);
}

// A file of bytes: `.npy`, version 1.0.
function npy(shape, bytes) {
  const header = `{'descr': '|u1', 'fortran_order': False, 'shape': (${shape.join(", ")}${shape.length === 1 ? "," : ""}), }`;
  const length = 64 * Math.ceil((10 + header.length + 1) / 64);
  const file = new Uint8Array(length + bytes.length).fill(0x20, 0, length);
  file.set([0x93, ...new TextEncoder().encode("NUMPY"), 1, 0, (length - 10) & 255, (length - 10) >> 8]);
  file.set(new TextEncoder().encode(header), 10);
  file[length - 1] = 0x0a;
  file.set(bytes, length);
  return file;
}

// A picture that the browser can show, as greys for two axes, and else with as many channels as the
// last axis says: 3, or 4 with alpha.
async function picture(file, shape) {
  const bitmap = await createImageBitmap(file);
  const { width, height } = bitmap;
  const context = new OffscreenCanvas(width, height).getContext("2d");
  context.drawImage(bitmap, 0, 0);
  const { data } = context.getImageData(0, 0, width, height);
  const channels = shape.length === 2 ? 1 : shape[2] === "4" ? 4 : 3;
  const bytes = new Uint8Array(width * height * channels);
  for (let pixel = 0; pixel < width * height; pixel++) {
    const [red, green, blue, alpha] = data.subarray(4 * pixel, 4 * pixel + 4);
    const grey = Math.round(0.299 * red + 0.587 * green + 0.114 * blue);
    bytes.set(channels === 1 ? [grey] : channels === 3 ? [red, green, blue] : [red, green, blue, alpha], channels * pixel);
  }
  const lengths = shape.length === 2 ? [height, width] : [height, width, channels];
  return { name: `${file.name}.npy`, bytes: npy(lengths, bytes), shape: lengths };
}

// The shape that a file says, if it is one of these.
function lengths(name, bytes) {
  if (name.endsWith(".npy")) {
    const header = new TextDecoder("latin1").decode(bytes.subarray(0, 1000));
    return /'shape': \(([\d, ]*)\)/.exec(header)?.[1].split(",").filter((one) => one.trim()).map(Number);
  }
  if (name.endsWith(".csv")) {
    const rows = new TextDecoder().decode(bytes).split("\n").filter((row) => row.trim()).map((row) => row.split(","));
    const named = rows[0]?.every((cell) => Number.isNaN(Number(cell)));
    return [rows.length - (named ? 1 : 0), rows[0]?.length ?? 0];
  }
  return undefined;
}

// A file as an argument of a shape: its name, its bytes, and the lengths of its axes if they are
// known.
export async function argumentFile(file, shape) {
  const read = file.type.startsWith("image/") && shape.length >= 2
    ? await picture(file, shape)
    : { name: file.name, bytes: new Uint8Array(await file.arrayBuffer()) };
  const found = read.shape ?? lengths(read.name, read.bytes);
  const fitting = found?.length === shape.length + 1 && found.at(-1) === 1 ? found.slice(0, -1) : found;
  // A colon or a slash in a name would mean something else.
  return { name: read.name.replaceAll(/[^\w.-]/g, "_"), bytes: read.bytes, shape: fitting };
}
