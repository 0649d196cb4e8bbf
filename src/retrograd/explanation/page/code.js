// The tab "the code that ran": the kernel calls and their code, with the last executed line and the arrays after it.

import { Values } from "page/array";
import { h, withCode } from "page/dom";
import { Grid } from "page/grid";
import { count } from "page/number_format";

export class Code {
  constructor() {
    this.element = h("div", { class: "code" });
    this.grids = [];
    this.chosen = 0;
    this.width = 800;
  }

  open(model) {
    this.document = model.document;
    this.traces = [...model.document.traces, CALLS];
    this.groups = [...new Set(this.traces.map(({ group }) => group ?? ""))];
    this.nav = h("nav", { class: "traces", "aria-label": "what ran" });
    this.body = h("div", { class: "run" });
    this.element.replaceChildren(this.nav, this.body);
    this.#choose(Math.min(this.chosen, this.traces.length - 1));
  }

  /** Two rows of buttons: the algorithm, and one of its functions. */
  #buttons() {
    const button = ({ name, about, number }, text = name, pressed = number === this.chosen) =>
      h("button", { "aria-pressed": String(pressed), title: about, onclick: () => this.#choose(number) }, text);
    const all = this.traces.map((trace, number) => ({ ...trace, group: trace.group ?? "", number }));
    const { group, name } = all[this.chosen];
    const groups = this.groups.map((each) => {
      const members = all.filter((trace) => trace.group === each);
      return button(members.find((trace) => trace.name === name) ?? members[0], each, each === group);
    });
    const members = all.filter((trace) => trace.group === group).map((trace) => button(trace));
    const focused = this.nav.querySelector(":focus")?.textContent;
    const rows = members.length > 1 ? [groups, members] : [groups];
    this.nav.replaceChildren(...rows.map((row) => h("div", { class: "choice" }, ...row)));
    [...this.nav.querySelectorAll("button")].find(({ textContent }) => textContent === focused)?.focus();
  }

  #choose(number) {
    this.chosen = number;
    this.step = 0;
    this.trace = this.traces[number];
    this.#buttons();
    if (this.trace === CALLS) {
      this.grids = [];
      this.body.replaceChildren(...calls(this.document));
      return this.changed?.();
    }
    const { about, cost, result, steps } = this.trace;
    const move = (by) => () => this.#go(this.step + by);
    this.position = h("output", {});
    this.slider = h("input", {
      type: "range",
      min: 0,
      max: steps.length - 1,
      value: 0,
      "aria-label": "step",
      oninput: () => this.#go(Number(this.slider.value)),
    });
    this.source = h("div", {
      class: "source",
      tabindex: 0,
      role: "region",
      "aria-label": "source code; arrow keys step",
      onkeydown: (event) => this.#key(event),
    });
    this.arrays = h("div", { class: "arrays" });
    const costs =
      cost &&
      h(
        "p",
        { class: "cost" },
        `${bytes(cost.bytes)} of extra memory · ${count(cost.multiplications, "multiplication")}`,
      );
    this.body.replaceChildren(
      h("p", { class: "say" }, about, result ? [" It ends in ", h("b", {}, result), "."] : null),
      costs ?? "",
      h(
        "div",
        { class: "steps" },
        h("button", { onclick: move(-1), "aria-label": "step back" }, "‹ back"),
        h("button", { onclick: move(1), "aria-label": "step forward" }, "step ›"),
        this.slider,
        this.position,
      ),
      h("div", { class: "beside" }, this.source, this.arrays),
    );
    this.shownFunction = null;
    this.#go(0);
    this.changed?.();
  }

  #key(event) {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    this.#go(this.step + by);
  }

  #go(step) {
    const { steps, functions, values } = this.trace;
    this.step = Math.max(0, Math.min(steps.length - 1, step));
    const now = steps[this.step];
    this.slider.value = this.step;
    this.position.textContent = `${this.step + 1} of ${steps.length}`;
    if (this.shownFunction !== now.function) this.#write(functions[now.function]);
    this.shownFunction = now.function;
    for (const [number, line] of this.lines) {
      if (number === now.line) line.setAttribute("aria-current", "step");
      else line.removeAttribute("aria-current");
    }
    const line = this.lines.get(now.line);
    if (line) this.source.scrollTop = line.offsetTop - this.source.clientHeight / 2;
    this.grids = [];
    const shown = [...this.#arraysNow()].map(([name, place]) => {
      const changed = now.arrays[name] === place;
      const { shape } = values[place];
      const array = new Values(name, { ...values[place], role: name === this.trace.result ? "gradient" : "inner" });
      const grid = new Grid(array, null, { what: shape.length ? shape.join(" × ") : "a number" });
      grid.element.classList.toggle("changed", changed);
      this.grids.push(grid);
      return [changed, grid.element];
    });
    shown.sort(([a], [b]) => Number(b) - Number(a));
    this.arrays.replaceChildren(...shown.map(([, element]) => element));
    this.layout(this.width);
  }

  /** The arrays of the running function: a step lists those that changed, the function's first line starts over. */
  #arraysNow() {
    const { steps, functions } = this.trace;
    const frames = functions.map(() => new Map());
    for (const { function: number, line, arrays } of steps.slice(0, this.step + 1)) {
      if (line === functions[number].first_line) frames[number].clear();
      for (const [name, place] of Object.entries(arrays)) frames[number].set(name, place);
    }
    return frames[steps[this.step].function];
  }

  #write({ name, file, first_line: first, source, sha256 }) {
    this.lines = new Map();
    let inside = false;
    const lines = source
      .replace(/\n$/, "")
      .split("\n")
      .map((text, j) => {
        const quotes = text.split('"""').length - 1;
        const words = colored(text, inside);
        if (quotes % 2) inside = !inside;
        const line = h(
          "div",
          { class: "line" },
          h("span", { class: "number" }, String(first + j)),
          h("code", {}, ...words),
        );
        this.lines.set(first + j, line);
        return line;
      });
    const place = h(
      "p",
      { class: "file" },
      h("b", {}, name),
      ` ${file}:${first}`,
      sha256 ? h("small", { title: `sha256 ${sha256}` }, ` ${sha256.slice(0, 8)}`) : null,
    );
    this.source.replaceChildren(place, ...lines);
  }

  layout(width) {
    this.width = width;
    const space = width > 760 ? width * 0.45 : width - 30;
    for (const grid of this.grids) {
      const { columns, panelColumns, rows } = grid.panels;
      const fitting = Math.floor((space - 20 - 12 * panelColumns) / (columns * panelColumns));
      const cell = Math.max(grid.least, Math.min(26, fitting, Math.floor(300 / rows)));
      grid.setCell(cell, { width: space - 10, height: 320 });
    }
  }
}

