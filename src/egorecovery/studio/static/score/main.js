// The scoring page: connects session state, video, verdict and keys.

import { byId, element } from "/static/shell/elements.js";
import { Help, keyText } from "/static/shell/help.js";
import { Keys } from "/static/shell/keys.js";
import { applyTheme, toggleTheme } from "/static/shell/theme.js";
import { Controls } from "/static/video/controls.js";
import { FilmPlayer } from "/static/video/film_player.js";
import { Queue } from "/static/score/queue.js";
import { showRules } from "/static/score/rules.js";

const TOAST_MS = 4000;
const UNBLIND = "All videos are decided. Unblind with: egorecovery score SESSION --export FOLDER";
const RATER = "egorecovery rater";
const INTRO = [
  "Watch the video, judge by the rules beside it, press 1 or 0: the next video begins. The policy's name is hidden.",
  "Write a note before the verdict; Enter leaves it. U undoes the last verdict and shows its video again.",
];

const queue = new Queue();
const player = new FilmPlayer([...document.querySelectorAll("#screen video")]);
const controls = new Controls(player);
const drafts = new Map(); // id -> note of a video without a verdict
let shown; // id of the video on the screen
let busy = false;

let toastEnd;
function toast(text, kind = "note", stay = false) {
  const line = byId("toast");
  line.textContent = text;
  line.dataset.kind = kind;
  line.hidden = false;
  clearTimeout(toastEnd);
  if (!stay) toastEnd = setTimeout(() => (line.hidden = true), TOAST_MS);
}

// A pending save or refresh. A decision made meanwhile waits for it and is not dropped.
let background = Promise.resolve();
function meanwhile(what) {
  background = background
    .then(what)
    .catch((error) => toast(error.message, "error"))
    .then(() => render());
}

// One decision at a time. A key pressed meanwhile must not apply to the next video.
async function once(what) {
  if (busy) return;
  busy = true;
  byId("toast").hidden = true;
  try {
    await background;
    await what();
  } catch (error) {
    toast(error.message, "error");
  } finally {
    busy = false;
    render();
  }
}

function render({ play = false } = {}) {
  const { session, current } = queue;
  if (!session) return;
  const adjudicating = queue.role === "adjudicator";
  byId("to-score").setAttribute("aria-pressed", !adjudicating);
  byId("to-adjudicate").setAttribute("aria-pressed", adjudicating);
  byId("to-adjudicate").hidden = session.raters_wanted < 2;
  byId("rater").textContent = queue.by || "Who?";
  document.querySelector(".progress").hidden = !queue.videos.length;
  byId("progress-bar").max = Math.max(queue.videos.length, 1);
  byId("progress-bar").value = queue.rated;
  byId("progress-text").textContent = `${queue.rated} of ${queue.videos.length} ${adjudicating ? "adjudicated" : "scored"}`;
  const message = stateMessage();
  byId("message").hidden = !message;
  byId("message").replaceChildren(...(message ?? []));
  byId("desk").hidden = byId("rules").hidden = Boolean(message) || !current;
  if (message || !current) {
    if (shown) player.close();
    shown = undefined;
    return;
  }
  byId("success").setAttribute("aria-pressed", current.verdict === "success");
  byId("failure").setAttribute("aria-pressed", current.verdict === "failure");
  byId("next").disabled = queue.following < 0;
  renderAll();
  showRules(byId("rules"), session.criteria, current);
  if (shown === current.id) return;
  if (shown) drafts.set(shown, byId("note").value);
  shown = current.id;
  byId("note").value = (!current.verdict && drafts.get(shown)) || current.note;
  player.open(queue.film(current), queue.film(queue.videos[queue.following]));
  if (play) player.play();
}

function renderAll() {
  const buttons = queue.videos.map((video, place) =>
    element(
      "li",
      {},
      element(
        "button",
        {
          "data-rated": Boolean(video.verdict),
          "aria-current": place === queue.place ? "true" : null,
          "aria-label": `Video ${place + 1}, ${video.verdict ? "scored" : "open"}`,
          onclick: () => show(place),
        },
        `${place + 1}`,
      ),
    ),
  );
  byId("all").replaceChildren(...buttons);
}

