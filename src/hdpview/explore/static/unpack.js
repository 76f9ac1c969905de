// Decompresses what Python wrote with zlib: arrays in Base64 with bytes of equal significance grouped
// (hdpview/view/contents.py), and texts of the published page as 7-bit characters (publish.py).

const KINDS = { u: Uint16Array, f: Float64Array };

/** A text of the published page, by the id of its element. */
export async function textOf(id) {
  const { textContent } = document.getElementById(id);
  const bytes = new Uint8Array((textContent.length * 7) >> 3);
  for (let i = 0, bits = 0, n = 0, at = 0; i < textContent.length; i++) {
    bits = ((bits << 7) | (textContent.charCodeAt(i) & 127)) & 0x7fff;
    n += 7;
    if (n >= 8) bytes[at++] = bits >> (n -= 8);
  }
  return new TextDecoder().decode(await inflated(bytes));
}

async function inflated(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** The content with every { packed, kind } replaced by its array. */
export async function unpacked(content) {
  if (Array.isArray(content)) return Promise.all(content.map(unpacked));
  if (content === null || typeof content !== "object") return content;
  if (content.packed !== undefined) return array(content);
  return Object.fromEntries(
    await Promise.all(Object.entries(content).map(async ([key, value]) => [key, await unpacked(value)])),
  );
}

async function array({ packed, kind, divide }) {
  const planes = await inflated(Uint8Array.from(atob(packed), (character) => character.charCodeAt(0)));
  const Kind = KINDS[kind];
  const width = Kind.BYTES_PER_ELEMENT;
  const n = planes.length / width;
  const mixed = new Uint8Array(planes.length);
  for (let plane = 0; plane < width; plane++)
    for (let i = 0; i < n; i++) mixed[i * width + plane] = planes[plane * n + i];
  const values = new Kind(mixed.buffer);
  return divide ? Float64Array.from(values, (value) => value / divide) : values;
}