const CALLS = {
  name: "kernel calls",
  group: "kernel calls",
  about: "the kernel calls of this run, below autograd, and where their source is",
};

/** The kernel calls of the run, forward and backward, each with the machine code launches of its plan. */
function calls({ call, arrays, steps }) {
  const inputs = Object.keys(arrays).filter((name) => arrays[`g${name}`] && /input|weight/.test(arrays[name].role));
  const gradients = inputs.map((name) => `g${name}`).join(", ");
  const about = { forward: `y = ${call}`, backward: `${gradients} = grad(y, [${inputs.join(", ")}], gy)` };
  const launched = Object.values(steps).some((each) => each.some(({ places }) => places.length > 1));
  return [
    h(
      "p",
      { class: "say" },
      ...withCode(
        "This is what the call becomes below autograd: calls of kernels, as `record_steps` returns them. Under each " +
          "is the file of its source" +
          (launched ? ", and the machine code that it launches, with the number of tasks that the threads share." : "."),
      ),
    ),
    ...Object.entries(steps).map(([pass, all]) =>
      h(
        "section",
        { class: "calls" },
        h("h2", {}, pass[0].toUpperCase() + pass.slice(1), " ", h("code", {}, about[pass])),
        all.length ? null : h("p", { class: "say" }, "No kernel runs: the result is a view of the operand."),
        h("ol", {}, ...all.map((step) => kernelCall(step, arrays))),
      ),
    ),
  ];
}

function kernelCall({ text, places, why_not: whyNot }, arrays) {
  const before = /^(?:.*? = )??(?=\w+\()/.exec(text)?.[0].length ?? 0;
  const name = /^\w*/.exec(text.slice(before))[0];
  const operands = (part) =>
    part.split(/((?:%\d+|\b\w+): \w+\[[\d, ]*\])/).map((each, j) => {
      if (j % 2 === 0) return each;
      const [array, type] = each.split(": ");
      return h("span", {}, h("b", { class: `role-${arrays[array]?.role ?? "inner"}` }, array), h("small", {}, `: ${type}`));
    });
  return h(
    "li",
    {},
    h("code", { class: "step" }, operands(text.slice(0, before)), h("strong", {}, name), operands(text.slice(before + name.length))),
    h(
      "ul",
      {},
      ...places.map(({ role, name: what, place }) =>
        h("li", {}, h("span", {}, role), h("code", {}, what), h("small", {}, place)),
      ),
    ),
    whyNot ? h("p", {}, `It has no plan: ${whyNot}.`) : null,
  );
}

const KEYWORDS =
  "def return for in if else elif while import from not and or None True False lambda with as is yield class";
const WORDS = new RegExp(`(""".*?(?:"""|$)|"[^"]*"|'[^']*'|#.*$|\\b(?:${KEYWORDS.replaceAll(" ", "|")})\\b)`, "g");

/** Keywords, strings and comments of a line of Python; inside a multi-line string everything is a string. */
function colored(line, inside) {
  if (inside) return [h("q", {}, line)];
  return line
    .split(WORDS)
    .filter(Boolean)
    .map((part) => {
      if (part.startsWith("#")) return h("i", {}, part);
      if (/^["']/.test(part)) return h("q", {}, part);
      return new RegExp(`^(?:${WORDS.source})$`).test(part) ? h("b", {}, part) : part;
    });
}

/** Python source, with syntax colors. */
export function python(text) {
  const lines = text.replace(/\n$/, "").split("\n");
  let inside = false;
  const shown = lines.map((line) => {
    const words = colored(line, inside);
    if ((line.split('"""').length - 1) % 2) inside = !inside;
    return h("div", { class: "line" }, h("code", {}, ...words));
  });
  return h("div", { class: "source", tabindex: 0 }, ...shown);
}

export function bytes(number) {
  if (number < 1024) return count(number, "byte");
  const power = Math.min(3, Math.floor(Math.log2(number) / 10));
  return `${(number / 1024 ** power).toFixed(1)} ${["", "KiB", "MiB", "GiB"][power]}`;
}