// The message shown instead of a video, if there is nothing to score now.
function stateMessage() {
  const { session, role, videos, by } = queue;
  if (!by) return [];
  const say = (...lines) => lines.map((line) => (typeof line === "string" ? element("p", {}, line) : line));
  const agreed = session.agreement;
  const agreement = agreed
    ? [`The raters agree on ${agreed.agreed} of ${agreed.rollouts} videos${agreed.kappa === null ? "" : ` (Cohen's kappa ${agreed.kappa.toFixed(2)})`}.`]
    : [];
  const ready = session.complete && !session.undecided;
  const command = element("p", {}, "Unblind from the terminal: ", element("code", {}, "egorecovery score SESSION --export FOLDER"));
  if (session.unblinded) return say("This session has been unblinded. Its ratings are closed.", ...agreement);
  if (role === "adjudicator") {
    if (!session.complete) return say("Adjudication begins when every rater has scored every video.", raterProgress());
    if (!session.adjudicating) {
      if (!session.disagreements) return say("There is nothing to adjudicate.", ...agreement, command);
      const begin = element("button", { class: "primary", id: "begin", onclick: beginAdjudication }, "Close the ratings and adjudicate");
      return say(...agreement, "Adjudication shows both ratings, so it closes them: raters cannot change theirs any more.", element("p", {}, begin));
    }
    if (!videos.length) return say("There is nothing to adjudicate.", ...agreement, command);
    return undefined;
  }
  const names = session.raters.map(({ name }) => name);
  if (!names.includes(by) && names.length >= session.raters_wanted) {
    return say(`This session has its raters: ${names.join(" and ")}.`, session.raters_wanted > 1 ? "Somebody else can adjudicate." : "");
  }
  if (session.adjudicating) return say("Adjudication has begun: ratings are closed.", ...agreement, ...(ready ? [command] : []));
  return undefined;
}

function raterProgress() {
  const { raters, raters_wanted: wanted, videos } = queue.session;
  const items = raters.map(({ name, rated }) => element("li", {}, `${name}: ${rated} of ${videos}`));
  const absent = wanted - raters.length;
  if (absent > 0) items.push(element("li", {}, `${absent} more rater${absent > 1 ? "s" : ""} to begin`));
  return element("ul", { style: null }, ...items);
}

function show(place, how) {
  if (queue.go(place)) render(how);
}

function rate(verdict) {
  const video = queue.current;
  if (!video || byId("desk").hidden) return;
  once(async () => {
    await queue.rate(video, verdict, byId("note").value);
    if (queue.following >= 0) show(queue.following, { play: true });
    else if (queue.role === "rater") finished();
    else if (!queue.session.undecided) toast(UNBLIND, "note", true);
  });
}

function finished() {
  const { complete, raters_wanted: wanted, disagreements } = queue.session;
  if (!complete) toast(`You have scored all videos. ${wanted > 1 ? "The other rater's turn." : ""}`, "note", true);
  else if (disagreements) toast(`All videos are scored; ${disagreements} to adjudicate.`, "note", true);
  else toast(UNBLIND, "note", true);
}

function undo() {
  once(async () => {
    await queue.undo();
    shown = undefined;
    toast("Taken back.");
  });
}

function nextOpen() {
  if (queue.following >= 0) show(queue.following, { play: true });
  else toast(queue.current?.verdict ? "All videos are scored." : "This is the last open video.");
}

function beginAdjudication() {
  once(async () => {
    await queue.adjudicate();
    await queue.load();
  });
}

function changeRole(role) {
  once(async () => {
    drafts.clear();
    queue.role = role;
    shown = undefined;
    await queue.load();
  });
}

// ---- who scores

function askName() {
  // No submit buttons: Enter in the field would press the first one and select the wrong person.
  const known = (queue.session?.raters ?? []).map(({ name }) =>
    element("button", { type: "button", onclick: () => (byId("name-dialog").close(), become(name)) }, name),
  );
  byId("known-names").replaceChildren(...known);
  byId("name").value = "";
  byId("name-dialog").showModal();
  byId("name").focus();
}

byId("name-dialog").addEventListener("submit", (event) => {
  const name = byId("name").value.trim();
  if (!name) event.preventDefault();
  else become(name);
});
byId("name-dialog").addEventListener("cancel", (event) => queue.by || event.preventDefault());

function become(name) {
  once(async () => {
    drafts.clear();
    queue.by = name;
    sessionStorage.setItem(RATER, name);
    shown = undefined;
    await queue.load();
  });
}

// ---- keys

const keys = new Keys("egorecovery score keys", {
  success: { keys: ["1", "S"], words: "success, and the next video", once: true, run: () => rate("success") },
  failure: { keys: ["0", "F"], words: "failure, and the next video", once: true, run: () => rate("failure") },
  ...controls.actions(),
  note: { keys: ["T"], words: "write a note", run: () => byId("note").focus() },
  undo: { keys: ["U"], words: "take the last verdict back", once: true, run: undo },
  next: { keys: ["N"], words: "next open video", run: nextOpen },
  previous: { keys: ["P"], words: "previous video", run: () => show(queue.place - 1) },
  help: { keys: ["?"], words: "this help", run: () => help.open() },
});

function renderKeys() {
  for (const hint of document.querySelectorAll("[data-key-of]")) {
    hint.textContent = keys.keysOf(hint.dataset.keyOf).map(keyText)[0] ?? "";
  }
}

const help = new Help(byId("help-dialog"), keys, INTRO, renderKeys);
keys.listen(document, () => Boolean(queue.by));
byId("note").addEventListener("keydown", (event) => {
  if (event.key === "Enter" || event.key === "Escape") event.target.blur();
});
byId("note").addEventListener("change", () => {
  const video = queue.current;
  if (video?.verdict && shown === video.id) meanwhile(() => queue.rate(video, video.verdict, byId("note").value));
});
// After a mouse click, keys go to the page again: Space must play, not press the button again.
document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (event.detail > 0 && button && !button.closest("dialog")) button.blur();
});
for (const verdict of ["success", "failure"]) byId(verdict).addEventListener("click", () => rate(verdict));
byId("undo").addEventListener("click", undo);
byId("next").addEventListener("click", nextOpen);
byId("previous").addEventListener("click", () => show(queue.place - 1));
byId("rater").addEventListener("click", askName);
byId("help").addEventListener("click", () => help.open());
byId("theme").addEventListener("click", toggleTheme);
byId("to-score").addEventListener("click", () => changeRole("rater"));
byId("to-adjudicate").addEventListener("click", () => changeRole("adjudicator"));
player.addEventListener("broken", () => toast("This video cannot be played; make the session again.", "error"));
window.addEventListener("focus", () => queue.by && !busy && meanwhile(() => queue.load({ stay: true })));

applyTheme();
renderKeys();
once(async () => {
  const session = await queue.about();
  const name = sessionStorage.getItem(RATER) || session.rater;
  if (!name) return askName();
  queue.by = name;
  await queue.load();
});
