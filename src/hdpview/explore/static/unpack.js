// Arrays written as text by hdpview/view/contents.py: bytes of equal weight together, compressed by zlib, in
// base 64.

const KINDS = { u: Uint16Array, f: Float64Array };

/** The bytes of a text in base 64, compressed by zlib. */
export async function unzipped(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** The content with every { packed, kind } in it turned into an array. */
export async function unpacked(content) {
  if (Array.isArray(content)) return Promise.all(content.map(unpacked));
  if (content === null || typeof content !== "object") return content;
  if (content.packed !== undefined) return array(content);
  return Object.fromEntries(
    await Promise.all(Object.entries(content).map(async ([key, value]) => [key, await unpacked(value)])),
  );
}

async function array({ packed, kind, divide }) {
  const planes = await unzipped(packed);
  const Kind = KINDS[kind];
  const width = Kind.BYTES_PER_ELEMENT;
  const n = planes.length / width;
  const mixed = new Uint8Array(planes.length);
  for (let plane = 0; plane < width; plane++)
    for (let i = 0; i < n; i++) mixed[i * width + plane] = planes[plane * n + i];
  const values = new Kind(mixed.buffer);
  return divide ? Float64Array.from(values, (value) => value / divide) : values;
}
