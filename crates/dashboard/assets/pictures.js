// Pictures that go with a prompt, and those of a conversation.
import { bytes, html, useEffect, useRef } from "./lib.js";

/** What models read. */
export const KINDS = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/** Pictures of one prompt, and their bytes together: in base64 they have to fit into one frame. */
const MOST = 16;
const MOST_BYTES = 5 << 20;
/** A larger picture is sent smaller: what models make of it is the same. */
const LARGE_BYTES = 1 << 20;
const LONGEST_SIDE = 2048;

/** @typedef {{ name: string, bytes: number, data: string, bitmap: ImageBitmap }} ChosenPicture */

/** Returns a picture in base64. */
async function encoded(blob) {
  const all = new Uint8Array(await blob.arrayBuffer());
  let text = "";
  for (let at = 0; at < all.length; at += 0x8000) text += String.fromCharCode(...all.subarray(at, at + 0x8000));
  return btoa(text);
}

/** Draws a picture smaller. */
async function smaller(bitmap) {
  const share = Math.min(1, LONGEST_SIDE / Math.max(bitmap.width, bitmap.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(bitmap.width * share);
  canvas.height = Math.round(bitmap.height * share);
  canvas.getContext("2d")?.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", 0.85));
}

/**
 * Reads files that somebody has chosen, pasted or dropped. Throws, in words for a person, at the first that cannot go along.
 * @param {File[]} files
 * @param {ChosenPicture[]} chosen what is chosen already
 * @returns {Promise<ChosenPicture[]>}
 */
export async function added(files, chosen) {
  const all = [...chosen];
  for (const file of files) {
    if (!KINDS.includes(file.type)) throw new Error(`${file.name} is no picture that models read: PNG, JPEG, GIF and WebP are`);
    let bitmap;
    try {
      bitmap = await createImageBitmap(file);
    } catch {
      throw new Error(`${file.name} cannot be read as a picture`);
    }
    const blob = file.size > LARGE_BYTES ? ((await smaller(bitmap)) ?? file) : file;
    all.push({ name: file.name, bytes: blob.size, data: await encoded(blob), bitmap });
  }
  const total = all.reduce((sum, one) => sum + one.bytes, 0);
  if (all.length > MOST || total > MOST_BYTES) throw new Error(`a prompt has at most ${MOST} pictures of ${bytes(MOST_BYTES)} together; these are ${all.length} of ${bytes(total)}`);
  return all;
}

/** A picture that this page has, drawn: the policy of the pages takes pictures from the server only. */
export function Drawn({ bitmap, name }) {
  const canvas = useRef(null);
  useEffect(() => {
    const share = Math.min(1, 240 / Math.max(bitmap.width, bitmap.height));
    canvas.current.width = Math.max(1, Math.round(bitmap.width * share));
    canvas.current.height = Math.max(1, Math.round(bitmap.height * share));
    canvas.current.getContext("2d").drawImage(bitmap, 0, 0, canvas.current.width, canvas.current.height);
  }, [bitmap]);
  return html`<canvas ref=${canvas} class="picture" role="img" aria-label=${name}></canvas>`;
}

/** The pictures of a message, from the server or, of one that was just sent, from here. */
export function Pictures({ owner, id, message }) {
  const count = message.images ?? 0;
  if (count === 0) return null;
  if (message.shown) return html`<p class="pictures">${message.shown.map((bitmap, at) => html`<${Drawn} bitmap=${bitmap} name=${`Picture ${at + 1}`} key=${at} />`)}</p>`;
  if (!id || message.seq === null || message.seq === undefined) return html`<p class="quiet">${count === 1 ? "1 picture" : `${count} pictures`}</p>`;
  const path = `/api/conversations/${encodeURIComponent(owner)}/${encodeURIComponent(id)}/messages/${message.seq}/pictures`;
  const all = Array.from({ length: count }, (_, at) => at);
  return html`<p class="pictures">${all.map((at) => html`<a href=${`${path}/${at}`} download key=${at}><img class="picture" loading="lazy" src=${`${path}/${at}`} alt=${`Picture ${at + 1}`} /></a>`)}</p>`;
}
