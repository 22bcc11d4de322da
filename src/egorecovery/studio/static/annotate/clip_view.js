// The Annotate page: one clip's pictures, its motion, and the boundary that the annotator confirms.

import { byId } from "/static/shell/elements.js";
import { ClipFrames } from "/static/annotate/clip_frames.js";
import { STATES } from "/static/annotate/clip_list.js";
import { resolveConflict } from "/static/annotate/conflict.js";
import { IntentBars } from "/static/annotate/intent_bars.js";
import { Player } from "/static/annotate/player.js";
import { Timeline } from "/static/annotate/timeline.js";

const SPEEDS = [0.25, 0.5, 1, 1.5, 2, 4];
const AROUND = 25; // frames of the loop on either side of the boundary: one second
const QUALITIES = ["good", "fair", "poor"];
const KEPT_CLIPS = 5; // in memory: this one, two ahead, two behind

export class ClipView {
  #opened = new Map(); // id -> {frames, answer: promise}; oldest first

  constructor(session, list, { show, toast, progress, rateHz }) {
    Object.assign(this, { session, list, show, toast, progress });
    this.player = new Player(byId("cameras"), rateHz);
    this.timeline = new Timeline(byId("timeline"));
    this.bars = new IntentBars(byId("intent"));
    this.clip = null; // {id, row, motion, seen, boundary, quality, changed, reviewing}
    this.looping = localStorage.getItem("egorecovery loop") === "yes";
    this.#listen();
    this.#fillSpeeds();
  }

  #listen() {
    this.player.addEventListener("moved", () => this.#drawMotion());
    this.player.addEventListener("playing", () => this.#describePlaying());
    this.player.addEventListener("failed", (event) => this.toast(event.detail.message, "error"));
    this.timeline.addEventListener("scrub", (event) => this.#scrub(event.detail));
    this.timeline.addEventListener("boundary", (event) => this.setBoundary(event.detail, { follow: true }));
    for (const button of document.querySelectorAll("[data-quality]")) {
      button.onclick = () => this.setQuality(button.dataset.quality);
    }
    byId("note").addEventListener("input", () => this.clip && (this.clip.changed = true));
    byId("note").addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === "Escape") event.target.blur();
    });
    byId("use-theirs").onclick = () => this.#adopt();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#drawMotion());
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

  // ---- opening

  #fetched(id) {
    const row = this.list.byId.get(id);
    if (!row) throw new Error(`there is no clip ${id} in this store`);
    const held = this.#opened.get(id) ?? { frames: new ClipFrames(row), answer: this.session.clip(id) };
    held.answer.catch(() => this.#opened.delete(id)); // the next look asks again
    this.#opened.delete(id);
    this.#opened.set(id, held);
    for (const [other, { frames }] of this.#opened) {
      if (this.#opened.size <= KEPT_CLIPS) break;
      frames.drop();
      this.#opened.delete(other);
    }
    return held;
  }

  async open(id) {
    const held = this.#fetched(id);
    this.wanted = id;
    const { row: fetched, motion } = await held.answer;
    if (this.wanted !== id) return; // another one was opened meanwhile
    const row = this.list.byId.get(id) ?? fetched; // newer than what was fetched ahead
    const said = row.annotation;
    this.clip = {
      id,
      row,
      motion,
      seen: row.revision,
      boundary: row.has_boundary ? (said?.boundary ?? motion.candidate?.frame ?? null) : null,
      quality: said?.quality ?? "good",
      changed: false,
      reviewing: row.state !== "open",
    };
    byId("note").value = said?.note ?? "";
    this.timeline.open(motion, row.frames, row.has_boundary);
    this.bars.open(motion.intent_m, row.active);
    this.player.stretch = null;
    this.player.open(held.frames, this.clip.boundary ?? 0);
    this.#describe();
    if (this.looping) this.#loop();
    await this.#fetchAhead(id, held);
  }

  // This clip's bytes first, then those of the two that come next.
  async #fetchAhead(id, held) {
    try {
      await held.frames.load(this.player.frame);
      for (const next of this.list.ahead(id)) {
        if (this.clip?.id !== id) return;
        const ahead = this.#fetched(next);
        const { row, motion } = await ahead.answer;
        await ahead.frames.load(row.annotation?.boundary ?? motion.candidate?.frame ?? 0);
      }
      document.body.dataset.fetchedAhead = id;
    } catch (error) {
      if (error.name !== "AbortError") this.toast(error.message, "error");
    }
  }

