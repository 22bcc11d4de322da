// The Browse page: filters and a grid of thumbnails. Only visible cells are in the document.

import { byId, element } from "/static/shell/elements.js";
import { ALL, STATES } from "/static/annotate/clip_list.js";

const CELL = { width_em: 13.5, height_em: 14.8, gap: 10 }; // the height is also in the style sheet
const NAME = 46; // characters in two lines
const QUALITIES = { good: "good", fair: "fair", poor: "poor" };

export class Browse {
  constructor(list, open) {
    Object.assign(this, { list, open });
    this.grid = byId("grid");
    this.space = byId("grid-space");
    this.chosen = 0; // index in the filtered list
    this.cells = new Map(); // id -> element
    list.addEventListener("change", () => this.#changed());
    this.grid.addEventListener("scroll", () => this.#render());
    new ResizeObserver(() => this.#render()).observe(this.grid);
    this.#bindFilters();
  }

  #bindFilters() {
    byId("filter-text").addEventListener("input", (event) => this.#filter({ text: event.target.value }));
    byId("filter-text").addEventListener("keydown", (event) => {
      if (event.key === "Escape" || event.key === "Enter") event.target.blur();
    });
    for (const field of ["source", "task", "state", "quality"]) {
      byId(`filter-${field}`).addEventListener("change", (event) => {
        this.#filter({ [field]: event.target.value });
        event.target.blur();
      });
    }
    byId("filter-reset").onclick = () => {
      this.#filter({ text: "", source: ALL, task: ALL, state: ALL, quality: ALL });
      this.showFilter();
    };
    document.querySelector(".filters").addEventListener("submit", (event) => event.preventDefault());
    byId("start").onclick = () => this.start();
  }

  #filter(changes) {
    this.chosen = 0;
    this.grid.scrollTop = 0;
    this.list.setFilter(changes);
  }

  fillFilters() {
    const named = (values) => Object.fromEntries(values.map((value) => [value, value.replaceAll("_", " ")]));
    this.#options("source", "all sources", named(this.list.values("source")));
    this.#options("task", "all tasks", named(this.list.values("task")));
    this.#options("state", "all states", STATES);
    this.#options("quality", "any quality", QUALITIES);
    this.showFilter();
  }

  #options(field, all, values) {
    const options = Object.entries(values).map(([value, words]) => new Option(words, value));
    byId(`filter-${field}`).replaceChildren(new Option(all, ALL), ...options);
  }

  showFilter() {
    for (const [field, value] of Object.entries(this.list.filter)) byId(`filter-${field}`).value = value;
  }

  // Starts at the first clip to annotate, or else at the first clip.
  start() {
    const { shown } = this.list;
    const first = shown.find((row) => row.state === "open") ?? shown[0];
    if (first) this.open(first.id);
  }

  openChosen() {
    const row = this.list.shown[this.chosen];
    if (row) this.open(row.id);
  }

  choose(id) {
    const at = this.list.shown.findIndex((row) => row.id === id);
    if (at >= 0) this.chosen = at;
    this.#scrollToChosen();
  }

  move(right, down) {
    const { columns } = this.#layout();
    const last = this.list.shown.length - 1;
    this.chosen = Math.min(Math.max(this.chosen + right + down * columns, 0), Math.max(last, 0));
    this.#scrollToChosen();
  }

  #layout() {
    const width = this.grid.clientWidth;
    const em = parseFloat(getComputedStyle(this.grid).fontSize);
    const columns = Math.max(Math.floor((width - CELL.gap) / (CELL.width_em * em + CELL.gap)), 1);
    return { columns, width: (width - CELL.gap) / columns - CELL.gap, rowHeight: CELL.height_em * em + CELL.gap };
  }

  #scrollToChosen() {
    const { columns, rowHeight } = this.#layout();
    const top = Math.floor(this.chosen / columns) * rowHeight;
    if (top < this.grid.scrollTop) this.grid.scrollTop = top;
    const bottom = top + rowHeight + CELL.gap - this.grid.clientHeight;
    if (bottom > this.grid.scrollTop) this.grid.scrollTop = bottom;
    this.#render();
  }

  #changed() {
    const { shown, rows } = this.list;
    this.chosen = Math.min(this.chosen, Math.max(shown.length - 1, 0));
    byId("filter-count").textContent = `${shown.length} of ${rows.length} clips`;
    byId("start").disabled = shown.length === 0;
    byId("nothing").hidden = shown.length > 0;
    byId("nothing").textContent = rows.length ? "No clip matches the filters. Show all resets them." : "This store has no episodes yet.";
    this.#render();
  }

  #render() {
    if (!this.grid.clientWidth) return; // another view is visible
    const { columns, width, rowHeight } = this.#layout();
    const { shown } = this.list;
    this.space.style.height = `${Math.ceil(shown.length / columns) * rowHeight + CELL.gap}px`;
    const first = Math.max(Math.floor(this.grid.scrollTop / rowHeight) - 1, 0) * columns;
    const last = Math.ceil((this.grid.scrollTop + this.grid.clientHeight) / rowHeight + 1) * columns;
    const visible = shown.slice(first, last);
    const wanted = new Set(visible.map((row) => row.id));
    for (const [id, cell] of this.cells) {
      if (wanted.has(id)) continue;
      cell.remove();
      this.cells.delete(id);
    }
    visible.forEach((row, index) => {
      const at = first + index;
      const cell = this.#cell(row);
      cell.style.transform = `translate(${CELL.gap + (at % columns) * (width + CELL.gap)}px, ${CELL.gap + Math.floor(at / columns) * rowHeight}px)`;
      cell.style.width = `${width}px`;
      cell.setAttribute("aria-selected", at === this.chosen);
      cell.setAttribute("aria-posinset", at + 1);
      cell.setAttribute("aria-setsize", shown.length);
    });
    const chosen = shown[this.chosen];
    if (chosen && this.cells.has(chosen.id)) this.grid.setAttribute("aria-activedescendant", `clip-${chosen.id}`);
    else this.grid.removeAttribute("aria-activedescendant");
  }

  #cell(row) {
    let cell = this.cells.get(row.id);
    if (!cell) {
      const src = row.state === "damaged" ? null : `/api/clips/${encodeURIComponent(row.id)}/thumbnail`;
      const picture = element("img", { src, alt: "", draggable: "false" });
      cell = element(
        "div",
        { role: "option", id: `clip-${row.id}`, "data-clip": row.id, class: "cell" },
        picture,
        element("div", { class: "cell-name" }),
        element("div", { class: "cell-facts quiet" }),
        element("span", { class: "state" }),
      );
      cell.onclick = () => this.open(row.id);
      this.cells.set(row.id, cell);
      this.space.append(cell);
    }
    const annotation = row.annotation;
    cell.querySelector(".cell-name").textContent = shortened(row.id);
    cell.querySelector(".cell-name").title = row.id;
    const facts = row.damage ? "cannot be read: click for why" : `${row.source.replace("_", " ")} · ${row.frames} frames`;
    cell.querySelector(".cell-facts").textContent = facts;
    cell.querySelector(".cell-facts").title = row.damage ?? "";
    const state = cell.querySelector(".state");
    state.dataset.state = row.state;
    const quality = annotation && !annotation.discard && annotation.quality !== "good" ? ` · ${annotation.quality}` : "";
    state.textContent = row.state === "annotated" ? `boundary ${annotation.boundary}${quality}` : STATES[row.state];
    return cell;
  }
}

// Keeps the end of an id, because ids often differ only there.
function shortened(id) {
  return id.length <= NAME ? id : `${id.slice(0, 12)}…${id.slice(13 - NAME)}`;
}
