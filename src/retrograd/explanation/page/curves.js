// The tab "curves": a function of one number, its derivative, and the derivative that its backward declares.

import { numbers } from "page/array";
import { h, s, withCode } from "page/dom";
import { styled } from "page/export";
import { long } from "page/number_format";

const MARGIN = { left: 44, top: 16, bottom: 32 };

export class Curves {
  /** retype(text, say): requests this gradient in place of the declared one; null if there is no server */
  constructor(selection, retype = null) {
    Object.assign(this, { selection, retype });
    this.element = h("div", { class: "curves" });
    this.grids = [];
  }

  open(model) {
    this.model = model;
    this.draft = null; // the current input
    const { x, lines } = model.document.curves;
    this.x = numbers(x);
    // the declared gradient is drawn under the derivative, so that both are visible where they are equal
    const depth = ({ kind }) => ["declared", "function", "derivative"].indexOf(kind);
    this.lines = lines.map((line) => ({ ...line, values: numbers(line.values) })).sort((a, b) => depth(a) - depth(b));
  }

  layout(width) {
    this.width = Math.min(width, 860);
    this.height = Math.max(260, Math.min(460, this.width * 0.56));
    this.right = this.width < 480 ? 16 : 24 + 7.6 * Math.max(...this.lines.map(({ name }) => name.length));
    const right = this.right;
    const finite = this.lines.flatMap(({ values }) => [...values].filter(Number.isFinite));
    const [low, high] = [Math.min(0, ...finite), Math.max(0, ...finite)];
    this.range = high - low;
    const [first, last] = [this.x[0], this.x[this.x.length - 1]];
    this.across = (x) => MARGIN.left + ((x - first) / (last - first)) * (this.width - MARGIN.left - right);
    this.up = (y) =>
      MARGIN.top +
      ((high + 0.05 * (high - low) - y) / (1.1 * (high - low) || 1)) * (this.height - MARGIN.top - MARGIN.bottom);
    const picture = s("svg", {
      viewBox: `0 0 ${this.width} ${this.height}`,
      width: this.width,
      height: this.height,
      role: "img",
      "aria-label": this.lines.map(({ name }) => name).join(", "),
    });
    picture.append(...this.#axes(first, last, low, high), ...this.lines.map((line) => this.#line(line)));
    if (right > 16) picture.append(...this.#names());
    this.mark = s("g", { class: "mark" });
    picture.append(this.mark);
    picture.addEventListener("pointermove", (event) => {
      const box = picture.getBoundingClientRect();
      const share = (event.clientX - box.left - MARGIN.left) / (this.width - MARGIN.left - right);
      this.#read(Math.max(0, Math.min(this.x.length - 1, Math.round(share * (this.x.length - 1)))));
    });
    this.readout = h("p", { class: "readout" });
    const keys = this.lines.map(({ name, kind }) => h("li", { class: `kind-${kind}` }, h("i", {}), name));
    const names = right > 16 ? [] : [h("ul", { class: "keys" }, ...keys)];
    this.element.replaceChildren(picture, ...names, this.readout, ...this.#rule());
    this.picture = picture;
    this.follow();
  }

  /** The input for another gradient. */
  #rule() {
    const { typed, settings, operator } = this.model.document;
    if (typed === undefined) return [];
    if (!this.retype) {
      if (typed) return [h("p", { class: "rule" }, "gx = ", h("code", {}, typed))];
      return settings.length ? [h("p", { class: "say" }, withCode(toType(operator)))] : [];
    }
    const input = h("input", {
      id: "typed",
      value: this.draft ?? typed,
      oninput: () => (this.draft = input.value),
      maxlength: 200,
      spellcheck: "false",
      autocomplete: "off",
      placeholder: "g * (abs(x) <= 1)",
      "aria-describedby": "typed-message",
    });
    const message = h("p", { id: "typed-message", class: "wrong", role: "alert" });
    const submit = async (event) => {
      event.preventDefault();
      this.typing = true;
      await this.retype(input.value.trim(), (text) => (message.textContent = text));
      this.typing = false;
    };
    const own = h("button", { type: "button", hidden: !typed, onclick: () => this.retype("") }, "restore its own");
    if (this.typing) setTimeout(() => input.focus());
    return [
      h(
        "form",
        { class: "rule", onsubmit: submit },
        h("label", { for: "typed" }, "Type another gradient: gx = "),
        input,
        h("button", {}, "use it"),
        own,
      ),
      message,
    ];
  }

  svg() {
    return styled(this.picture);
  }

  #axes(first, last, low, high) {
    const found = [];
    for (const x of ticks(first, last))
      found.push(
        s("line", {
          class: "tickline",
          x1: this.across(x),
          x2: this.across(x),
          y1: MARGIN.top,
          y2: this.height - MARGIN.bottom,
        }),
        text(this.across(x), this.height - MARGIN.bottom + 16, long(x), "middle"),
      );
    for (const y of ticks(low, high))
      found.push(
        s("line", {
          class: y === 0 ? "zero" : "tickline",
          x1: this.across(first),
          x2: this.across(last),
          y1: this.up(y),
          y2: this.up(y),
        }),
        text(MARGIN.left - 8, this.up(y), long(y), "end"),
      );
    return found;
  }

  #line({ values, kind }) {
    const pieces = [];
    let open = false;
    values.forEach((y, j) => {
      // no line across a jump
      const jump = j && Math.abs(y - values[j - 1]) > 0.2 * this.range;
      if (!Number.isFinite(y)) open = false;
      else {
        pieces.push(`${open && !jump ? "L" : "M"}${this.across(this.x[j]).toFixed(1)} ${this.up(y).toFixed(1)}`);
        open = true;
      }
    });
    return s("path", { d: pieces.join(""), class: `curve kind-${kind}` });
  }

