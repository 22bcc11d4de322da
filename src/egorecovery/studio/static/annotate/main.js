// Connects the views: navigation, annotator, keys, and changes from other tabs.

import { byId, element } from "/static/shell/elements.js";
import { Help, keyText } from "/static/shell/help.js";
import { Keys } from "/static/shell/keys.js";
import { applyTheme, toggleTheme } from "/static/shell/theme.js";
import { showAgreement } from "/static/annotate/agreement.js";
import { Browse } from "/static/annotate/browse.js";
import { ClipList } from "/static/annotate/clip_list.js";
import { ClipView } from "/static/annotate/clip_view.js";
import { Session } from "/static/annotate/session.js";

const TOAST_MS = 4000;
const LOOK_AGAIN_MS = 2000; // delay before reconnecting to the app
const INTRO = [
  "The boundary is the last frame of the correction. Everything up to it is shaded; the purple mark is the automatic candidate.",
  "Enter keeps the boundary and goes to the next clip. With the mouse: drag the orange handle, click or drag in the curve, turn the wheel for single frames.",
];

const session = new Session();
const list = new ClipList();
const browse = new Browse(list, (id) => {
  const { damage } = list.byId.get(id);
  if (damage) return toast(damage, "error");
  list.takeQueue();
  show(id);
});
let view;
let annotateKeys;
let browseKeys;

function show(id) {
  location.hash = `#/clip/${encodeURIComponent(id)}`;
}

function shownView() {
  return location.hash.split("/")[1] || "browse";
}

function unquoted(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a typed address that names no clip, which is reported below
  }
}

async function route() {
  const [name, id] = [shownView(), unquoted(location.hash.split("/")[2] ?? "")];
  const clip = name === "clip" ? id || view.clip?.id || list.nextOpen(undefined) || list.shown[0]?.id : undefined;
  if (name !== "clip") view.close();
  for (const section of ["browse", "clip", "agreement"]) byId(section).hidden = section !== name;
  for (const [link, section] of [["to-browse", "browse"], ["to-annotate", "clip"], ["to-agreement", "agreement"]]) {
    byId(link).toggleAttribute("aria-current", section === name);
  }
  try {
    if (name === "clip" && clip) await view.open(clip);
    else if (name === "agreement") await showAgreement(byId("agreement"), show);
    else {
      if (view.clip) browse.choose(view.clip.id);
      list.apply();
    }
  } catch (error) {
    toast(error.message, "error");
  }
}

let toastEnd;
function toast(text, kind = "note", stay = false) {
  const shown = byId("toast");
  shown.textContent = text;
  shown.dataset.kind = kind;
  shown.hidden = false;
  clearTimeout(toastEnd);
  if (!stay) toastEnd = setTimeout(() => (shown.hidden = true), TOAST_MS);
}

function showProgress({ clips_per_hour: pace, annotators } = {}) {
  if (annotators) session.annotators = annotators;
  const { done, all, damaged } = list.progress();
  byId("progress-bar").max = Math.max(all, 1);
  byId("progress-bar").value = done;
  byId("progress-text").textContent = `${done} of ${all} annotated${damaged ? `, ${damaged} damaged` : ""}`;
  if (pace !== undefined) byId("pace").textContent = pace ? `${Math.round(pace)} clips/h` : "";
}

async function reload() {
  const answer = await session.list();
  session.store = answer.store;
  byId("store-name").textContent = answer.store;
  document.title = `${answer.store} · EgoRecovery studio`;
  list.fill(answer.clips);
  if (!list.queue.length) list.takeQueue();
  browse.fillFilters();
  byId("annotator").textContent = session.annotator || "Who?";
  byId("independent").checked = session.independent;
  showProgress(answer);
  return answer;
}

// ---- who annotates

const SIMULATED = "simulated annotator"; // of `egorecovery simulate`: nobody's name to take

function askName() {
  const people = (session.annotators ?? []).filter((name) => name !== SIMULATED);
  const known = people.map((name) => {
    const take = () => {
      byId("name-dialog").close();
      become(name);
    };
    return element("button", { type: "button", onclick: take }, name); // Enter in the field must not press it
  });
  byId("known-names").replaceChildren(...known);
  byId("name").value = session.annotator;
  byId("name-dialog").showModal();
  byId("name").select();
}

