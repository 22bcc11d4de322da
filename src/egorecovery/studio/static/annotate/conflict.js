// A conflict: two people or tabs saved the same clip. Shows both values and lets the user choose.

import { byId, element } from "/static/shell/elements.js";

const FIELDS = { annotator: "annotator", boundary: "boundary", quality: "quality", discard: "discarded", note: "note" };

const spoken = (value) => (value === null || value === "" ? "none" : value === true ? "yes" : value === false ? "no" : `${value}`);

// Resolves to "theirs", "mine" or "look".
export function resolveConflict(clip, mine, theirs) {
  const dialog = byId("conflict-dialog");
  byId("conflict-what").textContent = `${clip}: nothing was overwritten. Which annotation should be used?`;
  const rows = Object.entries(FIELDS).map(([field, words]) => {
    const [ours, other] = [spoken(mine[field]), spoken(theirs[field])];
    const differs = ours === other ? "" : "differs";
    return element(
      "tr",
      { class: differs },
      element("th", { scope: "row" }, words),
      element("td", { "data-mine": field }, ours),
      element("td", { "data-theirs": field }, other),
    );
  });
  byId("conflict-rows").replaceChildren(...rows);
  return new Promise((resolve) => {
    const choose = (choice) => () => {
      dialog.onclose = null;
      dialog.close();
      resolve(choice);
    };
    byId("keep-theirs").onclick = choose("theirs");
    byId("save-mine").onclick = choose("mine");
    byId("look-again").onclick = choose("look");
    dialog.onclose = choose("look"); // Escape
    dialog.showModal();
  });
}
