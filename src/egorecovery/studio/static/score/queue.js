// One person's videos in order, their ratings, and the requests that change them.

import { getJson, postJson } from "/static/shell/api.js";

export class Queue extends EventTarget {
  constructor() {
    super();
    this.by = "";
    this.role = "rater";
    this.videos = [];
    this.session = null;
    this.place = 0;
  }

  get current() {
    return this.videos[this.place];
  }

  get rated() {
    return this.videos.filter(({ verdict }) => verdict).length;
  }

  async about() {
    this.session = await getJson("/api/session");
    return this.session;
  }

  // Fetches the videos. Shows the first open one, or stays at the current one.
  async load({ stay = false } = {}) {
    const who = new URLSearchParams({ by: this.by, role: this.role });
    const [answer] = await Promise.all([getJson(`/api/queue?${who}`), this.about()]);
    const shown = stay ? this.current?.id : undefined;
    this.videos = answer.videos;
    const again = this.videos.findIndex(({ id }) => id === shown);
    this.place = again >= 0 ? again : Math.max(this.#open(0), 0);
  }

  film(video) {
    return video && { src: `/api/videos/${video.id}`, frames: video.frames, rate_hz: video.rate_hz };
  }

  // The index of the next video without a verdict, from `start` on, then from the beginning; -1 if none.
  #open(start) {
    for (let step = 0; step < this.videos.length; step += 1) {
      const place = (start + step) % this.videos.length;
      if (!this.videos[place].verdict) return place;
    }
    return -1;
  }

  get following() {
    const open = this.#open(this.place + 1);
    return open >= 0 && open !== this.place ? open : -1;
  }

  go(place) {
    if (place < 0 || place >= this.videos.length) return false;
    this.place = place;
    return true;
  }

  async rate(video, verdict, note) {
    const { by, role } = this;
    try {
      const rating = { by, role, video: video.id, verdict, note, seen_revision: video.revision };
      this.#take(await postJson("/api/ratings", rating));
    } catch (error) {
      if (error.status === 409) this.#take(error.answer);
      throw error;
    }
  }

  async undo() {
    const { by, role } = this;
    const answer = await postJson("/api/undo", { by, role });
    this.#take(answer);
    this.go(this.videos.findIndex(({ id }) => id === answer.video.id));
  }

  async adjudicate() {
    this.session = await postJson("/api/adjudication", { by: this.by, role: "adjudicator" });
  }

  #take({ video, session }) {
    const known = this.videos.find(({ id }) => id === video.id);
    if (known) Object.assign(known, video);
    if (session) this.session = session;
  }
}
