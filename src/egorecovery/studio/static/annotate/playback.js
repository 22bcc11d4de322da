// Playback of a clip: steps, speed, and a loop around the boundary.

import { byId } from "/static/shell/elements.js";

const SPEEDS = [0.25, 0.5, 1, 1.5, 2, 4];
const AROUND = 25; // frames of the loop on either side of the boundary: one second

export class Playback {
  // `boundary()` is the frame around which the loop runs, or null.
  constructor(player, boundary) {
    Object.assign(this, { player, boundary });
    this.looping = localStorage.getItem("egorecovery loop") === "yes";
    player.addEventListener("playing", () => this.describe());
    this.#fillSpeeds();
  }

  #fillSpeeds() {
    const select = byId("speed");
    for (const speed of SPEEDS) select.add(new Option(`${speed}×`, speed));
    select.onchange = () => {
      this.setSpeed(Number(select.value));
      select.blur();
    };
    this.setSpeed(Number(localStorage.getItem("egorecovery speed") ?? 1));
  }

  describe() {
    byId("play").firstChild.textContent = this.player.playing ? "Pause" : "Play";
    byId("loop").setAttribute("aria-pressed", this.looping);
  }

  scrub(frame) {
    this.player.pause();
    this.player.seek(frame);
  }

  step(frames) {
    this.scrub(this.player.frame + frames);
  }

  jump(frame) {
    if (frame !== null) this.scrub(frame);
  }

  togglePlay() {
    this.player.stretch = this.looping ? this.#stretch() : null;
    this.player.toggle();
  }

  toggleLoop() {
    this.looping = !this.looping;
    localStorage.setItem("egorecovery loop", this.looping ? "yes" : "no");
    if (this.looping) this.loop();
    else {
      this.player.stretch = null;
      this.player.pause();
    }
    this.describe();
  }

  loop() {
    this.player.stretch = this.#stretch();
    if (this.player.stretch) this.player.seek(this.player.stretch[0]);
    this.player.play();
  }

  // Follows a boundary moved to `frame`: with a running loop, or else with the playhead.
  follow(frame) {
    if (!this.moveLoop()) this.scrub(frame);
  }

  // Moves a running loop to the current boundary. Returns whether a loop is running.
  moveLoop() {
    if (!this.looping || !this.player.playing) return false;
    this.player.stretch = this.#stretch();
    return true;
  }

  #stretch() {
    const boundary = this.boundary();
    if (boundary === null) return null;
    return [Math.max(boundary - AROUND, 0), Math.min(boundary + AROUND, this.player.length - 1)];
  }

  setSpeed(speed) {
    const known = SPEEDS.includes(speed) ? speed : 1;
    byId("speed").value = known;
    this.player.setSpeed(known);
    localStorage.setItem("egorecovery speed", known);
  }

  changeSpeed(step) {
    const at = SPEEDS.indexOf(this.player.speed) + step;
    this.setSpeed(SPEEDS[Math.min(Math.max(at, 0), SPEEDS.length - 1)]);
  }
}
