// A video player that steps frame by frame. The next video is loaded in the background.

const SPEEDS = [0.25, 0.5, 1, 2, 4, 8];

export class FilmPlayer extends EventTarget {
  #active = 0;

  // `videos` are two stacked <video> elements. The events "moved" and "played" report changes.
  constructor(videos) {
    super();
    this.videos = videos;
    this.film = null; // {src, frames, rate_hz}
    this.speed = 1;
    for (const video of videos) {
      for (const event of ["seeking", "seeked", "timeupdate", "loadeddata", "ended"]) video.addEventListener(event, () => this.#moved(video));
      for (const event of ["play", "pause", "ended"]) video.addEventListener(event, () => this.dispatchEvent(new Event("played")));
      video.addEventListener("error", () => video === this.video && video.src && this.dispatchEvent(new Event("broken")));
    }
  }

  get video() {
    return this.videos[this.#active];
  }

  get playing() {
    return !this.video.paused && !this.video.ended;
  }

  // Whether the wanted frame is on the screen.
  get settled() {
    return this.video.readyState >= HTMLMediaElement.HAVE_CURRENT_DATA && !this.video.seeking;
  }

  get frame() {
    if (!this.film) return 0;
    const at = Math.floor(this.video.currentTime * this.film.rate_hz + 1e-3);
    return Math.min(Math.max(at, 0), this.film.frames - 1);
  }

  get duration_s() {
    return this.film ? this.film.frames / this.film.rate_hz : 0;
  }

  // Shows `film` from its start and preloads `following`, if given.
  open(film, following) {
    this.video.pause();
    if (this.videos[1 - this.#active].getAttribute("src") === film.src) this.#active = 1 - this.#active;
    else if (this.video.getAttribute("src") !== film.src) this.video.src = film.src;
    this.film = film;
    for (const video of this.videos) video.toggleAttribute("data-hidden", video !== this.video);
    this.video.currentTime = 0;
    this.video.playbackRate = this.speed;
    const spare = this.videos[1 - this.#active];
    if (following && following.src !== film.src && spare.getAttribute("src") !== following.src) spare.src = following.src;
    this.#moved(this.video);
  }

  close() {
    this.film = null;
    for (const video of this.videos) {
      video.pause();
      video.removeAttribute("src");
      video.load();
    }
  }

  async play() {
    if (!this.film) return;
    if (this.frame >= this.film.frames - 1) this.video.currentTime = 0;
    try {
      await this.video.play();
      this.#follow();
    } catch {
      // Paused before it began, or not allowed yet: the button stays unchanged.
    }
  }

  pause() {
    this.video.pause();
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  // Seeks to the middle of a frame, so that rounding cannot show its neighbour.
  seek(frame) {
    if (!this.film) return;
    const wanted = Math.min(Math.max(Math.round(frame), 0), this.film.frames - 1);
    this.video.currentTime = (wanted + 0.5) / this.film.rate_hz;
  }

  step(frames) {
    this.pause();
    this.seek(this.frame + frames);
  }

  setSpeed(speed) {
    this.speed = speed;
    for (const video of this.videos) video.playbackRate = speed;
    this.dispatchEvent(new Event("played"));
  }

  changeSpeed(by) {
    const place = SPEEDS.indexOf(this.speed) + by;
    if (place >= 0 && place < SPEEDS.length) this.setSpeed(SPEEDS[place]);
  }

  #moved(video) {
    if (video === this.video) this.dispatchEvent(new Event("moved"));
  }

  #follow() {
    if (!this.playing) return;
    this.dispatchEvent(new Event("moved"));
    requestAnimationFrame(() => this.#follow());
  }
}

export { SPEEDS };
