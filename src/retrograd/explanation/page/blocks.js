// The tab "entry by entry" of a layer that is too large to be shown whole: a movable part of every array.

import { h } from "page/dom";
import { Grid } from "page/grid";
import { scaled } from "page/scaling";
import { Stage, columns } from "page/entries_tab";

const KEYS = { ArrowUp: [-2, -1], ArrowDown: [-2, 1], ArrowLeft: [-1, -1], ArrowRight: [-1, 1] }; // axis from the last, step

const STEPPER = 165; // pixels

/** A part of an array, with controls to move it. */
class Block extends Grid {
  constructor(array, selection, options) {
    super(array, selection, options);
    this.note = h("p", { class: "note", role: "status" });
    this.element.append(this.note);
    this.fields = array.shape.flatMap((extent, axis) => (array.window[axis] < extent ? [this.#stepper(axis)] : []));
    this.steppers.replaceChildren(...this.fields.map(({ element }) => element));
    this.paper.addEventListener("keydown", (event) => this.#walk(event), true);
  }

  #stepper(axis) {
    const { array } = this;
    const [size, extent, name] = [array.window[axis], array.shape[axis], array.letters[axis] ?? `axis ${axis}`];
    const field = h("input", { type: "number", min: 0, max: extent - 1, "aria-label": `${array.name}: from ${name}` });
    field.addEventListener("change", () => this.#to(axis, Math.round(Number(field.value)) || 0));
    const step = (by, sign, word) =>
      h("button", { onclick: () => this.#to(axis, array.start[axis] + by), "aria-label": `${array.name}: ${word} ${name}` }, sign);
    const [back, on, last] = [step(-size, "‹", "previous"), step(size, "›", "next"), h("small", {})];
    const show = () => {
      const start = array.start[axis];
      field.value = start;
      last.textContent = `${size > 1 ? `–${start + size - 1} ` : ""}of ${extent}`;
      [back.disabled, on.disabled] = [start === 0, start + size >= extent];
    };
    return { element: h("span", { class: "stepper" }, back, h("label", {}, `${name} `, field), last, on), show };
  }

  #to(axis, start) {
    const { array } = this;
    array.move(array.start.map((i, other) => (other === axis ? start : i)));
    this.#moved();
  }

  #moved() {
    this.cursor = this.array.shows(this.cursor) ? this.cursor : this.array.flat(this.array.start);
    this.redraw();
    this.moved?.();
  }

  /** Shows the window that contains an entry. */
  show(at) {
    if (at < 0 || this.array.shows(at)) return;
    this.array.reveal(at);
    this.#moved();
  }

  draw() {
    super.draw();
    for (const { show } of this.fields ?? []) show();
    this.steppers.style.maxWidth = `${Math.max(180, this.part?.width ?? this.size(this.cell).width)}px`;
    if (this.array.complete) this.note?.replaceChildren();
    else this.#load();
  }

  async #load() {
    const start = this.array.start.join();
    if (this.loading === start) return;
    this.loading = start;
    try {
      await this.array.load();
    } catch (error) {
      if (this.array.start.join() === start) this.note.textContent = error.message;
      return;
    } finally {
      this.loading = null;
    }
    this.redraw();
  }

  follow(what) {
    const { selection, array } = this;
    const lit = [...(selection.reading?.lit.get(array.name)?.keys() ?? [])].filter((at) => at >= 0);
    // follow a pinned entry, but not the one under the pointer, or the arrays would never stand still
    if (what === "entry" && !selection.hovered && lit.length && !lit.some((at) => array.shows(at))) this.show(lit[0]);
    if (what === "product" && selection.product) {
      const factor = selection.product.factors.find((each) => each.array === array);
      if (factor) this.show(factor.at);
    }
    super.follow(what);
  }

  /** Continues from the edge of the window into the array. */
  #walk(event) {
    if (!KEYS[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    const { array } = this;
    const [last, by] = KEYS[event.key];
    const axis = array.shape.length + last;
    if (axis < 0) return;
    const index = array.index(this.cursor);
    index[axis] += by;
    const at = array.flat(index);
    if (index[axis] < 0 || index[axis] >= array.shape[axis] || array.shows(at)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    this.show(at);
    this.cursor = at;
    this.selection.hover(array.name, at);
  }
}

export class Blocks extends Stage {
  constructor(selection, which) {
    super(selection);
    this.which = which;
  }

  pairs(model) {
    return columns(model, this.which);
  }

  axes(array) {
    return array.grid;
  }

  /** Cells for "−1.8"; the numbers arrive later. */
  cell() {
    return 31;
  }

  /** The minimum width: the row of controls is wider than many grids. */
  least(array) {
    const moved = array.shape.some((extent, axis) => array.window[axis] < extent);
    return Math.max(super.least(array), moved ? STEPPER : 0);
  }

  grid(array, options) {
    const made = new Block(array, this.selection, { ...options, ...scaled(array) });
    made.moved = made.scrolled = () => this.moved?.();
    return made;
  }

  /** Shows an entry, moving the window if necessary. */
  show(array, at) {
    for (const grid of this.grids) if (grid.array === array) grid.show(at);
  }
}
