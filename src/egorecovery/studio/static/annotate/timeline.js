// Plots motion energy with recovery phase, valid intent windows, candidate, boundary and playhead.

import { colour, smallFont } from "/static/shell/elements.js";

const SIDE = 14; // pixels left and right, so that the ends can be reached
const TOP = 22; // for the labels
const STRIP = 12; // the band of valid intent windows at the bottom

export class Timeline extends EventTarget {
  #motion = null;

  constructor(root) {
    super();
    this.root = root;
    this.canvas = root.querySelector("canvas");
    this.playhead = root.querySelector("#playhead");
    this.handle = root.querySelector("#boundary");
    this.frame = 0;
    this.boundary = null;
    new ResizeObserver(() => this.draw()).observe(root);
    this.#scrubByMouse();
    this.#dragBoundary();
  }

  open(motion, frames, hasBoundary) {
    this.#motion = motion;
    this.frames = frames;
    this.hasBoundary = hasBoundary;
    for (const slider of [this.playhead, this.handle]) slider.setAttribute("aria-valuemax", frames - 1);
  }

  show(frame, boundary) {
    this.frame = frame;
    this.boundary = boundary;
    this.draw();
  }

  // Frame t spans edge(t) to edge(t + 1).
  #edge(frame) {
    return SIDE + (frame / this.frames) * (this.root.clientWidth - 2 * SIDE);
  }

  #frameAt(clientX) {
    const along = (clientX - this.root.getBoundingClientRect().left - SIDE) / (this.root.clientWidth - 2 * SIDE);
    return Math.min(Math.max(Math.floor(along * this.frames), 0), this.frames - 1);
  }

  #scrubByMouse() {
    const scrub = (event) => this.#tell("scrub", this.#frameAt(event.clientX));
    this.root.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.target.closest("#boundary") || !this.#motion) return;
      this.root.setPointerCapture(event.pointerId);
      this.root.addEventListener("pointermove", scrub);
      scrub(event);
    });
    const end = () => this.root.removeEventListener("pointermove", scrub);
    this.root.addEventListener("pointerup", end);
    this.root.addEventListener("pointercancel", end);
    this.root.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        if (this.#motion) this.#tell("scrub", this.frame + Math.sign(event.deltaY || event.deltaX));
      },
      { passive: false },
    );
  }

  #dragBoundary() {
    // The handle is at the right edge of the boundary's frame, so half a frame is subtracted.
    const half = () => (this.#edge(1) - this.#edge(0)) / 2;
    const drag = (event) => this.#tell("boundary", this.#frameAt(event.clientX - half()));
    this.handle.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      event.preventDefault();
      this.handle.setPointerCapture(event.pointerId);
      this.handle.addEventListener("pointermove", drag);
    });
    const end = () => this.handle.removeEventListener("pointermove", drag);
    this.handle.addEventListener("pointerup", end);
    this.handle.addEventListener("pointercancel", end);
    this.handle.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key];
      if (!step || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      event.stopPropagation();
      this.#tell("boundary", (this.boundary ?? this.frame) + step * (event.shiftKey ? 10 : 1));
    });
  }

  #tell(what, frame) {
    this.dispatchEvent(new CustomEvent(what, { detail: Math.min(Math.max(frame, 0), this.frames - 1) }));
  }

  isValid(frame, boundary = this.boundary) {
    const { target_exists, inside_from } = this.#motion;
    return boundary !== null && target_exists[frame] && frame <= boundary && inside_from[frame] <= boundary;
  }

  draw() {
    if (!this.#motion) return;
    const [width, height] = [this.root.clientWidth, this.root.clientHeight];
    const ratio = window.devicePixelRatio;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const bottom = height - STRIP - 6;
    this.#shadeRecovery(pen, bottom);
    this.#curve(pen, bottom);
    this.#validWindows(pen, bottom);
    this.#labels(pen, width);
    this.#candidate(pen, bottom);
    this.#playhead(pen, height);
    this.#sliders();
  }

  #shadeRecovery(pen, bottom) {
    if (this.boundary === null) return;
    pen.fillStyle = colour("recovery-shade");
    pen.fillRect(this.#edge(0), TOP, this.#edge(this.boundary + 1) - this.#edge(0), bottom - TOP);
  }

  // Speed, not its square, so that pauses and slow motion look different.
  #curve(pen, bottom) {
    const speed = this.#motion.energy.map(Math.sqrt);
    const most = Math.max(...speed, 1e-9);
    const y = (value) => bottom - (value / most) * (bottom - TOP - 4);
    pen.beginPath();
    pen.moveTo(this.#edge(0.5), bottom);
    speed.forEach((value, frame) => pen.lineTo(this.#edge(frame + 0.5), y(value)));
    pen.lineTo(this.#edge(this.frames - 0.5), bottom);
    pen.fillStyle = colour("accent");
    pen.globalAlpha = 0.18;
    pen.fill();
    pen.globalAlpha = 1;
    pen.beginPath();
    speed.forEach((value, frame) => pen.lineTo(this.#edge(frame + 0.5), y(value)));
    pen.strokeStyle = colour("accent");
    pen.lineWidth = 1.5;
    pen.lineJoin = "round";
    pen.stroke();
    pen.fillStyle = colour("line");
    pen.fillRect(this.#edge(0), bottom, this.#edge(this.frames) - this.#edge(0), 1);
  }

  #validWindows(pen, bottom) {
    pen.fillStyle = colour("raised");
    pen.fillRect(this.#edge(0), bottom + 3, this.#edge(this.frames) - this.#edge(0), STRIP - 3);
    pen.fillStyle = colour("valid");
    let start = null;
    for (let frame = 0; frame <= this.frames; frame++) {
      const valid = frame < this.frames && this.isValid(frame);
      if (valid && start === null) start = frame;
      if (!valid && start !== null) {
        pen.fillRect(this.#edge(start), bottom + 3, this.#edge(frame) - this.#edge(start), STRIP - 3);
        start = null;
      }
    }
  }

  #labels(pen, width) {
    pen.font = smallFont();
    pen.textBaseline = "middle";
    const parts = [["motion", "accent"]];
    if (this.hasBoundary) parts.push(["recovery", "recovery"], ["valid intent window", "valid"]);
    if (this.#motion.candidate) parts.push(["candidate", "candidate"]);
    const space = (text) => pen.measureText(text).width + 28;
    let x = width - SIDE - parts.reduce((sum, [text]) => sum + space(text), 0) + 12;
    for (const [text, name] of parts) {
      pen.fillStyle = colour(name);
      pen.fillRect(x, 7, 10, 8);
      pen.fillStyle = colour("quiet");
      pen.fillText(text, x + 14, 11.5);
      x += space(text);
    }
  }

  #candidate(pen, bottom) {
    const candidate = this.#motion.candidate;
    if (!candidate) return;
    const x = this.#edge(candidate.frame + 1);
    pen.strokeStyle = colour("candidate");
    pen.lineWidth = 2;
    pen.setLineDash([4, 3]);
    pen.beginPath();
    pen.moveTo(x, TOP);
    pen.lineTo(x, bottom);
    pen.stroke();
    pen.setLineDash([]);
    pen.fillStyle = colour("candidate"); // stays visible below the boundary
    pen.beginPath();
    pen.moveTo(x - 8, bottom);
    pen.lineTo(x, bottom - 12);
    pen.lineTo(x + 8, bottom);
    pen.fill();
  }

  #playhead(pen, height) {
    const x = this.#edge(this.frame + 0.5);
    pen.fillStyle = colour("text");
    pen.fillRect(x - 1, TOP - 4, 2, height - TOP);
    pen.beginPath();
    pen.moveTo(x - 6, TOP - 10);
    pen.lineTo(x + 6, TOP - 10);
    pen.lineTo(x, TOP - 2);
    pen.fill();
  }

  // Updates the ARIA values and the position of the focus ring.
  #sliders() {
    this.playhead.style.left = `${this.#edge(this.frame + 0.5)}px`;
    this.playhead.setAttribute("aria-valuenow", this.frame);
    this.handle.hidden = this.boundary === null;
    if (this.boundary === null) return;
    this.handle.style.left = `${this.#edge(this.boundary + 1)}px`;
    this.handle.setAttribute("aria-valuenow", this.boundary);
    this.handle.setAttribute("aria-valuetext", `last frame of the recovery: ${this.boundary}`);
  }
}
