// Keyboard shortcuts without Alt, Ctrl or Meta. Inactive while the user types or a dialog is open.
// A page defines actions as {name: {keys, words, run, once}}. The user's own keys are stored in this browser.
// `once`: a held key acts once, so that nobody decides on clips that they have not seen.

const TYPING = new Set(["INPUT", "TEXTAREA", "SELECT"]);
const NOT_TEXT = new Set(["checkbox", "radio", "range", "button"]);

export function keyOf(event) {
  const key = event.key === " " ? "Space" : event.key.length === 1 ? event.key.toUpperCase() : event.key;
  // Shift is part of a letter or sign; other keys, such as arrows, need it as a prefix.
  return event.shiftKey && event.key.length > 1 ? `Shift+${key}` : key;
}

export function isTyping(target) {
  if (target.isContentEditable) return true;
  return TYPING.has(target.tagName) && !(target.tagName === "INPUT" && NOT_TEXT.has(target.type));
}

export class Keys {
  constructor(storageName, actions) {
    this.storageName = storageName;
    this.actions = actions;
    this.chosen = this.#remembered();
  }

  #remembered() {
    try {
      const kept = JSON.parse(localStorage.getItem(this.storageName) ?? "{}");
      return Object.fromEntries(Object.entries(kept).filter(([name]) => name in this.actions));
    } catch {
      return {};
    }
  }

  keysOf(name) {
    return this.chosen[name] ?? this.actions[name].keys;
  }

  actionFor(key) {
    return Object.keys(this.actions).find((name) => this.keysOf(name).includes(key));
  }

  // Assigns `key` to an action and takes it from another. Returns the name of that other action, if any.
  remap(name, key) {
    const loser = this.actionFor(key);
    if (loser && loser !== name) this.chosen[loser] = this.keysOf(loser).filter((other) => other !== key);
    this.chosen[name] = [key];
    localStorage.setItem(this.storageName, JSON.stringify(this.chosen));
    return loser === name ? undefined : loser;
  }

  reset() {
    this.chosen = {};
    localStorage.removeItem(this.storageName);
  }

  listen(target, isActive) {
    target.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
      if (isTyping(event.target) || document.querySelector("dialog[open]") || !isActive()) return;
      const pressed = event.target.closest?.("button, a, summary, input");
      if (pressed && (event.key === "Enter" || event.key === " ")) return; // these keys activate the focused element
      const name = this.actionFor(keyOf(event));
      if (!name) return;
      event.preventDefault();
      if (!event.repeat || !this.actions[name].once) this.actions[name].run(event);
    });
  }
}
