// The tab "through time": a recurrent network unrolled, time from left to right.

import { Diagram } from "page/diagram";
import { h } from "page/dom";
import { Stage, columns } from "page/entries_tab";

const ORDER = ["input", "inner", "gradient", "output", "upstream"];
const CHOSEN = { h: "unit", n: "sequence" };

export class Time extends Stage {
  /** The arrays with a time axis, in the order of the computation; then the weights. */
  pairs(model) {
    const named = [...columns(model, "main"), ...columns(model, "time")];
    const array = ([forward, backward]) => model.arrays.get(forward ?? backward);
    const timed = (pair) => array(pair).axes.includes("t");
    const place = (pair) => ORDER.indexOf(array(pair).role);
    return [...named.filter(timed).sort((a, b) => place(a) - place(b)), ...named.filter((pair) => !timed(pair))];
  }

  /** Time runs to the right, units are stacked. */
  axes({ axes, shape }) {
    const time = axes.indexOf("t");
    const rank = shape.length;
    return time < 0 || rank < 2 ? null : [time === rank - 1 ? rank - 2 : rank - 1, time];
  }

  /** For a large layer only the diagram: the grids of its parts have their own tabs. */
  open(model) {
    this.large = Boolean(model.document.ask);
    if (!this.large) super.open(model);
    this.model = model;
    this.timed = [...model.arrays.values()].filter(({ letters }) => letters.includes("t"));
    const attributes = { type: "range", min: 0, max: this.timed[0].shape[0] - 1, "aria-label": "time step" };
    this.slider = h("input", { ...attributes, oninput: () => this.#go("t", Number(this.slider.value)) });
    this.now = h("output", {});
    this.diagram = new Diagram(this.selection);
    this.diagram.open(model);
    const choices = Object.keys(CHOSEN).map((letter) => this.#choice(letter));
    const scrub = h("label", {}, "time step ", this.slider);
    const parts = [h("p", { class: "scrub" }, scrub, this.now, ...choices), this.diagram.element];
    this.element.replaceChildren(...parts, ...(this.large ? [] : [this.bands]));
  }

  /** Selects the unit or sequence of the diagram. */
  #choice(letter) {
    const { letters, shape } = this.timed.find((array) => array.letters.includes(letter));
    const extent = shape[letters.indexOf(letter)];
    if (extent < 2) return null;
    const options = Array.from({ length: extent }, (_, j) => h("option", { value: j }, String(j)));
    const attributes = { "data-axis": letter, "aria-label": `${CHOSEN[letter]} that is shown` };
    const go = () => this.#go(letter, Number(select.value));
    const select = h("select", { ...attributes, onchange: go }, ...options);
    return h("label", {}, `${CHOSEN[letter]} `, select);
  }

  /** The content that is saved as a file. */
  get picture() {
    return this.diagram.picture;
  }

  svg() {
    return this.diagram.svg();
  }

  layout(width, height) {
    this.diagram.layout(width);
    if (!this.large) super.layout(width, height);
  }

  /** Another step, unit or sequence: selects the same entry there. */
  #go(letter, position) {
    const { pinned } = this.selection;
    const has = ({ letters }) => letters.includes(letter);
    const array =
      this.timed.find((each) => each.name === pinned?.name && has(each)) ??
      this.timed.find((each) => has(each) && this.model.isSum(each.name) && this.model.isBackward(each.name)) ??
      this.timed.find((each) => has(each) && this.model.isSum(each.name));
    if (!array) return;
    const known = { ...this.diagram.at, t: Number(this.slider.value), [letter]: position };
    const before = array.name === pinned?.name ? array.index(pinned.at) : array.letters.map((each) => known[each]);
    const index = before.map((place, axis) => (array.letters[axis] === letter ? position : place));
    this.selection.pin(array.name, array.flat(index));
  }

  /** The step of the selected entry. */
  follow() {
    this.diagram.follow();
    this.slider.value = this.diagram.at.t;
    this.now.textContent = `t = ${this.slider.value}`;
    this.slider.style.setProperty("--part", `${(100 * this.slider.value) / Math.max(1, this.slider.max)}%`);
    for (const select of this.element.querySelectorAll(".scrub select")) select.value = this.diagram.at[select.dataset.axis];
  }
}