  /** The names at the ends of the lines, moved apart where they overlap. */
  #names() {
    const ends = this.lines
      .map((line) => ({ line, y: this.up([...line.values].findLast(Number.isFinite) ?? 0) }))
      .sort((a, b) => a.y - b.y);
    ends.forEach((end, j) => (end.y = j ? Math.max(end.y, ends[j - 1].y + 16) : end.y));
    return ends.map(({ line, y }) => {
      const label = text(this.width - this.right + 8, y, line.name, "start");
      label.setAttribute("class", `name kind-${line.kind}`);
      return label;
    });
  }

  #read(j) {
    const x = this.x[j];
    const dots = this.lines
      .filter(({ values }) => Number.isFinite(values[j]))
      .map(({ values, kind }) =>
        s("circle", { cx: this.across(x), cy: this.up(values[j]), r: 4, class: `kind-${kind}` }),
      );
    this.mark.replaceChildren(
      s("line", { x1: this.across(x), x2: this.across(x), y1: MARGIN.top, y2: this.height - MARGIN.bottom }),
      ...dots,
    );
    this.readout.replaceChildren(
      `at ${long(x)}: `,
      ...this.lines.map(({ name, values, kind }) => h("span", { class: `kind-${kind}` }, `${name} ${long(values[j])}`)),
    );
  }

  /** The x of the selected entry, if it is an input. */
  follow() {
    const { reading } = this.selection;
    if (!reading || reading.at < 0) return;
    const x = this.model.arrays.get("x");
    if (!x || x.size !== reading.array.size) return;
    const value = x.value(reading.at);
    const share = (value - this.x[0]) / (this.x[this.x.length - 1] - this.x[0]);
    if (share >= 0 && share <= 1) this.#read(Math.round(share * (this.x.length - 1)));
  }
}

/** Explains how to type another gradient, if there is no server. */
export const toType = (operator) => `To type another gradient, run \`retrograd explain ${operator}\`.`;

function text(x, y, words, anchor) {
  return s("text", { x, y, "text-anchor": anchor, "dominant-baseline": "central" }, words);
}

function ticks(low, high) {
  const rough = (high - low) / 5 || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const found = [];
  for (let j = Math.ceil(low / step); j * step <= high + 1e-9; j++) found.push(Number((j * step).toPrecision(6)));
  return found;
}
