// The Agreement page: differences between boundaries of two annotators.

import { getJson } from "/static/shell/api.js";
import { element } from "/static/shell/elements.js";

const percent = (share) => `${Math.round(share * 100)}%`;

export async function showAgreement(section, open) {
  const { pairs } = await getJson("/api/agreement");
  const head = element(
    "div",
    { class: "page-head" },
    element("h1", {}, "Agreement between annotators"),
    pairs.length ? element("a", { href: "/api/boundary-noise", download: "boundary_noise.json", class: "button" }, "Export boundary noise") : null,
  );
  const text = pairs.length
    ? "Differences in frames at 25 Hz. A clip is independent if neither annotator saw the candidate."
    : "No clip has boundaries of two annotators yet. Let a second person annotate some with the candidate hidden, which also hides others' boundaries.";
  section.replaceChildren(head, element("p", { class: "quiet" }, text), ...pairs.map((pair) => pairPart(pair, open)));
}

function pairPart(pair, open) {
  const facts = [
    ["clips", pair.clips],
    ["independent", pair.independent],
    ["median difference", pair.median_abs_frames],
    ["mean", signed(pair.mean_frames, 1)],
    ["standard deviation", pair.std_frames === null ? "–" : pair.std_frames.toFixed(1)],
    ...Object.entries(pair.within).map(([frames, share]) => [`within ${frames}`, percent(share)]),
  ];
  const worstFirst = [...pair.differences].sort((a, b) => Math.abs(b.frames) - Math.abs(a.frames));
  return element(
    "article",
    {},
    element("h2", {}, `${pair.first} and ${pair.second}`),
    element("dl", { class: "facts" }, ...facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", { class: "number" }, `${value}`)))),
    element(
      "table",
      {},
      element("thead", {}, element("tr", {}, ...["clip", pair.first, pair.second, "difference", ""].map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, ...worstFirst.map((difference) => differenceRow(difference, open))),
    ),
  );
}

function differenceRow(difference, open) {
  const { clip, first_boundary, second_boundary, frames, independent } = difference;
  return element(
    "tr",
    {},
    element("td", {}, element("button", { class: "link", onclick: () => open(clip) }, clip)),
    element("td", { class: "number" }, `${first_boundary}`),
    element("td", { class: "number" }, `${second_boundary}`),
    element("td", { class: "number" }, signed(frames, 0)),
    element("td", { class: "quiet" }, independent ? "independent" : ""),
  );
}

function signed(value, digits) {
  return `${value > 0 ? "+" : ""}${value.toFixed(digits)}`;
}
