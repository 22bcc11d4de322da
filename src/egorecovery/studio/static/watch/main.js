// The viewer page: connects list, video, traces and keys.

import { getJson } from "/static/shell/api.js";
import { byId, element } from "/static/shell/elements.js";
import { Help } from "/static/shell/help.js";
import { Keys } from "/static/shell/keys.js";
import { applyTheme, toggleTheme } from "/static/shell/theme.js";
import { Controls } from "/static/video/controls.js";
import { FilmPlayer } from "/static/video/film_player.js";
import { Crop } from "/static/watch/crop.js";
import { fillFilters, filtered, plain } from "/static/watch/filters.js";
import { decisionAt, Traces } from "/static/watch/traces.js";

const INTRO = [
  "Below the video: the gate, shaded where the policy predicts recovery, and the coefficients of the intent. A value holds until the next decision.",
];

const player = new FilmPlayer([...document.querySelectorAll("#screen video")]);
const controls = new Controls(player);
const crop = new Crop(byId("screen"), player.videos);
let all = [];
let listed = [];
let shown;
let rate_hz;
let traces;

const film = (rollout) => rollout && { src: `/api/films/${rollout.id}`, frames: rollout.frames, rate_hz };
const place = () => listed.indexOf(shown);

function toast(text) {
  byId("toast").textContent = text;
  byId("toast").dataset.kind = "error";
  byId("toast").hidden = false;
}

function list() {
  listed = filtered(all);
  const buttons = listed.map((rollout) =>
    element(
      "button",
      { "data-id": rollout.id, onclick: () => show(rollout) },
      element("span", { class: "policy", title: rollout.policy }, plain(rollout.policy)),
      element("span", { "data-outcome": rollout.outcome }, rollout.outcome),
      element("span", { class: "start" }, startOf(rollout)),
    ),
  );
  byId("list").replaceChildren(...buttons);
  byId("count").textContent = `${listed.length} of ${all.length}`;
  if (!listed.includes(shown)) show(listed[0]);
  else mark();
}

function startOf({ task, regime, index, mode, seed }) {
  const failure = regime === "initial" ? "" : `, ${plain(mode)}`;
  return `${plain(task)}, ${regime} ${index}${failure}, seed ${seed}`;
}

function show(rollout, { play = false } = {}) {
  shown = rollout;
  byId("toast").hidden = true;
  byId("desk").hidden = !rollout;
  if (!rollout) return player.close();
  byId("name").textContent = plain(rollout.policy);
  byId("outcome").textContent = `${rollout.outcome}: ${rollout.reason}`;
  byId("outcome").dataset.outcome = rollout.outcome;
  const judge = rollout.scored_by === "people" ? ", scored by people" : "";
  byId("facts").textContent = `${startOf(rollout)}, ${rollout.retries} retries${judge}`;
  crop.rows = rollout.panel_px;
  mark();
  player.open(film(rollout), film(listed[place() + 1]));
  if (play) player.play();
}

function mark() {
  for (const button of byId("list").children) {
    const current = button.dataset.id === shown?.id;
    if (current) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
    if (current) button.scrollIntoView({ block: "nearest" });
  }
}

function go(by) {
  const wanted = listed[place() + by];
  if (wanted) show(wanted);
}

function read() {
  if (!shown) return;
  traces.show(shown, player.frame);
  const k = decisionAt(shown, player.frame);
  const gate = shown.gate[k];
  const intent = shown.intent[k];
  const parts = shown.decided_at.length ? [`decision ${k + 1} of ${shown.decided_at.length}`] : [];
  if (gate !== undefined) parts.push(`; gate ${gate.toFixed(2)}, ${gate > traces.gateOn ? "recovering" : "nominal"}`);
  if (intent) parts.push("; intent", ...intent.flatMap((value) => [" ", element("b", {}, value.toFixed(2))]));
  byId("reading").replaceChildren(...parts);
}

function scrub(event) {
  if (event.buttons !== 1) return;
  player.pause();
  player.seek(traces.frameAt(event));
}

const keys = new Keys("egorecovery watch keys", {
  ...controls.actions(),
  next: { keys: ["N", "ArrowDown"], words: "next rollout", run: () => go(1) },
  previous: { keys: ["P", "ArrowUp"], words: "previous rollout", run: () => go(-1) },
  find: { keys: ["/"], words: "find", run: () => byId("filter-text").focus() },
  help: { keys: ["?"], words: "this help", run: () => help.open() },
});
const help = new Help(byId("help-dialog"), keys, INTRO, () => {});
keys.listen(document, () => true);
player.addEventListener("moved", read);
player.addEventListener("broken", () => toast("This browser cannot play the video; open it with another program."));
byId("trace").addEventListener("pointerdown", scrub);
byId("trace").addEventListener("pointermove", scrub);
byId("filters").addEventListener("input", list);
byId("filters").addEventListener("reset", () => setTimeout(list)); // after the fields are cleared
byId("filters").addEventListener("submit", (event) => event.preventDefault());
byId("next").addEventListener("click", () => go(1));
byId("previous").addEventListener("click", () => go(-1));
byId("help").addEventListener("click", () => help.open());
byId("theme").addEventListener("click", () => {
  toggleTheme();
  read();
});
// After a mouse click, keys go to the page again.
document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (event.detail > 0 && button && !button.closest("dialog")) button.blur();
});

applyTheme();
try {
  const answer = await getJson("/api/rollouts");
  ({ rollouts: all, rate_hz } = answer);
  traces = new Traces(byId("trace"), answer.gate_on);
  fillFilters(all);
  list();
} catch (error) {
  toast(error.message);
}
