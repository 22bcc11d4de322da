// Creates elements. Text is always set as text, so names and notes cannot become markup.

export const byId = (id) => document.getElementById(id);

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// For writing on a canvas: the page's own font, which is larger on a large screen.
export function smallFont() {
  const { fontSize, fontFamily } = getComputedStyle(document.body);
  return `${0.84 * parseFloat(fontSize)}px ${fontFamily}`;
}
