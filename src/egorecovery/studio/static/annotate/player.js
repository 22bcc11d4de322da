// The player: draws one frame of every camera, plays at a speed, loops over a range of frames.

import { element } from "/static/shell/elements.js";

const AHEAD = 6; // frames decoded ahead while playing: a quarter of a second

export class Player extends EventTarget {
  #clip = null;
  #shown = { clip: null, frame: -1 };
  #drawing = false;
  #playing = null; // {from, at_ms} while playing

  constructor(container, rateHz) {
    super();
    this.container = container;
    this.rateHz = rateHz;
    this.canvases = [];
    this.frame = 0;
    this.speed = 1;
    this.stretch = null; // [first, last] while looping
  }

  get length() {
    return this.#clip?.length ?? 0;
  }

  get playing() {
    return this.#playing !== null;
  }

  open(clip, frame) {
    this.pause();
    if (this.#clip?.cameras.join() !== clip.cameras.join()) this.#makeCanvases(clip.cameras);
    this.#clip = clip;
    this.seek(frame);
  }

  #makeCanvases(cameras) {
    this.canvases = cameras.map((camera) => element("canvas", { role: "img", "data-camera": camera }));
    const figures = cameras.map((camera, index) =>
      element("figure", {}, this.canvases[index], element("figcaption", {}, camera.replace("_", " "))),
    );
    this.container.replaceChildren(...figures);
  }

  seek(frame) {
    this.frame = Math.min(Math.max(Math.round(frame), 0), this.length - 1);
    if (this.#playing) this.#playing = { from: this.frame, at_ms: performance.now() };
    this.dispatchEvent(new Event("moved"));
    this.#draw();
  }

  // Draws until the wanted frame is shown. Frames passed meanwhile are skipped.
  async #draw() {
    if (this.#drawing) return;
    this.#drawing = true;
    try {
      while (this.#clip && (this.#shown.clip !== this.#clip || this.#shown.frame !== this.frame)) {
        const [clip, frame] = [this.#clip, this.frame];
        const pictures = await clip.pictures(frame);
        if (clip !== this.#clip) continue;
        pictures.forEach((picture, index) => this.#paint(this.canvases[index], picture, clip, frame));
        this.#shown = { clip, frame };
        this.dispatchEvent(new Event("shown"));
        if (this.playing) {
          const last = Math.min(frame + AHEAD, clip.length - 1);
          for (let next = frame + 1; next <= last; next++) clip.pictures(next).catch(() => {}); // shown as an error below
        }
      }
    } catch (error) {
      this.pause();
      this.#blank(); // do not show another clip's picture
      if (error.name !== "AbortError") this.dispatchEvent(new CustomEvent("failed", { detail: error }));
    } finally {
      this.#drawing = false;
    }
  }

  #paint(canvas, picture, clip, frame) {
    if (canvas.width !== picture.width || canvas.height !== picture.height) {
      canvas.width = picture.width;
      canvas.height = picture.height;
    }
    canvas.getContext("2d").drawImage(picture, 0, 0);
    canvas.dataset.clip = clip.id;
    canvas.dataset.frame = frame;
    canvas.setAttribute("aria-label", `${canvas.dataset.camera} camera, frame ${frame}`);
  }

  #blank() {
    this.#shown = { clip: null, frame: -1 };
    for (const canvas of this.canvases) {
      canvas.getContext("2d").clearRect(0, 0, canvas.width, canvas.height);
      delete canvas.dataset.clip;
      delete canvas.dataset.frame;
    }
  }

  close() {
    this.pause();
    this.#clip = null;
    this.#blank();
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  play() {
    if (!this.#clip || this.playing) return;
    const [first, last] = this.#range();
    if (this.frame >= last || this.frame < first) this.seek(first);
    this.#playing = { from: this.frame, at_ms: performance.now() };
    this.dispatchEvent(new Event("playing"));
    requestAnimationFrame(() => this.#tick());
  }

  pause() {
    if (!this.playing) return;
    this.#playing = null;
    this.dispatchEvent(new Event("playing"));
  }

  setSpeed(speed) {
    this.speed = speed;
    if (this.#playing) this.#playing = { from: this.frame, at_ms: performance.now() };
  }

  #range() {
    return this.stretch ?? [0, this.length - 1];
  }

  #tick() {
    if (!this.#playing) return;
    const [first, last] = this.#range();
    const passed = ((performance.now() - this.#playing.at_ms) / 1000) * this.rateHz * this.speed;
    let frame = this.#playing.from + Math.floor(passed);
    if (frame > last && this.frame < last) frame = last; // the last frame is always shown
    else if (frame > last) {
      if (!this.stretch) {
        this.seek(last);
        this.pause();
        return;
      }
      frame = first;
      this.#playing = { from: first, at_ms: performance.now() };
    }
    if (frame !== this.frame) {
      this.frame = frame;
      this.dispatchEvent(new Event("moved"));
      this.#draw();
    }
    requestAnimationFrame(() => this.#tick());
  }
}