  forget() {
    for (const { frames } of this.#opened.values()) frames.drop();
    this.#opened.clear();
    this.clip = null;
  }

  close() {
    this.player.pause();
  }

  // ---- what is shown

  #describe() {
    const { id, row } = this.clip;
    byId("clip-name").textContent = id;
    byId("clip-state").textContent = STATES[row.state];
    byId("clip-state").dataset.state = row.state;
    const seconds = (row.frames / this.player.rateHz).toFixed(1);
    const by = row.annotation ? ` · by ${row.annotation.annotator}` : "";
    const place = this.list.queue.indexOf(id) + 1;
    byId("clip-facts").textContent =
      `${row.task} · ${row.source.replace("_", " ")} · ${row.frames} frames, ${seconds} s${by}` +
      (place ? ` · clip ${place} of ${this.list.queue.length}` : "");
    byId("discard").firstChild.textContent = row.state === "discarded" ? "Restore" : "Discard";
    byId("confirm").firstChild.textContent = row.has_boundary ? "Confirm, next" : "Next";
    byId("undo").disabled = this.session.undos().length === 0;
    byId("to-candidate").disabled = !this.clip.motion.candidate;
    for (const name of ["nudgeBack", "nudgeForward", "setHere"]) {
      document.querySelector(`[data-action=${name}]`).disabled = !row.has_boundary;
    }
    this.#notice();
    this.#describeQuality();
    this.#describePlaying();
    this.#drawMotion();
  }