byId("name-dialog").addEventListener("submit", (event) => {
  const name = byId("name").value;
  if (!name.trim()) event.preventDefault();
  else become(name);
});
byId("name-dialog").addEventListener("cancel", (event) => session.annotator || event.preventDefault());

async function become(name) {
  session.become(name);
  view.forget();
  await reload();
  await route();
}

async function setIndependent(independent) {
  session.setIndependent(independent);
  const { id } = view.clip ?? {};
  view.forget();
  await reload();
  toast(independent ? "The candidate and the boundaries of others are hidden." : "The candidate is shown.");
  if (id && shownView() === "clip") await view.open(id);
}

// ---- keys

function annotateActions() {
  return {
    back1: { keys: ["ArrowLeft"], words: "one frame back", run: () => view.playback.step(-1) },
    forward1: { keys: ["ArrowRight"], words: "one frame on", run: () => view.playback.step(1) },
    back10: { keys: ["Shift+ArrowLeft"], words: "ten frames back", run: () => view.playback.step(-10) },
    forward10: { keys: ["Shift+ArrowRight"], words: "ten frames on", run: () => view.playback.step(10) },
    first: { keys: ["Home"], words: "first frame", run: () => view.playback.jump(0) },
    last: { keys: ["End"], words: "last frame", run: () => view.playback.jump(Infinity) },
    toBoundary: { keys: ["J"], words: "jump to the boundary", run: () => view.playback.jump(view.clip.boundary) },
    play: { keys: ["Space"], words: "play or pause", run: () => view.playback.togglePlay() },
    loop: { keys: ["L"], words: "loop around the boundary", run: () => view.playback.toggleLoop() },
    slower: { keys: [","], words: "slower", run: () => view.playback.changeSpeed(-1) },
    faster: { keys: ["."], words: "faster", run: () => view.playback.changeSpeed(1) },
    nudgeBack: { keys: ["["], words: "boundary one frame back", run: () => view.nudge(-1) },
    nudgeForward: { keys: ["]"], words: "boundary one frame on", run: () => view.nudge(1) },
    toCandidate: { keys: ["C"], words: "boundary to the candidate", run: () => view.toCandidate() },
    setHere: { keys: ["B"], words: "boundary at this frame", run: () => view.setHere() },
    confirm: { keys: ["Enter"], words: "confirm and next", once: true, run: () => view.confirm() },
    nextOpen: { keys: ["N"], words: "next clip to annotate", run: () => view.nextOpen() },
    quality: { keys: ["Q"], words: "quality: good, fair, poor", run: () => view.cycleQuality() },
    discard: { keys: ["D"], words: "discard, or restore a discarded clip", once: true, run: () => view.discard() },
    undo: { keys: ["U"], words: "undo the last save of this tab", once: true, run: () => view.undo() },
    note: { keys: ["T"], words: "write a note; Enter leaves it", run: () => byId("note").focus() },
    previous: { keys: ["PageUp"], words: "previous clip", run: () => view.go(-1) },
    following: { keys: ["PageDown"], words: "next clip", run: () => view.go(1) },
    independent: { keys: ["H"], words: "hide or show the candidate", run: () => setIndependent(!session.independent) },
    browse: { keys: ["Escape"], words: "back to Browse", run: () => (location.hash = "#/browse") },
    help: { keys: ["?"], words: "this help", run: () => help("clip") },
  };
}

function browseActions() {
  return {
    left: { keys: ["ArrowLeft"], words: "clip to the left", run: () => browse.move(-1, 0) },
    right: { keys: ["ArrowRight"], words: "clip to the right", run: () => browse.move(1, 0) },
    up: { keys: ["ArrowUp"], words: "clip above", run: () => browse.move(0, -1) },
    down: { keys: ["ArrowDown"], words: "clip below", run: () => browse.move(0, 1) },
    pageUp: { keys: ["PageUp"], words: "three rows up", run: () => browse.move(0, -3) },
    pageDown: { keys: ["PageDown"], words: "three rows down", run: () => browse.move(0, 3) },
    first: { keys: ["Home"], words: "first clip", run: () => browse.move(-Infinity, 0) },
    last: { keys: ["End"], words: "last clip", run: () => browse.move(Infinity, 0) },
    open: { keys: ["Enter", "Space"], words: "open the clip", run: () => browse.openChosen() },
    start: { keys: ["N"], words: "annotate these clips", run: () => browse.start() },
    find: { keys: ["/"], words: "find by text; Enter leaves the field", run: () => byId("filter-text").focus() },
    reset: { keys: ["A"], words: "show all clips", run: () => byId("filter-reset").click() },
    independent: { keys: ["H"], words: "hide or show the candidate", run: () => setIndependent(!session.independent) },
    help: { keys: ["?"], words: "this help", run: () => help("browse") },
  };
}

