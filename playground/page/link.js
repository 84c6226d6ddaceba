// Programs in addresses: compressed, in the base 64 of addresses.

// The bytes of the longest program that the compiler reads. A short address can hold far more.
const MOST = 1 << 24;

async function through(stream, bytes) {
  let length = 0;
  const limit = new TransformStream({
    transform: (part, controller) => {
      length += part.length;
      if (length > MOST) controller.error(new RangeError("the program is too long"));
      else controller.enqueue(part);
    },
  });
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream).pipeThrough(limit)).arrayBuffer());
}

export async function encoded(text) {
  const bytes = await through(new CompressionStream("deflate-raw"), new TextEncoder().encode(text));
  const words = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(words).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

// The program of an address; `null` if it has none. Throws if it is not one of ours.
export async function decoded(hash) {
  if (!hash) return null;
  const words = atob(hash.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(words, (word) => word.charCodeAt(0));
  return new TextDecoder().decode(await through(new DecompressionStream("deflate-raw"), bytes));
}
