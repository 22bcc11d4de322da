// Clips in memory: the current one, the next two, which are prefetched, and the last two.

import { ClipFrames } from "/static/annotate/clip_frames.js";

const KEPT = 5;

export class OpenedClips {
  #held = new Map(); // id -> {frames, answer: promise}; oldest first

  constructor(session, list) {
    Object.assign(this, { session, list });
  }

  // Requests a clip, or returns the earlier request.
  get(id) {
    const row = this.list.byId.get(id);
    if (!row) throw new Error(`there is no clip ${id} in this store`);
    const held = this.#held.get(id) ?? { frames: new ClipFrames(row), answer: this.session.clip(id) };
    held.answer.catch(() => this.#held.delete(id)); // the next access retries
    this.#held.delete(id);
    this.#held.set(id, held);
    for (const [other, { frames }] of this.#held) {
      if (this.#held.size <= KEPT) break;
      frames.drop();
      this.#held.delete(other);
    }
    return held;
  }

  // Fetches all bytes of the current clip, then those of the next two, while `isShown()`.
  async fetchAhead(id, frame, isShown) {
    await this.get(id).frames.load(frame);
    for (const next of this.list.ahead(id)) {
      if (!isShown()) return;
      const { frames, answer } = this.get(next);
      const { row, motion } = await answer;
      await frames.load(row.annotation?.boundary ?? motion.candidate?.frame ?? 0);
    }
    document.body.dataset.fetchedAhead = id;
  }

  drop() {
    for (const { frames } of this.#held.values()) frames.drop();
    this.#held.clear();
  }
}
