// An array as a grid of cells, for pointer, touch and arrow keys.
//
// It has two stacked canvases: the cells, drawn once, and the highlights above, drawn when the selection changes.

import { colors, palette } from "page/color";
import { h, still } from "page/dom";
import { Light } from "page/highlight";
import { long, short } from "page/number_format";
import { Panels } from "page/array_layout";
import { CanvasPen, sized } from "page/cell_renderer";

export const ROLES = {
  input: "input",
  weight: "weight",
  output: "result",
  upstream: "upstream gradient",
  gradient: "gradient",
  inner: "intermediate",
};
/** The text next to the name of an array. */
const what = (array) => (array.role === "upstream" ? "upstream" : (ROLES[array.role] ?? ""));
const lengthy = (name) => name.length > 4;
export const captionWidth = (array) =>
  22 + (lengthy(array.name) ? 8.5 : 10.3) * array.name.length + (array.size > 8 ? 4 + 6.8 * what(array).length : 0);

const spare = []; // pairs of canvases
const KEYS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

export class Grid {
  /**
   * array: Values; selection: the selection it observes and changes, or null for a static picture
   * options: of Panels; also `title` and `what` of its caption, `caption: false` for none, `text(value, at)` of a cell,
   * `marked(at)` for wrong entries
   */
  constructor(array, selection, options = {}) {
    Object.assign(this, { array, selection, options });
    this.panels = new Panels(array, options);
    this.cell = 28;
    this.cursor = 0;
    [this.base, this.over] = spare.pop() ?? [h("canvas", { class: "cells" }), h("canvas", { class: "lit" })];
    this.light = new Light(this);
    const spoken = `${array.name}, ${ROLES[array.role] ?? array.role}, ${array.extent}`;
    this.paper = h(
      "div",
      selection
        ? {
            class: "paper",
            tabindex: 0,
            role: "application",
            "aria-roledescription": "grid of numbers",
            "aria-label": spoken,
          }
        : { class: "paper", role: "img", "aria-label": spoken },
      this.base,
      this.over,
    );
    this.steppers = h("div", { class: "steppers" });
    this.element = h(
      "figure",
      { class: `grid role-${array.role}`, "data-array": array.name },
      options.caption === false ? null : this.#caption(),
      this.steppers,
      this.paper,
    );
    this.#makeSteppers();
    if (selection) this.#listen();
  }

  /** Releases the grid: another one reuses its canvases, since a new canvas takes a millisecond. */
  release() {
    spare.push([this.base, this.over]);
  }

