// One clip's pictures: the store's JPEG bytes, fetched in batches and decoded when shown.

import { getBytes } from "/static/shell/api.js";

const BATCH = 32; // frames of all cameras in one request: 1.3 s of the clip
const KEPT_PIXELS = 80e6; // decoded pictures kept: 320 MB, about 80 frames of three 640x480 cameras

// Decoded pictures of all clips, least recently shown first.
class Decoded {
  #kept = new Map();
  #pixels = 0;

  get(key, decode) {
    let entry = this.#kept.get(key);
    if (entry) {
      this.#kept.delete(key);
      this.#kept.set(key, entry);
      return entry.picture;
    }
    entry = { pixels: 0, picture: decode() };
    this.#kept.set(key, entry);
    entry.picture.then(
      (bitmap) => {
        entry.pixels = bitmap.width * bitmap.height;
        this.#pixels += entry.pixels;
        this.#trim();
      },
      () => this.#kept.delete(key),
    );
    return entry.picture;
  }

  #trim() {
    for (const [key, entry] of this.#kept) {
      if (this.#pixels <= KEPT_PIXELS) return;
      if (!entry.pixels) continue; // still being decoded
      this.#kept.delete(key);
      this.#pixels -= entry.pixels;
      entry.picture.then((bitmap) => bitmap.close());
    }
  }
}

const decoded = new Decoded();

export class ClipFrames {
  #batches = new Map(); // number -> promise of the JPEGs of each camera
  #dropped = new AbortController();

  constructor(row) {
    this.id = row.id;
    this.cameras = row.cameras;
    this.length = row.frames;
  }

  // The pictures of one frame, in the order of the cameras.
  pictures(frame) {
    return Promise.all(this.cameras.map((_, camera) => this.#picture(camera, frame)));
  }

  #picture(camera, frame) {
    return decoded.get(`${this.id} ${camera} ${frame}`, async () => {
      const batch = await this.#batch(Math.floor(frame / BATCH));
      return createImageBitmap(new Blob([batch[camera][frame % BATCH]], { type: "image/jpeg" }));
    });
  }

  #batch(number) {
    if (!this.#batches.has(number)) {
      const path = `/api/clips/${encodeURIComponent(this.id)}/frames?first=${number * BATCH}&count=${BATCH}`;
      const batch = getBytes(path, this.#dropped.signal).then(split);
      this.#batches.set(number, batch);
      batch.catch(() => this.#batches.delete(number)); // the next access retries
    }
    return this.#batches.get(number);
  }

  // Fetches all bytes, nearest to `frame` first, and decodes that frame.
  async load(frame) {
    await this.pictures(frame);
    const centre = Math.floor(frame / BATCH);
    const numbers = Array.from({ length: Math.ceil(this.length / BATCH) }, (_, number) => number);
    numbers.sort((a, b) => Math.abs(a - centre) - Math.abs(b - centre));
    for (const number of numbers) await this.#batch(number);
  }

  drop() {
    this.#dropped.abort();
    this.#batches.clear();
  }
}

// The layout that `ClipIndex.frame_batch` writes.
function split(buffer) {
  const view = new DataView(buffer);
  const [cameras, frames] = [view.getUint32(0, true), view.getUint32(4, true)];
  let start = 8 + 4 * cameras * (frames + 1);
  return Array.from({ length: cameras }, (_, camera) => {
    const offset = (frame) => view.getUint32(8 + 4 * (camera * (frames + 1) + frame), true);
    const jpegs = Array.from(
      { length: frames },
      (_, frame) => new Uint8Array(buffer, start + offset(frame), offset(frame + 1) - offset(frame)),
    );
    start += offset(frames);
    return jpegs;
  });
}
