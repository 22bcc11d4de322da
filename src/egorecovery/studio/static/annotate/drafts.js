// Unsaved changes to clips, kept while the page is open.

export class Drafts {
  #kept = new Map();

  keep({ id, seen, boundary, quality }, note) {
    this.#kept.set(id, { seen, boundary, quality, note });
  }

  // The draft of a clip, unless the clip was saved since.
  take({ id, revision }) {
    const draft = this.#kept.get(id);
    this.#kept.delete(id);
    return draft?.seen === revision ? draft : undefined;
  }

  drop(id) {
    this.#kept.delete(id);
  }

  clear() {
    this.#kept.clear();
  }
}