function help(name) {
  const keys = name === "clip" ? annotateKeys : browseKeys;
  new Help(byId("help-dialog"), keys, INTRO, showKeys).open();
}

// Buttons show their keys.
function showKeys() {
  for (const button of document.querySelectorAll("[data-action]")) {
    const { words } = annotateKeys.actions[button.dataset.action];
    const keys = annotateKeys.keysOf(button.dataset.action).map(keyText).join(", ");
    button.title = `${words}${keys ? ` (${keys})` : ""}`;
    if (button.classList.contains("with-key")) labelKey(button, keys);
  }
  for (const button of document.querySelectorAll("[data-key]")) {
    labelKey(button, annotateKeys.keysOf(button.dataset.key).map(keyText).join(", "));
  }
  for (const mark of document.querySelectorAll("[data-key-of]")) {
    mark.textContent = annotateKeys.keysOf(mark.dataset.keyOf).map(keyText).join(", ");
  }
}

function labelKey(button, keys) {
  button.querySelector("kbd")?.remove();
  if (!keys) return;
  const mark = document.createElement("kbd");
  mark.textContent = keys;
  button.append(" ", mark);
}

function listen() {
  annotateKeys = new Keys("egorecovery keys annotate", annotateActions());
  browseKeys = new Keys("egorecovery keys browse", browseActions());
  annotateKeys.listen(document, () => shownView() === "clip" && view.clip);
  browseKeys.listen(document, () => shownView() === "browse");
  for (const button of document.querySelectorAll("[data-action]")) {
    button.onclick = () => view.clip && annotateKeys.actions[button.dataset.action].run();
  }
  byId("play").onclick = () => view.playback.togglePlay();
  byId("loop").onclick = () => view.playback.toggleLoop();
  byId("previous").onclick = () => view.go(-1);
  byId("following").onclick = () => view.go(1);
  byId("annotator").onclick = askName;
  byId("independent").onchange = (event) => setIndependent(event.target.checked);
  byId("help").onclick = () => help(shownView() === "clip" ? "clip" : "browse");
  byId("theme").onclick = () => {
    toggleTheme();
    view.player.dispatchEvent(new Event("moved"));
  };
  // After a mouse click, keys go to the page again, not to the button.
  document.addEventListener("click", (event) => {
    const control = event.target.closest("button, input[type=checkbox]");
    if (event.detail > 0 && control && !control.closest("dialog")) control.blur();
  });
  window.addEventListener("hashchange", route);
  showKeys();
}

// ---- changes from other tabs and annotators

function hear(again = false) {
  const socket = new WebSocket(`ws://${location.host}/api/changes`);
  socket.onopen = () => again && reload(); // changes missed meanwhile
  socket.onmessage = async (event) => {
    for (const [id, revision] of Object.entries(JSON.parse(event.data).revisions)) {
      const known = list.byId.get(id);
      if (!known) await reload();
      else if (known.revision < revision) {
        const row = await session.row(id);
        list.update(row);
        view.heard(row);
        showProgress();
      }
    }
  };
  socket.onclose = () => setTimeout(() => hear(true), LOOK_AGAIN_MS);
}

async function begin() {
  applyTheme();
  const answer = await reload();
  if (answer.annotator) session.become(answer.annotator);
  view = new ClipView(session, list, { show, toast, askName, reload, progress: showProgress, rateHz: answer.rate_hz });
  listen();
  if (answer.annotator) await reload();
  hear();
  await route();
  document.body.dataset.ready = "yes";
  if (!session.annotator) askName();
}

begin().catch((error) => toast(error.message, "error", true));
