// Plots gate and intent over a rollout, with the playhead. A value holds until the next decision.

import { colour } from "/static/shell/elements.js";

const GATE_SHARE = 0.55; // of the height; the intent has the rest
const LEFT = 52; // pixels for the labels
const PAD = 6;
const INTENT_COLOURS = ["accent", "recovery", "valid", "candidate"];

// The index of the decision in force at a frame; -1 before the first.
export function decisionAt(rollout, frame) {
  let index = -1;
  while (index + 1 < rollout.decided_at.length && rollout.decided_at[index + 1] <= frame) index += 1;
  return index;
}

export class Traces {
  constructor(canvas, gateOn) {
    Object.assign(this, { canvas, gateOn, rollout: null, frame: 0 });
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  show(rollout, frame) {
    this.rollout = rollout;
    this.frame = frame;
    this.draw();
  }

  // The frame under the mouse.
  frameAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const along = (event.clientX - box.left - LEFT) / (box.width - LEFT - PAD);
    return Math.round(Math.min(Math.max(along, 0), 1) * (this.rollout.frames - 1));
  }

  draw() {
    const { canvas, rollout } = this;
    const { clientWidth: width, clientHeight: height } = canvas;
    if (!rollout || !width) return;
    const ratio = devicePixelRatio;
    [canvas.width, canvas.height] = [width * ratio, height * ratio];
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = `12px ${colour("font")}`;
    const split = height * GATE_SHARE;
    this.#gate(pen, { left: LEFT, right: width - PAD, top: PAD, bottom: split - 4 });
    this.#intent(pen, { left: LEFT, right: width - PAD, top: split + 4, bottom: height - PAD });
    this.#playhead(pen, width, height);
  }

  #x(frame, { left, right }) {
    return left + ((right - left) * frame) / Math.max(this.rollout.frames - 1, 1);
  }

  // Draws the values as a step function.
  #steps(pen, values, box, yOf) {
    const { decided_at: at, frames } = this.rollout;
    pen.beginPath();
    values.forEach((value, k) => {
      const [from, to] = [at[k], at[k + 1] ?? frames - 1].map((frame) => this.#x(frame, box));
      if (k === 0) pen.moveTo(from, yOf(value));
      else pen.lineTo(from, yOf(value));
      pen.lineTo(to, yOf(value));
    });
    pen.stroke();
  }

  #frame(pen, box, name, missing) {
    pen.fillStyle = colour("quiet");
    pen.textBaseline = "middle";
    pen.fillText(name, 8, (box.top + box.bottom) / 2);
    pen.strokeStyle = colour("line");
    pen.lineWidth = 1;
    pen.strokeRect(box.left, box.top, box.right - box.left, box.bottom - box.top);
    if (missing) pen.fillText(missing, box.left + 10, (box.top + box.bottom) / 2);
  }

  #gate(pen, box) {
    const { gate, decided_at: at, frames } = this.rollout;
    const yOf = (value) => box.bottom - (box.bottom - box.top) * value;
    pen.fillStyle = colour("recovery-shade");
    gate.forEach((value, k) => {
      if (value <= this.gateOn) return;
      const [from, to] = [at[k], at[k + 1] ?? frames - 1].map((frame) => this.#x(frame, box));
      pen.fillRect(from, box.top, to - from, box.bottom - box.top);
    });
    this.#frame(pen, box, "gate", gate.length ? "" : "this policy has no gate");
    if (!gate.length) return;
    pen.setLineDash([4, 4]);
    pen.beginPath();
    pen.moveTo(box.left, yOf(this.gateOn));
    pen.lineTo(box.right, yOf(this.gateOn));
    pen.stroke();
    pen.setLineDash([]);
    pen.strokeStyle = colour("recovery");
    pen.lineWidth = 2;
    this.#steps(pen, gate, box, yOf);
  }

  #intent(pen, box) {
    const { intent } = this.rollout;
    this.#frame(pen, box, "intent", intent.length ? "" : "no intent on record");
    if (!intent.length) return;
    const values = intent.flat();
    const [low, high] = [Math.min(0, ...values), Math.max(1e-9, ...values)];
    const yOf = (value) => box.bottom - 2 - ((box.bottom - box.top - 4) * (value - low)) / (high - low);
    pen.lineWidth = 1.6;
    intent[0].forEach((_, c) => {
      pen.strokeStyle = colour(INTENT_COLOURS[c % INTENT_COLOURS.length]);
      this.#steps(pen, intent.map((coefficients) => coefficients[c]), box, yOf);
    });
  }

  #playhead(pen, width, height) {
    const x = this.#x(Math.min(this.frame, this.rollout.frames - 1), { left: LEFT, right: width - PAD });
    pen.strokeStyle = colour("text");
    pen.lineWidth = 1.5;
    pen.beginPath();
    pen.moveTo(x, 0);
    pen.lineTo(x, height);
    pen.stroke();
  }
}
