// The tab "entry by entry": every array above its gradient, forward in the upper row and backward in the lower one.

import { h } from "page/dom";
import { Grid } from "page/grid";

const SPACE = { column: 34, row: 26, caption: 30 };

/** Grids that stand together, in columns [forward, backward]: each array above its gradient. */
export function columns(model, view) {
  const arrays = [...model.arrays.values()].filter((array) => array.view === view);
  const names = new Set(arrays.map(({ name }) => name));
  const gradient = (name) => [`g${name}`, `d${name}`].find((each) => names.has(each) && model.isBackward(each)) ?? null;
  const taken = new Set();
  const found = [];
  const order = [...arrays.filter(({ role }) => role !== "inner" && role !== "output"), ...arrays.filter(({ role }) => role === "inner"), ...arrays.filter(({ role }) => role === "output")];
  for (const { name } of order) {
    if (model.isBackward(name)) continue;
    const below = gradient(name);
    taken.add(name).add(below);
    found.push([name, below]);
  }
  const free = arrays.filter(({ name }) => !taken.has(name)).map(({ name }) => name);
  for (const name of free) {
    const gap = found.find(([above, below]) => !below && model.arrays.get(above).role === "inner");
    if (gap) gap[1] = name;
    else found.splice(found.length - 1, 0, [null, name]);
  }
  return found;
}

export class Stage {
  constructor(selection) {
    this.selection = selection;
    this.element = h("div", { class: "bands" });
    this.grids = [];
  }

  open(model) {
    this.model = model;
    this.columns = columns(model, "main");
    this.lastAcross = null;
  }

  /** Draws the grids as large as they fit. */
  layout(width, height) {
    const plan = this.#plan(width, height);
    if (this.lastAcross !== plan.across) this.#make(plan.across);
    const bands = plan.bands.map((members) => this.#band(members));
    this.element.replaceChildren(...bands);
    for (const grid of this.grids) grid.setCell(plan.cell);
  }

  #make(across) {
    this.lastAcross = across;
    this.byName = new Map(this.columns.flat().filter(Boolean).map((name) => [name, new Grid(this.model.arrays.get(name), this.selection, { across })])); // prettier-ignore
    this.grids = [...this.byName.values()];
  }

  #band(members) {
    const cell = (name, row) => h("div", { class: `slot ${row}` }, name ? this.byName.get(name).element : null);
    const band = h("div", { class: "band" }, h("span", { class: "pass forward" }, "forward"), ...members.map(([above]) => cell(above, "above")), h("span", { class: "pass backward" }, "backward"), ...members.map(([, below]) => cell(below, "below")));
    band.style.gridTemplateColumns = `auto repeat(${members.length}, max-content)`;
    return band;
  }

  /** The largest cells with which everything fits, panels beside each other or below. */
  #plan(width, height) {
    let fallback = null;
    for (let cell = 38; cell >= 5; cell--) {
      for (const across of [false, true]) {
        if (this.lastPlanned !== across) this.#measure(across);
        const bands = this.#bands(cell, width);
        if (!bands) continue;
        const plan = { cell, across, bands: bands.members };
        if (bands.height <= height && bands.members.length === 1) return plan;
        if (!fallback && cell <= 30) fallback = { ...plan, height: bands.height };
        else if (fallback && cell >= 24 && bands.height < 0.8 * fallback.height) fallback = { ...plan, height: bands.height };
      }
    }
    return fallback ?? { cell: 5, across: false, bands: [this.columns] };
  }

  #measure(across) {
    this.lastPlanned = across;
    this.sizes = new Map(this.columns.flat().filter(Boolean).map((name) => [name, new Grid(this.model.arrays.get(name), null, { across }).panels])); // prettier-ignore
  }

  #bands(cell, width) {
    const size = (name) => (name ? this.sizes.get(name).size(cell) : { width: 0, height: 0 });
    const members = [[]];
    let used = 0;
    let height = 0;
    let tallest = [0, 0];
    for (const column of this.columns) {
      const [above, below] = column.map(size);
      const wide = Math.max(above.width, below.width, 56);
      if (wide > width) return null;
      if (used + wide > width && members.at(-1).length) {
        members.push([]);
        height += tallest[0] + tallest[1];
        [used, tallest] = [0, [0, 0]];
      }
      members.at(-1).push(column);
      used += wide + SPACE.column;
      tallest = [Math.max(tallest[0], above.height), Math.max(tallest[1], below.height)];
    }
    height += tallest[0] + tallest[1];
    return { members, height: height + members.length * 2 * (SPACE.row + SPACE.caption) };
  }
}
