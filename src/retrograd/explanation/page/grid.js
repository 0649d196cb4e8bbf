// An array as a grid of cells, for pointer, touch and arrow keys.
//
// It has three stacked canvases: the cells, drawn once; the same cells, but pale, which replace them while others are
// highlighted; and the highlights above, drawn when the selection changes. A grid that is larger than its frame is
// scrolled, and only the visible cells are drawn.

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
/** The role of an array in its caption; a small array has no space for it. */
export const caption = (array) => (array.size > 8 ? what(array) : "");
export const captionWidth = (array, words = caption(array)) =>
  22 + (lengthy(array.name) ? 8.5 : 10.3) * array.name.length + (words ? 4 + 6.8 * words.length : 0);

const FONT = 11; // pixels, the smallest number that is written
const LETTER = 0.61; // width of a digit, of its height
const EDGE = 4; // pixels around a number
const spare = []; // sets of canvases

/** The size of the cells in which the longest number of an array is readable. */
export function readable(array, text = null) {
  let longest = 1;
  array.values.forEach((value, at) => (longest = Math.max(longest, (text?.(value, at) ?? short(value, 1)).length)));
  return Math.max(18, Math.ceil(FONT * LETTER * longest + EDGE));
}

/** The reader's zoom of all cells. */
export const zoom = { factor: 1 };
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
    const cells = () => h("canvas", { class: "cells" });
    [this.base, this.pale, this.over] = spare.pop() ?? [cells(), cells(), h("canvas", { class: "lit" })];
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
      this.pale,
      this.over,
    );
    this.pane = h("div", { class: "pane", onscroll: () => this.#scrolled() }, this.paper);
    this.steppers = h("div", { class: "steppers" });
    this.element = h(
      "figure",
      { class: `grid role-${array.role}`, "data-array": array.name },
      options.caption === false ? null : this.#caption(),
      this.steppers,
      this.pane,
    );
    this.#makeSteppers();
    if (selection) this.#listen();
  }

  /** Releases the grid: another one reuses its canvases, since a new canvas takes a millisecond. */
  release() {
    spare.push([this.base, this.pale, this.over]);
  }

  #caption() {
    const { array, options } = this;
    return h(
      "figcaption",
      { title: array.about },
      h("b", { class: lengthy(options.title ?? array.name) ? "lengthy" : null }, options.title ?? array.name),
      h("span", { class: "what" }, options.what ?? caption(array)),
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

  /** The smallest cells in which every number is readable. */
  get least() {
    return readable(this.array, this.options.text);
  }

  /** cell: the size before zooming; frame: {width, height} beyond which the grid is scrolled, or null */
  setCell(cell, frame = null) {
    this.unzoomed = cell;
    this.frame = frame;
    this.cell = Math.max(3, Math.round(cell * zoom.factor));
    this.letters = this.#letters(this.cell);
    this.draw();
  }

  /** Draws with new numbers. */
  redraw() {
    this.setCell(this.unzoomed, this.frame);
  }

  /** The visible part of the paper, or null if all of it is visible. */
  get part() {
    const { width, height } = this.size(this.cell);
    const { frame, pane } = this;
    if (!frame || (width <= frame.width && height <= frame.height)) return null;
    return {
      x: pane.scrollLeft,
      y: pane.scrollTop,
      width: Math.min(width, frame.width),
      height: Math.min(height, frame.height),
    };
  }

  /** Whether a cell at this corner is visible, at least in part. */
  isInside({ x, y }, part = this.part) {
    const { cell } = this;
    return !part || (x + cell > part.x && x < part.x + part.width && y + cell > part.y && y < part.y + part.height);
  }

  #scrolled() {
    this.draw();
    this.scrolled?.();
  }

  /** Scrolls to an entry. */
  #scrollTo(at) {
    const corner = this.panels.corner(at, this.cell);
    const { part, pane, cell } = this;
    if (!corner || !part) return;
    const near = (start, size, place) =>
      place < start || place + cell > start + size ? Math.max(0, place + cell / 2 - size / 2) : start;
    [pane.scrollLeft, pane.scrollTop] = [near(part.x, part.width, corner.x), near(part.y, part.height, corner.y)];
  }

  /** The format in which the longest number fits: {decimals, size}; null if none does. */
  #letters(cell) {
    if (cell < 14) return null;
    for (const decimals of [2, 1]) {
      let longest = 1;
      this.array.values.forEach((value, at) => {
        longest = Math.max(longest, (this.options.text?.(value, at) ?? short(value, decimals)).length);
      });
      const size = Math.min(Math.max(14, cell * 0.4), cell * 0.62, (cell - EDGE) / LETTER / longest);
      if (size >= FONT - 0.1) return { decimals, size };
    }
    return null;
  }

  draw() {
    const { width, height } = this.size(this.cell);
    const { part, frame } = this;
    this.paper.style.width = `${width}px`;
    this.paper.style.height = `${height}px`;
    this.pane.classList.toggle("scrolls", Boolean(part));
    this.pane.style.maxWidth = part ? `${frame.width}px` : "";
    this.pane.style.maxHeight = part ? `${frame.height}px` : "";
    // a static picture that is scrolled can be scrolled by keyboard too
    if (part && !this.selection) this.pane.tabIndex = 0;
    else this.pane.removeAttribute("tabindex");
    this.panels.steps.forEach((axis, j) => {
      this.values[j].textContent =
        `${this.array.axes[axis] ?? ""} ${this.panels.chosen.get(axis) - this.array.low[axis]}`;
    });
    this.#paint(this.base, false);
    this.isPaleDrawn = false;
    this.light.moved();
    this.light.draw();
  }

  #paint(canvas, pale) {
    const part = this.part ?? { x: 0, y: 0, ...this.size(this.cell) };
    this.paintCells(new CanvasPen(sized(canvas, part.x, part.y, part.width, part.height)), pale, this.part);
  }

  /** Shows the cells pale or in full color. */
  fade(pale) {
    if (pale && !this.isPaleDrawn) {
      this.#paint(this.pale, true);
      this.isPaleDrawn = true;
    }
    this.base.style.opacity = pale ? 0 : 1;
    this.pale.style.opacity = pale ? 1 : 0;
  }

  /** All cells, or those of a part; the letters of the axes and the labels of the panels. */
  paintCells(pen, pale = false, part = null) {
    const { panels, cell } = this;
    const { muted } = palette();
    const { margin } = panels;
    panels.each(cell, (at, x, y) => this.isInside({ x, y }, part) && this.paintCell(pen, at, x, y, pale));
    const { row, column } = panels.letters;
    panels.eachPanel((place, panelRow, panelColumn) => {
      const { x, y } = panels.corner(this.array.at(place), cell);
      const label = panels.labeled ? panels.label(place, (cell * panels.columns) / 6.8) : "";
      if (label) pen.text(x + 1, y - 8, label, muted, 11, "start");
      if (panelRow || panelColumn) return;
      if (row && cell * panels.rows >= 12) pen.text(margin.left - 8, y + Math.min(cell, 24) / 2, row, muted, 11);
      if (column && !panels.labeled) pen.text(x + Math.min(cell, 24) / 2, y - 8, column, muted, 11);
      else if (column && cell * panels.columns > 6.8 * label.length + 28)
        pen.text(x + cell * panels.columns - 1, y - 8, `${column} →`, muted, 11, "end");
    });
  }

  paintCell(pen, at, x, y, pale = false) {
    const { cell, array } = this;
    const radius = cell >= 16 ? 3 : 0;
    const { side } = this.light;
    const { line, muted, roles } = palette();
    if (at < 0) {
      pen.outline(x + 0.5, y + 0.5, side - 1, side - 1, line, 1, { radius });
      if (cell >= 7) pen.hatch(x + 1, y + 1, side - 2, line);
      if (this.letters) pen.text(x + side / 2, y + side / 2, "0", muted, Math.min(13, this.letters.size));
      return;
    }
    const value = array.value(at);
    if (value === undefined) return pen.outline(x + 0.5, y + 0.5, side - 1, side - 1, line, 1, { radius });
    const { fill, text } = colors(value, array.largest, pale);
    pen.cell(x, y, side, side, fill, radius);
    if (value === 0 && cell >= 7) pen.outline(x + 0.5, y + 0.5, side - 1, side - 1, line, 1, { radius });
    if (this.letters) {
      const words = this.options.text?.(value, at) ?? short(value, this.letters.decimals);
      pen.text(x + side / 2, y + side / 2 + 0.5, words, text, this.letters.size);
    }
    if (this.options.marked?.(at)) {
      pen.outline(x, y, side, side, palette().wrong, Math.max(2, cell / 12), { radius });
    } else if (this.options.tinted) pen.outline(x, y, side, side, roles[array.role], 1, { radius });
  }

  /** The position of an entry on the screen: {x, y} of its center, or null. */
  middle(at) {
    const corner = this.panels.corner(at, this.cell);
    if (!corner || !this.base.isConnected || !this.isInside(corner)) return null;
    const box = this.paper.getBoundingClientRect();
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
    // not for an entry under the pointer, or the arrays would never stand still
    if (what === "entry" && !this.selection.hovered && lit?.size) this.#scrollTo([...lit.keys()][0]);
    if (what === "product" && this.light.active.length) this.#scrollTo(this.light.active[0]);
    this.light.follow();
    if (what === "product" && product && !still()) this.light.pulse();
  }

  #at(event) {
    const box = this.paper.getBoundingClientRect();
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
    this.#scrollTo(at);
    selection.hover(array.name, at);
  }

  /** For screen readers and tooltips. */
  describe(at) {
    return `${this.array.label(at)} = ${long(this.array.value(at))}`;
  }
}
