// The panel beside the video: the task's written criteria and, in adjudication, the ratings.

import { element } from "/static/shell/elements.js";

const PARTS = [
  ["success", "Success: all of these", "good"],
  ["failure", "Failure: any of these", "poor"],
  ["allowed", "Allowed", ""],
  ["every_task", "For every task", ""],
];

export function showRules(panel, criteria, video) {
  const rules = criteria[video.task];
  const parts = PARTS.filter(([name]) => rules[name].length).flatMap(([name, title, kind]) => [
    element("h3", { class: kind }, title),
    element("ul", {}, ...rules[name].map((sentence) => element("li", {}, sentence))),
  ]);
  panel.replaceChildren(...(video.raters ? [ratings(video)] : []), element("h2", {}, rules.title), ...parts);
}

function ratings(video) {
  const decided = video.by ? [{ name: `${video.by} decided`, verdict: video.verdict, note: video.note }] : [];
  const rows = [...video.raters, ...decided].map(({ name, verdict, note }) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, name),
      element("td", { "data-verdict": verdict }, verdict),
      element("td", {}, note),
    ),
  );
  return element("table", { class: "ratings", "aria-label": "Ratings" }, element("tbody", {}, ...rows));
}