  #caption() {
    const { array, options } = this;
    return h(
      "figcaption",
      { title: array.about },
      h("b", { class: lengthy(options.title ?? array.name) ? "lengthy" : null }, options.title ?? array.name),
      h("span", { class: "what" }, options.what ?? (array.size > 8 ? what(array) : "")),
    );
  }

  #makeSteppers() {
    this.steppers.replaceChildren(
      ...this.panels.steps.map((axis) => {
        const low = this.array.low[axis];
        const name = this.array.axes[axis] ?? `axis ${axis}`;
        const turn = (by) => () => {
          const next = this.panels.chosen.get(axis) + by;
          if (next < 0 || next >= this.array.padded[axis]) return;
          this.panels.chosen.set(axis, next);
          this.draw();
        };
        const value = h("output", {}, `${name} ${this.panels.chosen.get(axis) - low}`);
        const text = `of ${this.array.shape[axis]}`;
        return h(
          "span",
          { class: "stepper" },
          h("button", { onclick: turn(-1), "aria-label": `${this.array.name}: previous ${name}` }, "‹"),
          value,
          h("small", {}, text),
          h("button", { onclick: turn(1), "aria-label": `${this.array.name}: next ${name}` }, "›"),
        );
      }),
    );
    this.values = [...this.steppers.querySelectorAll("output")];
  }

  size(cell) {
    return this.panels.size(cell);
  }

  setCell(cell) {
    this.cell = cell;
    this.letters = this.#letters(cell);
    this.draw();
  }

  /** The format in which the longest number fits: {decimals, size}; null if none does. */
  #letters(cell) {
    if (cell < 14 || this.array.values.length > 20000) return null;
    const side = cell - 2;
    for (const decimals of [2, 1]) {
      let longest = 1;
      this.array.values.forEach((value, at) => {
        longest = Math.max(longest, (this.options.text?.(value, at) ?? short(value, decimals)).length);
      });
      // a letter is 0.6 as wide as high; most numbers of a grid have one size, the longest are smaller
      const size = Math.min(14, Math.max(7.5, cell * 0.52), (side * 1.6) / Math.min(longest, 4));
      if (longest <= 2 || (side * 1.66) / longest >= (decimals === 2 ? 8 : 6.6)) return { decimals, size };
    }
    return null;
  }

  draw() {
    const { width, height } = this.size(this.cell);
    const context = sized(this.base, 0, 0, width, height);
    this.paper.style.width = `${width}px`;
    this.paper.style.height = `${height}px`;
    this.panels.steps.forEach((axis, j) => {
      this.values[j].textContent =
        `${this.array.axes[axis] ?? ""} ${this.panels.chosen.get(axis) - this.array.low[axis]}`;
    });
    this.paintCells(new CanvasPen(context));
    this.light.moved();
    this.light.draw();
  }

  /** All cells, the letters of the axes and the labels of the panels. */
  paintCells(pen) {
    const { panels, cell } = this;
    const { muted } = palette();
    const { margin } = panels;
    panels.each(cell, (at, x, y) => this.paintCell(pen, at, x, y));
    const { row, column } = panels.letters;
    panels.eachPanel((place, panelRow, panelColumn) => {
      const { x, y } = panels.corner(this.array.at(place), cell);
      const label = panels.labeled ? panels.label(place, (cell * panels.columns) / 6.2) : "";
      if (label) pen.text(x + 1, y - 8, label, muted, 10, "start");
      if (panelRow || panelColumn) return;
      if (row && cell * panels.rows >= 12) pen.text(margin.left - 8, y + Math.min(cell, 24) / 2, row, muted, 10);
      if (column && !panels.labeled) pen.text(x + Math.min(cell, 24) / 2, y - 8, column, muted, 10);
      else if (column && cell * panels.columns > 6.2 * label.length + 26)
        pen.text(x + cell * panels.columns - 1, y - 8, `${column} →`, muted, 10, "end");
    });
  }

  paintCell(pen, at, x, y) {
    const { cell, array } = this;
    const radius = cell >= 16 ? 3 : 0;
    const { side } = this.light;
    const { line, muted, roles } = palette();
    if (at < 0) {
      pen.outline(x + 0.5, y + 0.5, side - 1, side - 1, line, 1, { radius });
      if (cell >= 7) pen.hatch(x + 1, y + 1, side - 2, line);
      if (cell >= 20) pen.text(x + side / 2, y + side / 2, "0", muted, Math.min(13, cell * 0.4));
      return;
    }
    const value = array.value(at);
    if (value === undefined) return pen.outline(x + 0.5, y + 0.5, side - 1, side - 1, line, 1, { radius });
    const { fill, text } = colors(value, array.largest);
    pen.cell(x, y, side, side, fill, radius);
    if (value === 0 && cell >= 7) pen.outline(x + 0.5, y + 0.5, side - 1, side - 1, line, 1, { radius });
    if (this.letters) {
      const words = this.options.text?.(value, at) ?? short(value, this.letters.decimals);
      const size = Math.min(this.letters.size, (side * 1.6) / words.length);
      pen.text(x + side / 2, y + side / 2 + 0.5, words, text, size);
    }
    if (this.options.marked?.(at)) {
      pen.outline(x, y, side, side, palette().wrong, Math.max(2, cell / 12), { radius });
    } else if (this.options.tinted) pen.outline(x, y, side, side, roles[array.role], 1, { radius });
  }

  /** The position of an entry on the screen: {x, y} of its center, or null. */
  middle(at) {
    const corner = this.panels.corner(at, this.cell);
    if (!corner || !this.base.isConnected) return null;
    const box = this.base.getBoundingClientRect();
    return { x: box.left + corner.x + this.cell / 2 - 1, y: box.top + corner.y + this.cell / 2 - 1 };
  }

  /** Shows and highlights the panels of the new selection. */
  follow(what) {
    const lit = this.selection.reading?.lit.get(this.array.name);
    if (what === "entry" && lit && this.panels.steps.length) {
      const entries = [...lit.keys()];
      if (!entries.some((at) => this.panels.corner(at, this.cell)) && this.panels.reveal(entries[0])) this.draw();
    }
    const product = this.selection.product;
    if (what === "product" && product && this.panels.steps.length) {
      for (const at of this.light.active)
        if (!this.panels.corner(at, this.cell) && this.panels.reveal(at)) this.draw();
    }
    this.light.follow();
    if (what === "product" && product && !still()) this.light.pulse();
  }

  #at(event) {
    const box = this.base.getBoundingClientRect();
    return this.panels.hit(event.clientX - box.left, event.clientY - box.top, this.cell);
  }

  #listen() {
    const { paper, selection, array } = this;
    const name = array.name;
    paper.addEventListener("pointermove", (event) => {
      if (event.pointerType === "touch") return;
      const at = this.#at(event);
      if (at === null) return selection.leave();
      const number = selection.pinned && !selection.hovered ? selection.numberOf(array, at) : null;
      // while an entry is pinned, pointing at its highlighted cells with Shift selects their products
      if (event.shiftKey && number !== null) selection.look(number);
      else selection.hover(name, at);
    });
    paper.addEventListener("pointerleave", () => selection.leave());
    paper.addEventListener("click", (event) => {
      const at = this.#at(event);
      if (at === null) return;
      this.cursor = at;
      selection.pin(name, at);
    });
    paper.addEventListener("focus", () => {
      if (!paper.matches(":focus-visible")) return;
      const pinned = selection.pinned;
      if (pinned?.name === name) this.cursor = pinned.at;
      selection.hover(name, this.cursor);
    });
    paper.addEventListener("blur", () => selection.leave());
    paper.addEventListener("keydown", (event) => this.#key(event));
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { selection, array, panels } = this;
    let at = this.cursor;
    if (KEYS[event.key]) at = panels.moved(at, ...KEYS[event.key]);
    else if (event.key === "[" || event.key === "]") at = panels.turned(at, event.key === "[" ? -1 : 1);
    else if (event.key === "Home" || event.key === "End") at = panels.moved(at, 0, event.key === "Home" ? -1e9 : 1e9);
    else if (event.key === "Enter") return selection.pin(array.name, at);
    else return;
    event.preventDefault();
    this.cursor = at;
    if (panels.reveal(at)) this.draw();
    selection.hover(array.name, at);
  }

  /** For screen readers and tooltips. */
  describe(at) {
    return `${this.array.label(at)} = ${long(this.array.value(at))}`;
  }
}
