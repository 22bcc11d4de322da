// The controls below a video: play, steps, speed, and a slider whose value is the frame.

import { byId, element } from "/static/shell/elements.js";
import { SPEEDS } from "/static/video/film_player.js";

const DIGITS = 2;

// Connects the page's elements (see `film-controls` in the pages) to a player.
export class Controls {
  constructor(player) {
    this.player = player;
    byId("speed").append(...SPEEDS.map((speed) => element("option", { value: speed }, `${speed}×`)));
    byId("speed").value = player.speed;
    byId("speed").addEventListener("change", (event) => {
      player.setSpeed(Number(event.target.value));
      event.target.blur();
    });
    byId("play").addEventListener("click", () => player.toggle());
    for (const button of document.querySelectorAll("[data-step]")) {
      button.addEventListener("click", () => player.step(Number(button.dataset.step)));
    }
    byId("seek").addEventListener("input", (event) => {
      player.pause();
      player.seek(Number(event.target.value));
    });
    player.addEventListener("moved", () => this.render());
    player.addEventListener("played", () => this.render());
    for (const video of player.videos) video.addEventListener("click", () => player.toggle());
  }

  // Keys of every page with a video.
  actions() {
    const { player } = this;
    return {
      play: { keys: ["Space"], words: "play or pause", run: () => player.toggle() },
      back1: { keys: ["ArrowLeft"], words: "one frame back", run: () => player.step(-1) },
      forward1: { keys: ["ArrowRight"], words: "one frame on", run: () => player.step(1) },
      back10: { keys: ["Shift+ArrowLeft"], words: "ten frames back", run: () => player.step(-10) },
      forward10: { keys: ["Shift+ArrowRight"], words: "ten frames on", run: () => player.step(10) },
      first: { keys: ["Home"], words: "first frame", run: () => player.step(-Infinity) },
      last: { keys: ["End"], words: "last frame", run: () => player.step(Infinity) },
      slower: { keys: [","], words: "slower", run: () => player.changeSpeed(-1) },
      faster: { keys: ["."], words: "faster", run: () => player.changeSpeed(1) },
    };
  }

  render() {
    const { player } = this;
    const { film, frame } = player;
    byId("screen").setAttribute("aria-busy", !player.settled);
    byId("play").textContent = player.playing ? "Pause" : "Play";
    byId("speed").value = player.speed;
    byId("seek").max = film ? film.frames - 1 : 0;
    byId("seek").value = frame;
    const at = film ? `${(frame / film.rate_hz).toFixed(DIGITS)} s` : "";
    byId("seek").setAttribute("aria-valuetext", at);
    byId("frame").textContent = film ? `${at} of ${player.duration_s.toFixed(DIGITS)} s, frame ${frame}` : "";
  }
}
