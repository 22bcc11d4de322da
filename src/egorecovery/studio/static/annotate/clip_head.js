// The line above the pictures: the clip, its annotator, and whether someone else annotated it meanwhile.

import { byId } from "/static/shell/elements.js";
import { STATES } from "/static/annotate/clip_list.js";

export function describeClip({ id, row, seen }, { queue, rateHz, independent }) {
  byId("clip-name").textContent = id;
  byId("clip-state").textContent = STATES[row.state];
  byId("clip-state").dataset.state = row.state;
  const seconds = (row.frames / rateHz).toFixed(1);
  const by = row.annotation ? ` · by ${row.annotation.annotator}` : "";
  const place = queue.indexOf(id) + 1;
  byId("clip-facts").textContent =
    `${row.task} · ${row.source.replace("_", " ")} · ${row.frames} frames, ${seconds} s${by}` +
    (place ? ` · clip ${place} of ${queue.length}` : "");
  const news = row.revision !== seen && !independent && row.annotation;
  const theirs = news && (row.annotation.discard ? "discarded it" : `saved boundary ${row.annotation.boundary}`);
  byId("clip-notice").textContent = news ? `${row.annotation.annotator} ${theirs} meanwhile` : "";
  byId("use-theirs").hidden = !news;
}

export function describeNoClip(id) {
  byId("clip-name").textContent = id;
  for (const part of ["clip-state", "clip-facts", "clip-notice"]) byId(part).textContent = "";
  byId("use-theirs").hidden = true;
}
