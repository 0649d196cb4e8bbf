// The tab "as matrices": the same sums as matrix products, next to the arrays that the matrices copy.

import { h } from "page/dom";
import { Grid } from "page/grid";
import { Values } from "page/array";

export class Matrices {
  constructor(selection) {
    this.selection = selection;
    this.element = h("div", { class: "matrices" });
    this.grids = [];
    this.chosen = null;
    [this.width, this.height] = [800, 600];
  }

  open(model) {
    this.model = model;
    const arrays = [...model.arrays.values()].filter((array) => array.view === "matrices");
    const names = new Set(arrays.flatMap(({ copies }) => (copies ? [copies.array] : [])));
    this.sources = [...names].map((name) => this.#grid(model.arrays.get(name)));
    this.equations = arrays.filter(({ name }) => model.isSum(name)).map((target) => this.#equation(target));
    this.buttons = this.equations.map(({ title }, number) =>
      h("button", { onclick: () => this.choose(number) }, ...title()),
    );
    this.place = h("div", {});
    this.element.replaceChildren(
      h("div", { class: "row sources" }, ...this.sources.map(({ element }) => element)),
      h("nav", { class: "choice", "aria-label": "products of matrices" }, ...this.buttons),
      this.place,
    );
    const current = this.#belonging();
    const weight = this.equations.findIndex(({ target }) => target.role === "gradient");
    this.#show(current >= 0 ? current : Math.max(0, weight));
  }

  #grid(array, options = {}) {
    return new Grid(array, this.selection, options);
  }

  /** The equation whose result is the selected entry, or a copy of it. */
  #belonging() {
    const { reading } = this.selection;
    if (!reading) return -1;
    const { name, copies } = reading.array;
    return this.equations.findIndex(
      ({ target }) => target.name === name || target.copies?.array === name || copies?.array === target.name,
    );
  }

  /** Shows the entry that a story selects. */
  follow() {
    const { storyStep, hovered } = this.selection;
    const number = storyStep && !hovered ? this.#belonging() : -1;
    if (number >= 0 && number !== this.chosen) this.choose(number);
  }

  /** Shows the equation that the reader chose. */
  choose(number) {
    this.#show(number);
    this.changed?.();
  }

