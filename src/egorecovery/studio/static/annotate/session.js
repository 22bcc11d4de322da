// The annotator, what they may see, and their undo list. All other state is in the app.

import { getJson, postJson } from "/static/shell/api.js";

const remembered = (name) => localStorage.getItem(`egorecovery ${name}`);
const remember = (name, value) => localStorage.setItem(`egorecovery ${name}`, value);

export class Session {
  constructor() {
    this.annotator = remembered("annotator") ?? "";
    this.independent = remembered("independent") === "yes";
    this.store = "";
  }

  become(annotator) {
    this.annotator = annotator.trim();
    remember("annotator", this.annotator);
  }

  setIndependent(independent) {
    this.independent = independent;
    remember("independent", independent ? "yes" : "no");
  }

  #viewer() {
    return new URLSearchParams({ annotator: this.annotator, independent: this.independent }).toString();
  }

  list() {
    return getJson(`/api/clips?${this.#viewer()}`);
  }

  clip(id) {
    return getJson(`/api/clips/${encodeURIComponent(id)}?${this.#viewer()}`);
  }

  row(id) {
    return getJson(`/api/clips/${encodeURIComponent(id)}/row?${this.#viewer()}`);
  }

  // Saves one clip's annotation and makes it undoable.
  async save(id, seenRevision, annotation) {
    const answer = await this.#post(id, "annotation", { seen_revision: seenRevision, ...annotation });
    // Not `seenRevision`: with the candidate hidden, a save may follow an unseen one of another person.
    const after = answer.row.revision;
    this.#keepUndos([...this.undos(), { clip: id, before: after - 1, after }]);
    return answer;
  }

  // Undoes the last save of this tab. Fails with status 409 if someone saved since.
  async undo() {
    const undos = this.undos();
    const last = undos.pop();
    const revisions = { to_revision: last.before, seen_revision: last.after };
    const answer = await this.#post(last.clip, "undo", revisions);
    // The clip now has the annotation of `before` under a new revision.
    for (const undo of undos) {
      if (undo.clip === last.clip && undo.after === last.before) undo.after = answer.row.revision;
    }
    this.#keepUndos(undos);
    return answer;
  }

  dropUndo() {
    this.#keepUndos(this.undos().slice(0, -1));
  }

  #post(id, what, change) {
    const who = { annotator: this.annotator, independent: this.independent };
    return postJson(`/api/clips/${encodeURIComponent(id)}/${what}`, { ...who, ...change });
  }

  // Stored per tab: it survives a reload, and tabs do not undo each other's work.
  undos() {
    return JSON.parse(sessionStorage.getItem(this.#undoName()) ?? "[]");
  }

  #keepUndos(undos) {
    sessionStorage.setItem(this.#undoName(), JSON.stringify(undos.slice(-200)));
  }

  #undoName() {
    return `egorecovery undo ${this.store} ${this.annotator}`;
  }
}
