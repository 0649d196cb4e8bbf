// The tab "break it": one line of the backward is changed, and the check finds the wrong entries.

import { numbers } from "page/array";
import { h, withCode } from "page/dom";
import { Grid } from "page/grid";
import { Values } from "page/array";
import { count, short } from "page/number_format";

const NOTHING =
  "There is no line to break here: the backward passes the gradient on as it is, or the arrays are too large to check.";
const SAME = "With these settings the broken line computes the same result: choose other settings, and come back.";
const JACOBIAN =
  "gradcheck compares Jacobians, ∂y/∂x for every entry of y and of x. The gradients above are gy times these, so its " +
  "diagnosis is about other numbers.";

export class Mutations {
  constructor() {
    this.element = h("div", { class: "faults" });
    this.grids = [];
    this.chosen = null;
    this.width = 800;
  }

  open(model) {
    this.model = model;
    this.faults = model.document.faults;
    this.grids = [];
    if (!this.faults.length)
      return this.element.replaceChildren(h("p", { class: "say" }, NOTHING));
    this.buttons = this.faults.map((fault, number) =>
      h("button", { title: fault.about, onclick: () => this.#choose(number) }, fault.name),
    );
    this.body = h("div", {});
    this.element.replaceChildren(
      h("p", { class: "say" }, "Break one line of the backward, and see which entries of the gradient change."),
      h("nav", { class: "choice", "aria-label": "faults" }, ...this.buttons),
      this.body,
    );
    const telling = this.faults.findIndex(({ wrong }) => Object.keys(wrong).length);
    this.#choose(Math.min(this.chosen ?? Math.max(0, telling), this.faults.length - 1));
  }

  #choose(number) {
    this.chosen = number;
    const { about, before, after, wrong, marked, report, diagnosis, error } = this.faults[number];
    this.buttons.forEach((button, j) => button.setAttribute("aria-pressed", String(j === number)));
    const lines = diagnosis.split("\n"); // one for each wrong gradient
    const pairs = Object.entries(wrong).map(([name, values], j) =>
      this.#compared(this.model.arrays.get(name), numbers(values), new Set(marked[name]), lines[j]),
    );
    this.grids = pairs.flatMap(({ grids }) => grids);
    this.body.replaceChildren(
      h("p", {}, about),
      h("pre", { class: "change" }, h("del", {}, before), "\n", h("ins", {}, after)),
      pairs.length ? "" : h("p", { class: "diagnosis" }, error ? `It does not run: ${error}` : SAME),
      ...pairs.map(({ element }) => element),
      pairs.length
        ? h(
            "details",
            {},
            h("summary", {}, "what gradcheck prints"),
            h("p", { class: "say" }, JACOBIAN),
            h("pre", { class: "report", tabindex: 0 }, report),
          )
        : "",
    );
    this.layout(this.width);
  }

  /** The correct gradient and that of the broken line, with the wrong entries marked. */
  #compared(array, values, marked, line) {
    const differs = (at) => marked.has(at);
    const broken = new Values(array.name, { ...array, values: [...values] });
    broken.largest = array.largest;
    const right = new Grid(array, null, { what: "as it is" });
    const wrong = new Grid(broken, null, {
      what: `broken: ${count(marked.size, "entry")} wrong`,
      marked: differs,
      text: (value, at) => (at >= 0 && differs(at) ? `${short(value)}✗` : short(value)),
    });
    const row = h("div", { class: "row" }, right.element, h("span", { class: "arrow" }, "→"), wrong.element);
    return { grids: [right, wrong], element: h("div", {}, h("p", { class: "diagnosis" }, withCode(line)), row) };
  }

  layout(width) {
    this.width = width;
    for (const grid of this.grids) {
      const { columns, panelColumns } = grid.panels;
      const fitting = Math.min(34, Math.floor((width - 60) / 2 / (columns * panelColumns)));
      grid.setCell(Math.max(grid.least, fitting), { width: Math.min(width - 12, 900), height: 420 });
    }
  }
}
