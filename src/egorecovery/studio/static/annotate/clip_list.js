// The clips visible to this annotator, their filter and their order.

export const ALL = "";
export const STATES = { open: "to annotate", annotated: "annotated", discarded: "discarded", success: "no boundary", damaged: "damaged" };

export class ClipList extends EventTarget {
  constructor() {
    super();
    this.rows = [];
    this.byId = new Map();
    this.filter = { text: "", source: ALL, task: ALL, state: ALL, quality: ALL };
    this.shown = [];
    this.queue = []; // ids in the order of annotation
  }

  fill(rows) {
    this.rows = rows;
    this.byId = new Map(rows.map((row) => [row.id, row]));
    for (const row of rows) row.searched = searchedText(row);
    this.apply();
  }

  update(row) {
    row.searched = searchedText(row);
    const at = this.rows.findIndex((other) => other.id === row.id);
    if (at >= 0) this.rows[at] = row;
    this.byId.set(row.id, row);
    this.apply();
  }

  setFilter(changes) {
    Object.assign(this.filter, changes);
    this.apply();
  }

  apply() {
    const { text, source, task, state, quality } = this.filter;
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    this.shown = this.rows.filter(
      (row) =>
        (!source || row.source === source) &&
        (!task || row.task === task) &&
        (!state || row.state === state) &&
        (!quality || row.annotation?.quality === quality) &&
        words.every((word) => row.searched.includes(word)),
    );
    this.dispatchEvent(new Event("change"));
  }

  values(field) {
    return [...new Set(this.rows.map((row) => row[field]).filter(Boolean))].sort();
  }

  // Fixes the order of clips to the list as filtered now, even if their state changes.
  takeQueue() {
    this.queue = this.shown.filter((row) => row.state !== "damaged").map((row) => row.id);
  }

  neighbour(id, step) {
    const at = this.queue.indexOf(id);
    return at < 0 ? this.queue[0] : this.queue[at + step];
  }

  nextOpen(id, leavingOut) {
    const at = this.queue.indexOf(id);
    const onwards = [...this.queue.slice(at + 1), ...this.queue.slice(0, Math.max(at, 0))];
    return onwards.find((other) => other !== leavingOut && this.byId.get(other)?.state === "open");
  }

  // Removes a clip that cannot be opened from the order.
  leaveOut(id, damage) {
    this.queue = this.queue.filter((other) => other !== id);
    this.update({ ...this.byId.get(id), has_boundary: false, state: "damaged", damage });
  }

  // The next two clips after Enter, which are prefetched.
  ahead(id) {
    const first = this.nextOpen(id) ?? this.neighbour(id, 1);
    const second = first && (this.nextOpen(first, id) ?? this.neighbour(first, 1));
    return [first, second].filter((other) => other && other !== id);
  }

  progress() {
    const recoveries = this.rows.filter((row) => row.has_boundary);
    const damaged = this.rows.filter((row) => row.state === "damaged").length;
    return { done: recoveries.filter((row) => row.state !== "open").length, all: recoveries.length, damaged };
  }
}

function searchedText(row) {
  const annotation = row.annotation;
  return [row.id, row.operator, row.task, annotation?.annotator, annotation?.note].filter(Boolean).join(" ").toLowerCase();
}
