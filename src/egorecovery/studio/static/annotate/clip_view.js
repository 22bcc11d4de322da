// The Annotate page: one clip's pictures, its motion, and the boundary that the annotator confirms.

import { byId } from "/static/shell/elements.js";
import { describeClip, describeNoClip } from "/static/annotate/clip_head.js";
import { resolveConflict } from "/static/annotate/conflict.js";
import { Drafts } from "/static/annotate/drafts.js";
import { IntentBars } from "/static/annotate/intent_bars.js";
import { OpenedClips } from "/static/annotate/opened_clips.js";
import { Playback } from "/static/annotate/playback.js";
import { Player } from "/static/annotate/player.js";
import { Timeline } from "/static/annotate/timeline.js";

const QUALITIES = ["good", "fair", "poor"];
const UNPROCESSABLE = 422; // the status if an episode cannot be read

export class ClipView {
  #drafts = new Drafts();

  constructor(session, list, { show, toast, askName, reload, progress, rateHz }) {
    Object.assign(this, { session, list, show, toast, askName, reload, progress });
    this.opened = new OpenedClips(session, list);
    this.player = new Player(byId("cameras"), rateHz);
    this.playback = new Playback(this.player, () => this.clip?.boundary ?? null);
    this.timeline = new Timeline(byId("timeline"));
    this.bars = new IntentBars(byId("intent"));
    this.clip = null; // {id, row, motion, seen, content, boundary, quality, changed, reviewing}
    this.#listen();
  }

  #listen() {
    this.player.addEventListener("moved", () => this.#drawMotion());
    this.player.addEventListener("failed", (event) => this.toast(event.detail.message, "error"));
    this.timeline.addEventListener("scrub", (event) => this.playback.scrub(event.detail));
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

  // ---- opening

  async open(id) {
    if (this.clip?.changed) this.#drafts.keep(this.clip, byId("note").value);
    this.wanted = id;
    try {
      await this.#open(id);
    } catch (error) {
      if (this.wanted !== id) return; // another one was opened meanwhile
      this.#blank(id);
      if (error.status !== UNPROCESSABLE) throw error;
      this.toast(`${id} is left out. ${error.message}`, "error");
      const next = this.list.nextOpen(id);
      this.list.leaveOut(id, error.message);
      this.progress();
      if (next) this.show(next);
    }
  }

  // Without a clip, no key or button may act on the previous one.
  #blank(id) {
    this.clip = null;
    this.player.close();
    describeNoClip(id);
  }

