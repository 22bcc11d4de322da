// Shows a video without its top rows, scaled to fill the space.

export class Crop {
  #rows = 0;

  constructor(screen, videos) {
    Object.assign(this, { screen, videos });
    new ResizeObserver(() => this.#place()).observe(screen);
    for (const video of videos) video.addEventListener("loadedmetadata", () => this.#place());
  }

  set rows(rows) {
    this.#rows = rows;
    this.#place();
  }

  #place() {
    const { clientWidth: width, clientHeight: height } = this.screen;
    for (const video of this.videos) {
      const { videoWidth, videoHeight } = video;
      const rows = this.#rows < videoHeight ? this.#rows : 0;
      if (!videoWidth || !width) continue;
      const scale = Math.min(width / videoWidth, height / (videoHeight - rows));
      const [left, top] = [(width - videoWidth * scale) / 2, (height - (videoHeight + rows) * scale) / 2];
      Object.assign(video.style, {
        inset: "auto",
        left: `${left}px`,
        top: `${top}px`,
        width: `${videoWidth * scale}px`,
        height: `${videoHeight * scale}px`,
        clipPath: `inset(${rows * scale}px 0 0 0)`,
      });
    }
  }
}
