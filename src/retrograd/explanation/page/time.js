// The tab "through time": a recurrent network unrolled, time from left to right, forward beside backward.

import { h } from "page/dom";
import { Grid } from "page/grid";
import { columns } from "page/stage";

export class Time {
  constructor(selection) {
    this.selection = selection;
    this.element = h("div", { class: "time" });
    this.grids = [];
    this.t = 0;
  }

  open(model) {
    this.model = model;
    const pairs = columns(model, "time").map((pair) =>
      pair.map((name) => (name ? this.#grid(model.arrays.get(name)) : null)),
    );
    this.grids = pairs.flat().filter(Boolean);
    this.length = Math.max(...this.grids.map(({ panels }) => panels.columns), 1);
    this.slider = h("input", {
      type: "range",
      min: 0,
      max: this.length - 1,
      value: Math.min(this.t, this.length - 1),
      "aria-label": "time step",
      oninput: () => this.#scrub(),
    });
    this.now = h("output", {});
    const rows = pairs.map(([forward, backward]) =>
      h("div", { class: "moment" }, ...[forward, backward].map((grid) => h("div", {}, grid?.element ?? ""))),
    );
    const head = h(
      "div",
      { class: "moment heads" },
      h("p", { class: "pass" }, "forward →"),
      h("p", { class: "pass" }, "← backward"),
    );
    this.element.replaceChildren(
      h("p", { class: "scrub" }, h("label", {}, "time step ", this.slider), this.now),
      head,
      ...rows,
    );
    this.#say();
  }

  #grid(array) {
    const time = array.axes.indexOf("t");
    const rank = array.shape.length;
    const options =
      time < 0 || rank < 2 ? {} : { grid: [time === rank - 1 ? rank - 2 : rank - 1, time], across: false };
    return new Grid(array, this.selection, { ...options, what: array.about });
  }

  #say() {
    this.now.textContent = `t = ${this.slider.value} of ${this.length}`;
  }

  /** Another moment: the same entry of the same array there is taken apart. */
  #scrub() {
    this.t = Number(this.slider.value);
    this.#say();
    const { pinned } = this.selection;
    const array = pinned && this.model.arrays.get(pinned.name);
    const axis = array?.view === "time" ? array.axes.indexOf("t") : -1;
    const from =
      axis >= 0
        ? array
        : this.grids.find((grid) => grid.array.axes.includes("t") && this.model.isBackward(grid.array.name))?.array;
    if (!from) return;
    const place = axis >= 0 ? array.place(pinned.at) : from.place(0);
    place[from.axes.indexOf("t")] = Math.min(this.t, from.shape[from.axes.indexOf("t")] - 1);
    this.selection.pin(from.name, from.at(place));
  }

  layout(width) {
    const cell = Math.max(12, Math.min(34, Math.floor((width - 80) / (width > 640 ? 2 : 1) / this.length)));
    for (const grid of this.grids) grid.setCell(cell);
  }

  /** The moment that the taken entry belongs to. */
  follow() {
    const { reading } = this.selection;
    const axis = reading?.array.axes.indexOf("t") ?? -1;
    if (axis < 0) return;
    this.t = reading.array.index(reading.at)[axis];
    this.slider.value = this.t;
    this.#say();
  }
}