  async #open(id) {
    const { frames, answer } = this.opened.get(id);
    const { row: fetched, motion } = await answer;
    if (this.wanted !== id) return; // another one was opened meanwhile
    const row = this.list.byId.get(id) ?? fetched; // newer than the prefetched row
    const annotation = row.annotation;
    const draft = this.#drafts.take(row);
    this.clip = {
      id,
      row,
      motion,
      seen: row.revision,
      content: fetched.content, // of the pictures that are shown
      boundary: row.has_boundary ? (annotation?.boundary ?? motion.candidate?.frame ?? null) : null,
      quality: annotation?.quality ?? "good",
      changed: Boolean(draft),
      reviewing: row.state !== "open",
    };
    byId("note").value = draft?.note ?? annotation?.note ?? "";
    if (draft) {
      Object.assign(this.clip, { boundary: draft.boundary, quality: draft.quality });
      this.toast("Your changes to this clip are not saved yet.");
    }
    this.timeline.open(motion, row.frames, row.has_boundary);
    this.bars.open(motion.intent_m, row.active);
    this.player.stretch = null;
    this.player.open(frames, this.clip.boundary ?? 0);
    this.#describe();
    if (this.playback.looping) this.playback.loop();
    this.#fetchAhead(id);
  }

  async #fetchAhead(id) {
    try {
      await this.opened.fetchAhead(id, this.player.frame, () => this.clip?.id === id);
    } catch (error) {
      // An unreadable clip reports its error when it is opened.
      if (error.name !== "AbortError" && error.status !== UNPROCESSABLE) this.toast(error.message, "error");
    }
  }

  forget() {
    this.opened.drop();
    this.#drafts.clear();
    this.clip = null;
  }

  close() {
    this.player.pause();
  }

  // ---- what is shown

  #describe() {
    const { row } = this.clip;
    const { session, list, player } = this;
    describeClip(this.clip, { queue: list.queue, rateHz: player.rateHz, independent: session.independent });
    byId("discard").firstChild.textContent = row.state === "discarded" ? "Restore" : "Discard";
    byId("confirm").firstChild.textContent = row.has_boundary ? "Confirm, next" : "Next";
    byId("undo").disabled = this.session.undos().length === 0;
    byId("to-candidate").disabled = !this.clip.motion.candidate;
    for (const name of ["nudgeBack", "nudgeForward", "setHere"]) {
      document.querySelector(`[data-action=${name}]`).disabled = !row.has_boundary;
    }
    this.#describeQuality();
    this.playback.describe();
    this.#drawMotion();
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

  // ---- the annotation

  setBoundary(frame, { follow = false } = {}) {
    const { clip } = this;
    if (!clip?.row.has_boundary || frame === null || frame === undefined) return;
    clip.boundary = Math.min(Math.max(frame, 0), clip.row.frames - 1);
    clip.changed = true;
    if (follow) this.playback.follow(clip.boundary);
    else this.playback.moveLoop();
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

  #annotation(changes) {
    const { boundary, quality } = this.clip;
    return { boundary, quality, discard: false, note: byId("note").value.trim(), ...changes };
  }

  async confirm() {
    const { clip } = this;
    if (!clip.row.has_boundary) return this.#goOn();
    if (clip.boundary === null) return this.toast("Set the boundary first: B sets it at this frame.", "error");
    if (await this.#save(this.#annotation())) this.#goOn();
  }

  async discard() {
    const restoring = this.clip.row.state === "discarded";
    const { id } = this.clip;
    const changes = restoring ? { withdraw: true } : this.#annotation({ discard: true, boundary: null });
    if (!(await this.#save(changes))) return;
    if (restoring) return this.#describe();
    this.toast(`Discarded ${id}. Undo restores it.`);
    this.#goOn();
  }

  async #save(changes) {
    if (this.saving || this.wanted !== this.clip.id) return false; // the next clip is on its way
    if (!this.session.annotator) {
      this.askName();
      return false;
    }
    const { clip } = this;
    this.saving = true;
    try {
      this.#saved(clip, await this.session.save(clip.id, clip.seen, { seen_content: clip.content, ...changes }));
      return true;
    } catch (error) {
      if (error.status === 409) return await this.#resolve(clip, changes, error.answer.theirs);
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

  async #resolve(clip, changes, theirs) {
    if (!theirs) {
      this.toast("Not saved: the annotations on disk have changed. Check the clip, then save again.", "error");
      await this.reload();
      await this.open(clip.id);
      return false;
    }
    const mine = { annotator: this.session.annotator, quality: "good", note: "", ...changes };
    const choice = await resolveConflict(clip.id, mine, theirs);
    if (choice === "mine") {
      clip.seen = theirs.revision;
      this.saving = false;
      return this.#save(changes);
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

  // Shows another person's saved annotation.
  #adopt() {
    this.clip.changed = false;
    this.open(this.clip.id);
  }

  // Goes from an open clip to the next open one; from an annotated clip to the next in the list.
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
      this.#drafts.drop(row.id);
      if (this.clip?.id === row.id) this.clip.changed = false;
      if (this.clip?.id === row.id) await this.open(row.id);
      else this.show(row.id);
    } catch (error) {
      if (error.status === 409) {
        this.session.dropUndo();
        this.toast(`Not undone: ${error.answer.theirs?.annotator ?? "somebody"} has saved ${last.clip} since.`, "error");
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