  // Whether somebody saved this clip after it was opened here.
  #notice() {
    const { row, seen } = this.clip;
    const news = row.revision !== seen && !this.session.independent && row.annotation;
    const theirs = news && (row.annotation.discard ? "discarded it" : `saved boundary ${row.annotation.boundary}`);
    byId("clip-notice").textContent = news ? `${row.annotation.annotator} ${theirs} meanwhile` : "";
    byId("use-theirs").hidden = !news;
  }

  #drawMotion() {
    if (!this.clip) return;
    const { frame } = this.player;
    const { boundary, row } = this.clip;
    this.timeline.show(frame, boundary);
    this.bars.show(frame, this.timeline.isValid(frame));
    byId("frame").textContent = `frame ${frame} / ${row.frames - 1}`;
    byId("boundary-frame").textContent = !row.has_boundary ? "no boundary" : boundary === null ? "not set" : `boundary ${boundary}`;
  }

  #describeQuality() {
    for (const button of document.querySelectorAll("[data-quality]")) {
      button.setAttribute("aria-pressed", button.dataset.quality === this.clip.quality);
    }
  }

  #describePlaying() {
    byId("play").firstChild.textContent = this.player.playing ? "Pause" : "Play";
    byId("loop").setAttribute("aria-pressed", this.looping);
  }

  // ---- playing

  #scrub(frame) {
    this.player.pause();
    this.player.seek(frame);
  }

  step(frames) {
    this.#scrub(this.player.frame + frames);
  }

  jump(frame) {
    if (frame !== null) this.#scrub(frame);
  }

  togglePlay() {
    this.player.stretch = this.looping ? this.#stretch() : null;
    this.player.toggle();
  }

  toggleLoop() {
    this.looping = !this.looping;
    localStorage.setItem("egorecovery loop", this.looping ? "yes" : "no");
    if (this.looping) this.#loop();
    else {
      this.player.stretch = null;
      this.player.pause();
    }
    this.#describePlaying();
  }

  #stretch() {
    if (this.clip.boundary === null) return null;
    return [Math.max(this.clip.boundary - AROUND, 0), Math.min(this.clip.boundary + AROUND, this.clip.row.frames - 1)];
  }

  #loop() {
    this.player.stretch = this.#stretch();
    if (this.player.stretch) this.player.seek(this.player.stretch[0]);
    this.player.play();
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

  // ---- the annotation

  setBoundary(frame, { follow = false } = {}) {
    const { clip } = this;
    if (!clip?.row.has_boundary || frame === null || frame === undefined) return;
    clip.boundary = Math.min(Math.max(frame, 0), clip.row.frames - 1);
    clip.changed = true;
    if (this.looping && this.player.playing) this.player.stretch = this.#stretch();
    else if (follow) this.#scrub(clip.boundary);
    this.#drawMotion();
  }

  nudge(step) {
    this.setBoundary((this.clip.boundary ?? this.player.frame) + step, { follow: true });
  }

  setHere() {
    this.setBoundary(this.player.frame);
  }

  toCandidate() {
    if (this.clip.motion.candidate) this.setBoundary(this.clip.motion.candidate.frame, { follow: true });
    else this.toast("The candidate is hidden or this clip has none.");
  }

  setQuality(quality) {
    this.clip.quality = quality;
    this.clip.changed = true;
    this.#describeQuality();
  }

  cycleQuality() {
    this.setQuality(QUALITIES[(QUALITIES.indexOf(this.clip.quality) + 1) % QUALITIES.length]);
  }

  #said(changes) {
    const { boundary, quality } = this.clip;
    return { boundary, quality, discard: false, note: byId("note").value.trim(), ...changes };
  }

  async confirm() {
    const { clip } = this;
    if (!clip.row.has_boundary) return this.#goOn();
    if (clip.boundary === null) return this.toast("Set the boundary first: B sets it at this frame.", "error");
    if (await this.#save(this.#said())) this.#goOn();
  }

  async discard() {
    const restoring = this.clip.row.state === "discarded";
    const { id } = this.clip;
    const said = restoring ? { withdraw: true } : this.#said({ discard: true, boundary: null });
    if (!(await this.#save(said))) return;
    if (restoring) return this.#describe();
    this.toast(`Discarded ${id}. Undo brings it back.`);
    this.#goOn();
  }

  async #save(said) {
    if (this.saving || !this.session.annotator) return false;
    const { clip } = this;
    this.saving = true;
    try {
      this.#saved(clip, await this.session.save(clip.id, clip.seen, said));
      return true;
    } catch (error) {
      if (error.status === 409) return await this.#resolve(clip, said, error.answer.theirs);
      this.toast(`Not saved: ${error.message}`, "error");
      return false;
    } finally {
      this.saving = false;
    }
  }

  #saved(clip, { row, ...progress }) {
    this.list.update(row);
    Object.assign(clip, { row, seen: row.revision, changed: false });
    this.progress(progress);
  }

  async #resolve(clip, said, theirs) {
    const mine = { annotator: this.session.annotator, quality: "good", note: "", ...said };
    const choice = await resolveConflict(clip.id, mine, theirs);
    if (choice === "mine") {
      clip.seen = theirs.revision;
      this.saving = false;
      return this.#save(said);
    }
    this.list.update(await this.session.row(clip.id));
    if (choice === "theirs") {
      this.#adopt();
      return true;
    }
    clip.row = this.list.byId.get(clip.id);
    this.#describe();
    return false;
  }

  // What somebody else saved becomes what is shown here.
  #adopt() {
    this.open(this.clip.id);
  }

  // From a clip that was still open to the next such one; while looking through, to the next in the list.
  #goOn() {
    const { id, reviewing } = this.clip;
    const next = reviewing ? this.list.neighbour(id, 1) : this.list.nextOpen(id);
    if (next) this.show(next);
    else {
      this.#describe();
      this.toast(reviewing ? "This was the last clip of the list." : "Every clip of the list is annotated.");
    }
  }

  nextOpen() {
    const next = this.list.nextOpen(this.clip.id);
    if (next) this.show(next);
    else this.toast("No other clip of the list is left to annotate.");
  }

  go(step) {
    const next = this.list.neighbour(this.clip.id, step);
    if (next) this.show(next);
    else this.toast(step > 0 ? "This is the last clip of the list." : "This is the first clip of the list.");
  }

  async undo() {
    const last = this.session.undos().at(-1);
    if (!last) return this.toast("Nothing to undo in this tab.");
    if (this.saving) return;
    this.saving = true;
    try {
      const { row, ...progress } = await this.session.undo();
      this.list.update(row);
      this.progress(progress);
      this.toast(`Undone: ${row.id}.`);
      if (this.clip?.id === row.id) await this.open(row.id);
      else this.show(row.id);
    } catch (error) {
      if (error.status === 409) {
        this.session.dropUndo();
        this.toast(`Not undone: ${error.answer.theirs.annotator} has saved ${last.clip} since.`, "error");
      } else this.toast(`Not undone: ${error.message}`, "error");
    } finally {
      this.saving = false;
    }
  }

  // A row changed in another tab or by another person.
  heard(row) {
    if (this.clip?.id !== row.id) return;
    this.clip.row = row;
    this.#describe();
  }
}
