// The tab "through time": a recurrent network unrolled, time from left to right.

import { h } from "page/dom";
import { Stage, columns } from "page/stage";

const ORDER = ["input", "inner", "gradient", "output", "upstream"];

export class Time extends Stage {
  /** What has a time axis, in the order of the computation; then the weights. */
  pairs(model) {
    const named = [...columns(model, "main"), ...columns(model, "time")];
    const array = ([forward, backward]) => model.arrays.get(forward ?? backward);
    const timed = (pair) => array(pair).axes.includes("t");
    const place = (pair) => ORDER.indexOf(array(pair).role);
    return [...named.filter(timed).sort((a, b) => place(a) - place(b)), ...named.filter((pair) => !timed(pair))];
  }

  /** Time to the right, units below each other. */
  axes({ axes, shape }) {
    const time = axes.indexOf("t");
    const rank = shape.length;
    return time < 0 || rank < 2 ? null : [time === rank - 1 ? rank - 2 : rank - 1, time];
  }

  open(model) {
    super.open(model);
    this.model = model;
    this.timed = this.arrays.flat().filter((array) => array?.axes.includes("t"));
    const length = Math.max(...this.timed.map((array) => array.shape[array.axes.indexOf("t")]));
    const attributes = { type: "range", min: 0, max: length - 1, value: 0, "aria-label": "time step" };
    this.slider = h("input", { ...attributes, oninput: () => this.#scrub() });
    this.now = h("output", {});
    this.element.prepend(
      h("p", { class: "scrub" }, h("label", {}, "time step ", this.slider), this.now),
      h("p", { class: "say" }, ...this.#story()),
    );
  }

  /** Which arrays are made of themselves at another moment: what a recurrent network hands on. */
  #story() {
    const own = ({ name }) => this.model.products.get(name)?.some(({ factors }) => factors.includes(name));
    const back = this.timed.filter((array) => own(array) && this.model.isBackward(array.name));
    if (!back.length) return ["Time runs to the right, gradients run back to the left."];
    const names = back.map(({ name, role }) => [h("code", { class: `role-${role}` }, name), " "]).flat();
    return [
      "Time runs to the right, gradients run back to the left: an entry of ",
      ...names,
      "is made of those one step later. Take one apart, and move through time.",
    ];
  }

  /** Another moment: the same entry there is taken apart. */
  #scrub() {
    const { pinned } = this.selection;
    const array =
      this.timed.find(({ name }) => name === pinned?.name) ?? this.timed.find(({ name }) => this.model.isSum(name));
    if (!array) return;
    const place = array.place(array.name === pinned?.name ? pinned.at : 0);
    const axis = array.axes.indexOf("t");
    place[axis] = Math.min(Number(this.slider.value), array.shape[axis] - 1);
    this.selection.pin(array.name, array.at(place));
  }

  /** The moment that the taken entry belongs to. */
  follow() {
    const { reading } = this.selection;
    const axis = reading?.array.axes.indexOf("t") ?? -1;
    if (axis >= 0) this.slider.value = reading.array.index(reading.at)[axis];
    this.now.textContent = `t = ${this.slider.value}`;
    this.slider.style.setProperty("--part", `${(100 * this.slider.value) / Math.max(1, this.slider.max)}%`);
  }
}
