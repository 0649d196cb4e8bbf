// The tab "entry by entry": every array above its gradient, forward in the upper row and backward in the lower one.

import { h } from "page/dom";
import { Grid, captionWidth, readable, zoom } from "page/grid";
import { planned } from "page/grid_layout";
import { scaled } from "page/scaling";

/** Grids shown together, in columns [forward, backward]: each array above its gradient. */
export function columns(model, view) {
  const arrays = [...model.arrays.values()].filter((array) => array.view === view);
  const names = new Set(arrays.map(({ name }) => name));
  const gradient = (name) => [`g${name}`, `d${name}`].find((each) => names.has(each) && model.isBackward(each)) ?? null;
  const placed = new Set();
  const found = [];
  const order = [
    ...arrays.filter(({ role }) => role !== "inner" && role !== "output"),
    ...arrays.filter(({ role }) => role === "inner"),
    ...arrays.filter(({ role }) => role === "output"),
  ];
  for (const { name } of order) {
    if (model.isBackward(name)) continue;
    const below = gradient(name);
    placed.add(name).add(below);
    found.push([name, below]);
  }
  const free = arrays.filter(({ name }) => !placed.has(name)).map(({ name }) => name);
  for (const name of free) {
    const gap = view === "main" && found.find(([above, below]) => !below && model.arrays.get(above).role === "inner");
    if (gap) gap[1] = name;
    else found.splice(found.length - 1, 0, [null, name]);
  }
  return found;
}

export class Stage {
  constructor(selection) {
    this.selection = selection;
    this.element = h("div", { class: "stage" });
    this.grids = [];
  }

  /** [[forward, backward], ...], the names of the arrays in each column. */
  pairs(model) {
    return columns(model, "main");
  }

  /** The axes of an array's grid, if they are not the last two. */
  axes() {
    return null;
  }

  /** The minimum width of an array's figure. */
  least(array) {
    return captionWidth(array, scaled(array).what);
  }

  /** The smallest cells in which the numbers of an array are readable. */
  cell(array) {
    return readable(array, scaled(array).text);
  }

  grid(array, options) {
    const made = new Grid(array, this.selection, { ...options, ...scaled(array) });
    made.scrolled = () => this.moved?.();
    return made;
  }

  open(model) {
    this.arrays = this.pairs(model).map((pair) => pair.map((name) => name && model.arrays.get(name)));
    this.captions = this.arrays.map((pair) => Math.max(...pair.map((array) => (array ? this.least(array) : 0))));
    this.smallest = Math.max(...this.arrays.flat().map((array) => (array ? this.cell(array) : 0)));
    this.ways = null;
    this.bands = h("div", { class: "bands" });
    this.element.replaceChildren(this.bands);
  }

  /** Draws the grids as large as space permits. */
  layout(width, height) {
    const room = { width, height, zoom: zoom.factor, smallest: this.smallest };
    const { cell, across, bands, frame } = planned(this.arrays, this.captions, this.axes, room);
    if (this.ways !== across.join()) {
      this.ways = across.join();
      for (const grid of this.grids) grid.release();
      this.columns = this.arrays.map((pair, j) =>
        pair.map((array) => array && this.grid(array, { across: Boolean(across[j]), grid: this.axes(array) })),
      );
      this.grids = this.columns.flat().filter(Boolean);
    }
    // drawn outside the document: inside, each new font would make the browser recompute all of its styles
    this.bands.replaceChildren();
    const found = bands.map((members) => this.#band(members.map((j) => this.columns[j])));
    for (const grid of this.grids) grid.setCell(cell, frame);
    this.bands.replaceChildren(...found);
  }

  #band(pairs) {
    const slot = (grid) => h("div", { class: "slot" }, grid?.element);
    const row = (pass, grids) => (grids.some(Boolean) ? [h("span", { class: "pass" }, pass), ...grids.map(slot)] : []);
    const forward = pairs.map(([above]) => above);
    const backward = pairs.map(([, below]) => below);
    const band = h("div", { class: "band" }, ...row("forward", forward), ...row("backward", backward));
    band.style.gridTemplateColumns = `18px repeat(${pairs.length}, max-content)`;
    return band;
  }
}
