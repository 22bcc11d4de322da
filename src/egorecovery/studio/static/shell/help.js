// The help dialog: every action with its keys, which can be changed.

import { element } from "/static/shell/elements.js";
import { keyOf } from "/static/shell/keys.js";

const SIGNS = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓" };

export function keyText(key) {
  return key.replace(/Arrow\w+/, (arrow) => SIGNS[arrow]).replace("Shift+", "Shift ");
}

export class Help {
  // `intro` is a list of lines; `changed` is called after a key was given to another action.
  constructor(dialog, keys, intro, changed) {
    Object.assign(this, { dialog, keys, intro, changed });
    this.message = "";
  }

  open() {
    this.message = "";
    this.#render();
    if (!this.dialog.open) this.dialog.showModal();
    this.dialog.querySelector(".primary").focus();
  }

  #render() {
    const rows = Object.entries(this.keys.actions).map(([name, { words }]) =>
      element(
        "li",
        {},
        element("span", { class: "key" }, ...this.keys.keysOf(name).map((key) => element("kbd", {}, keyText(key)))),
        element("span", { class: "words" }, words),
        element(
          "button",
          { class: "link", "aria-label": `Change the key of: ${words}`, onclick: (event) => this.#ask(event.currentTarget, name) },
          "change",
        ),
      ),
    );
    const close = element("button", { class: "primary", onclick: () => this.dialog.close() }, "Close");
    const reset = element("button", { onclick: () => this.#reset() }, "Usual keys");
    this.dialog.replaceChildren(
      element("h2", { id: "help-title" }, "Help"),
      ...this.intro.map((line) => element("p", {}, line)),
      element("p", { role: "status", class: "quiet" }, this.message),
      element("ul", { class: "keys" }, ...rows),
      element("p", { class: "group" }, close, reset),
    );
  }

  #reset() {
    this.keys.reset();
    this.message = "All keys are reset to their defaults.";
    this.changed();
    this.#render();
  }

  #ask(button, name) {
    button.textContent = "press a key";
    button.addEventListener("keydown", (event) => this.#take(event, name), { once: true });
  }

  #take(event, name) {
    event.preventDefault();
    event.stopPropagation();
    const { words } = this.keys.actions[name];
    if (event.key === "Escape" || event.key === "Tab") this.message = "Nothing changed.";
    else if (event.ctrlKey || event.altKey || event.metaKey) this.message = "Keys with Ctrl, Alt or Meta belong to the browser.";
    else if (event.key === "Shift") this.message = "Press Shift together with another key; choose Change again.";
    else {
      const loser = this.keys.remap(name, keyOf(event));
      this.message = `${keyText(keyOf(event))}: ${words}.`;
      if (loser) this.message += ` It was the key of: ${this.keys.actions[loser].words}.`;
      this.changed();
    }
    this.#render();
    this.dialog.querySelectorAll(".keys button")[Object.keys(this.keys.actions).indexOf(name)].focus();
  }
}
