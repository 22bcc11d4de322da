// Plots the intent target at the playhead: one bar per DCT coefficient, in centimetres, scaled per clip.

import { colour, smallFont } from "/static/shell/elements.js";

const LABEL = 18;

export class IntentBars {
  constructor(figure) {
    this.canvas = figure.querySelector("canvas");
    this.caption = figure.querySelector("figcaption");
    this.most = 0;
  }

  open(intent_m, active) {
    this.intent_m = intent_m;
    this.active = active;
    this.most = Math.max(...intent_m.flat(), 0.01);
  }

  // Coloured if the frame is used in training, grey otherwise.
  show(frame, valid) {
    const values = this.intent_m[frame];
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    const ratio = window.devicePixelRatio;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = smallFont();
    pen.textAlign = "center";
    const step = width / values.length;
    values.forEach((value, index) => {
      const bar = (value / this.most) * (height - 2 * LABEL);
      pen.fillStyle = colour(valid ? "valid" : "line");
      pen.fillRect(index * step + step * 0.18, height - LABEL - bar, step * 0.64, Math.max(bar, 1));
      pen.fillStyle = colour("quiet");
      pen.fillText(this.#name(index, values.length), (index + 0.5) * step, height - 5);
      pen.fillText((value * 100).toFixed(1), (index + 0.5) * step, height - LABEL - bar - 4);
    });
    this.caption.textContent = valid ? "intent target, cm" : "intent, cm: no target here";
    const spoken = values.map((value) => (value * 100).toFixed(1)).join(", ");
    this.canvas.setAttribute("aria-label", `${this.caption.textContent}: ${spoken}`);
  }

  #name(index, count) {
    const perSide = count / this.active.length;
    const side = this.active.length > 1 ? `${this.active[Math.floor(index / perSide)][0].toUpperCase()} ` : "";
    return `${side}k${index % perSide}`;
  }
}