  #show(number) {
    this.chosen = number;
    this.buttons.forEach((button, j) => button.setAttribute("aria-pressed", String(j === number)));
    const equation = this.equations[number];
    this.place.replaceChildren(equation.element);
    this.grids = [...this.sources, ...equation.grids];
  }

  #equation(target) {
    const kinds = this.model.products.get(target.name);
    const two = kinds.find(({ factors }) => factors.length === 2);
    const one = kinds.find(({ factors }) => this.model.arrays.get(factors[0]).view === "matrices");
    return two ? this.#product(target, two) : this.#scatter(target, one);
  }

  /** A · B = target: A to the left of the target, B below it, so that a row and a column meet in their entry. */
  #product(target, products) {
    const { left, right } = sides(products);
    const brief = (array) => array.about.split(/[:;,]/)[0];
    const [a, b] = [left, right].map(({ array, transposed }) =>
      this.#grid(array, {
        transposed,
        single: true,
        title: array.name + (transposed ? "ᵀ" : ""),
        what: brief(array),
      }),
    );
    const result = this.#grid(target, { single: true, what: brief(target) });
    const title = () =>
      [result, " = ", a, " · ", b].map((part) =>
        part instanceof Grid ? named(part.array.role, part.options.title ?? part.array.name) : part,
      );
    const text = h(
      "div",
      { class: "equation" },
      h("p", { class: "math" }, ...title()),
      h("p", {}, this.#about(target)),
      h(
        "p",
        {},
        "Every entry is a row times a column. Point at one of ",
        named(result.array.role, target.name),
        ": the row of ",
        named(left.array.role, a.options.title),
        " and the column of ",
        named(right.array.role, b.options.title),
        " that meet in it light up, and so do the entries above that they are copied from.",
      ),
    );
    const element = h("section", { class: "product" }, a.element, result.element, text, b.element);
    return {
      target,
      title,
      element,
      grids: [a, b, result],
      columns: a.panels.columns + b.panels.columns,
      rows: a.panels.rows + b.panels.rows,
    };
  }

  /** Every entry of the target is the sum of the entries of another array that were copied from it. */
  #scatter(target, products) {
    const source = this.#grid(this.model.arrays.get(products.factors[0]), { single: true });
    const result = this.#grid(target);
    const many = this.#grid(this.#counts(target, products), { title: "how many", what: "are added" });
    const title = () => [named(target.role, target.name), " ← ", named(source.array.role, source.array.name)];
    const text = h(
      "div",
      { class: "equation" },
      h("p", { class: "math" }, ...title()),
      h("p", {}, this.#about(target)),
      h("p", {}, "Where windows overlap, several entries belong to one entry. They are added up there."),
    );
    const element = h(
      "section",
      { class: "scatter" },
      text,
      h("div", { class: "row" }, source.element, h("span", { class: "arrow" }, "→"), result.element, many.element),
    );
    return {
      target,
      title,
      element,
      grids: [source, result, many],
      columns: 1.1 * (source.panels.columns + 2 * result.panels.columns * result.panels.panelColumns),
      rows: source.panels.rows,
    };
  }

  #about(target) {
    const text = this.model.formulas[target.name] || target.about;
    return `${text[0].toUpperCase()}${text.slice(1)}.`;
  }

  /** How many terms each entry has. */
  #counts(target, products) {
    const values = Array.from({ length: target.size }, (_, at) => products.rows(0, at).length);
    return new Values(target.name, { ...target, values });
  }

  layout(width, height) {
    [this.width, this.height] = [width, height];
    const fitting = (columns, space) => Math.max(6, Math.min(24, Math.floor((width - space) / columns)));
    const { columns, rows, grids } = this.equations[this.chosen];
    const least = Math.max(...grids.map((grid) => grid.least));
    const cell = Math.max(least, Math.min(fitting(columns, 90), Math.floor((height - 250) / rows)));
    const room = width - 60;
    const [first, ...others] = grids.map((grid) => grid.size(cell).width);
    const beside = Math.max(...others);
    grids.forEach((grid, j) => {
      // the first matrix of a product is to the left of the others
      const most = first + beside <= room ? room : j ? Math.min(beside, room / 2) : room - Math.min(beside, room / 2);
      grid.setCell(cell, { width: Math.round(most), height });
    });
    const all = this.sources.reduce((sum, { panels }) => sum + panels.columns * panels.panelColumns, 0);
    for (const grid of this.sources) grid.setCell(fitting(all, 65 * this.sources.length));
  }
}

const named = (role, name) => h("b", { class: `role-${role}` }, name);

/** The factor that runs along the rows of the target, and whether a factor is read transposed. */
function sides(products) {
  const target = products.arrays.get(products.target);
  const arrays = products.factors.map((name) => products.arrays.get(name));
  const rows = Math.min(products.index.length / products.width, 4000);
  const holds = (column, axis, targetAxis) => {
    for (let row = 0; row < rows; row++) {
      const [to, from] = [products.index[row * products.width], products.index[row * products.width + column]];
      if (arrays[column - 1].place(from).at(axis) !== target.place(to).at(targetAxis)) return false;
    }
    return true;
  };
  for (const [first, second] of [
    [1, 2],
    [2, 1],
  ]) {
    for (const [rowAxis, columnAxis] of [
      [-2, -1],
      [-1, -1],
      [-2, -2],
      [-1, -2],
    ]) {
      if (holds(first, rowAxis, -2) && holds(second, columnAxis, -1)) {
        return {
          left: { array: arrays[first - 1], transposed: rowAxis === -1 },
          right: { array: arrays[second - 1], transposed: columnAxis === -2 },
        };
      }
    }
  }
  return { left: { array: arrays[0], transposed: false }, right: { array: arrays[1], transposed: false } };
}
