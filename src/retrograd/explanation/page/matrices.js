// The tab "as matrices": the same sums as products of matrices, laid out so that a row and a column meet in their entry.

import { h } from "page/dom";
import { Grid } from "page/grid";
import { Values } from "page/array";

export class Matrices {
  constructor(selection) {
    this.selection = selection;
    this.element = h("div", { class: "matrices" });
    this.grids = [];
  }

  open(model) {
    this.model = model;
    const arrays = [...model.arrays.values()].filter((array) => array.view === "matrices");
    const sources = new Set(arrays.flatMap(({ copies }) => (copies ? [copies.array] : [])));
    const targets = arrays.filter(({ name }) => model.isSum(name));
    this.sources = [...sources].map((name) => this.#grid(model.arrays.get(name), { across: true }));
    this.equations = targets.map((target) => this.#equation(target)).filter(Boolean);
    this.grids = [...this.sources, ...this.equations.flatMap(({ grids }) => grids)];
    this.element.replaceChildren(
      h("section", { class: "sources" }, h("p", { class: "say" }, "Each entry of a matrix is a copy of an entry of these arrays, or a sum over a row and a column. Point at one: its copies are dashed."), h("div", { class: "row" }, ...this.sources.map(({ element }) => element))),
      ...this.equations.map(({ element }) => element),
    );
  }

  #grid(array, options) {
    return new Grid(array, this.selection, options);
  }

  #equation(target) {
    const kinds = this.model.products.get(target.name);
    const two = kinds.find(({ factors }) => factors.length === 2);
    if (two) return this.#product(target, two);
    return kinds.some(({ factors }) => factors.length === 1) ? this.#scatter(target, kinds[0]) : null;
  }

  /** A · B = target: A to the left of the target, B above it. */
  #product(target, products) {
    const { left, right } = sides(products);
    const [a, b] = [left, right].map(({ array, transposed }) => this.#grid(array, { transposed, across: false, title: array.name + (transposed ? "ᵀ" : ""), what: array.about.split(/[:;,]/)[0] }));
    const result = this.#grid(target, { across: false, what: target.about.split(/[:;,]/)[0] });
    const name = (grid) => h("b", { class: `role-${grid.array.role}` }, grid.options.title ?? grid.array.name);
    const text = h("div", { class: "equation" }, h("p", { class: "math" }, name(result), " = ", name(a), " · ", name(b)), h("p", {}, this.model.formulas[target.name] ?? target.about));
    const element = h("section", { class: "product" }, text, b.element, a.element, result.element);
    return { element, grids: [a, b, result], columns: a.panels.columns + b.panels.columns };
  }

  /** Every entry of the target is the sum of those entries of another array that were copied from it. */
  #scatter(target, products) {
    const source = this.#grid(this.model.arrays.get(products.factors[0]), { across: false });
    const result = this.#grid(target, {});
    const counts = new Values(target.name, { ...target, role: target.role, values: Array.from({ length: target.size }, (_, at) => this.model.products.get(target.name).reduce((sum, each) => sum + each.rows(0, at).length, 0)) });
    const many = this.#grid(counts, { title: "how many", what: `entries are added to each of ${target.name}` });
    const text = h("div", { class: "equation" }, h("p", { class: "math" }, h("b", { class: `role-${target.role}` }, target.name), " ← ", h("b", { class: `role-${source.array.role}` }, source.array.name), " added up where it came from"), h("p", {}, this.model.formulas[target.name] ?? target.about));
    const element = h("section", { class: "scatter" }, text, h("div", { class: "row" }, source.element, h("span", { class: "arrow" }, "→"), result.element, many.element));
    return { element, grids: [source, result, many], columns: Math.max(source.panels.columns * source.panels.panelColumns, 1) };
  }

  layout(width) {
    for (const { grids, columns } of this.equations) {
      const cell = Math.max(7, Math.min(30, Math.floor((width - 80) / columns)));
      for (const grid of grids) grid.setCell(cell);
    }
    const all = this.sources.reduce((sum, { panels }) => sum + panels.columns * panels.panelColumns, 0);
    const cell = Math.max(8, Math.min(26, Math.floor((width - 60 * this.sources.length) / all)));
    for (const grid of this.sources) grid.setCell(cell);
  }
}

/** Which factor runs along the rows of the target, and whether a factor is read transposed. */
function sides(products) {
  const target = products.arrays.get(products.target);
  const arrays = products.factors.map((name) => products.arrays.get(name));
  const rows = Math.min(products.index.length / products.width, 4000);
  const holds = (column, axis, wanted) => {
    for (let row = 0; row < rows; row++) {
      const [to, from] = [products.index[row * products.width], products.index[row * products.width + column]];
      if (arrays[column - 1].place(from).at(axis) !== target.place(to).at(wanted)) return false;
    }
    return true;
  };
  for (const [first, second] of [[1, 2], [2, 1]]) {
    for (const [rowAxis, columnAxis] of [[-2, -1], [-1, -1], [-2, -2], [-1, -2]]) {
      if (holds(first, rowAxis, -2) && holds(second, columnAxis, -1)) {
        return { left: { array: arrays[first - 1], transposed: rowAxis === -1 }, right: { array: arrays[second - 1], transposed: columnAxis === -2 } };
      }
    }
  }
  return { left: { array: arrays[0], transposed: false }, right: { array: arrays[1], transposed: false } };
}
