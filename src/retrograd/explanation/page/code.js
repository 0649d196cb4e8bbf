// The tab "the code that ran": the source, the line that ran last, and the arrays after it.

import { Values } from "page/array";
import { h } from "page/dom";
import { Grid } from "page/grid";
import { count } from "page/number";

export class Code {
  constructor() {
    this.element = h("div", { class: "code" });
    this.grids = [];
    this.chosen = 0;
    this.width = 800;
  }

  open(model) {
    this.traces = model.document.traces;
    this.chosen = Math.min(this.chosen, this.traces.length - 1);
    if (!this.traces.length)
      return this.element.replaceChildren(h("p", { class: "say" }, "No lines were recorded here."));
    this.step = 0;
    const groups = new Map();
    this.traces.forEach((trace, number) =>
      groups.set(trace.group ?? "", [...(groups.get(trace.group ?? "") ?? []), [trace, number]]),
    );
    this.buttons = this.traces.map((trace, number) =>
      h("button", { "aria-pressed": "false", title: trace.about, onclick: () => this.#choose(number) }, trace.name),
    );
    const lists = [...groups].map(([group, members]) =>
      h(
        "div",
        { class: "group" },
        h("span", { class: "label" }, group),
        ...members.map(([, number]) => this.buttons[number]),
      ),
    );
    this.body = h("div", { class: "run" });
    this.element.replaceChildren(h("nav", { class: "traces", "aria-label": "algorithms" }, ...lists), this.body);
    this.#choose(this.chosen);
  }

  #choose(number) {
    this.chosen = number;
    this.step = 0;
    this.trace = this.traces[number];
    this.buttons.forEach((button, j) => button.setAttribute("aria-pressed", String(j === number)));
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
        `${bytes(cost.bytes)} of memory beside the arrays · ${count(cost.multiplications, "multiplication")}`,
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
    const before = this.step && steps[this.step - 1].function === now.function ? steps[this.step - 1].arrays : {};
    this.grids = [];
    const shown = Object.entries(now.arrays).map(([name, place]) => {
      const changed = before[name] !== place;
      const { shape } = values[place];
      const array = new Values(name, {
        ...values[place],
        role: name === this.trace.result ? "gradient" : "inner",
        axes: "",
      });
      const grid = new Grid(array, null, { what: shape.length ? shape.join(" × ") : "a number" });
      grid.element.classList.toggle("changed", changed);
      this.grids.push(grid);
      return [changed, grid.element];
    });
    shown.sort(([a], [b]) => Number(b) - Number(a));
    this.arrays.replaceChildren(...shown.map(([, element]) => element));
    this.layout(this.width);
  }

  #write({ name, file, first_line: first, source, sha256 }) {
    this.lines = new Map();
    const lines = source
      .replace(/\n$/, "")
      .split("\n")
      .map((text, j) => {
        const line = h(
          "div",
          { class: "line" },
          h("span", { class: "number" }, String(first + j)),
          h("code", {}, ...coloured(text)),
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
    const room = width > 760 ? width * 0.45 : width - 30;
    for (const grid of this.grids) {
      const { columns, panelColumns, rows } = grid.panels;
      grid.setCell(
        Math.max(
          4,
          Math.min(26, Math.floor((room - 30) / (columns * panelColumns)), Math.max(9, Math.floor(300 / rows))),
        ),
      );
    }
  }
}

const WORDS =
  /("""|"[^"]*"|'[^']*'|#.*$|\b(?:def|return|for|in|if|else|elif|while|import|from|not|and|or|None|True|False|lambda|with|as|is|yield|class)\b)/g;

/** Keywords, texts and comments of a line of Python. */
function coloured(text) {
  return text
    .split(WORDS)
    .filter(Boolean)
    .map((part) => {
      if (part.startsWith("#")) return h("i", {}, part);
      if (/^["']/.test(part)) return h("q", {}, part);
      return new RegExp(`^(?:${WORDS.source})$`).test(part) ? h("b", {}, part) : part;
    });
}

export function bytes(number) {
  if (number < 1024) return count(number, "byte");
  const power = Math.min(3, Math.floor(Math.log2(number) / 10));
  return `${(number / 1024 ** power).toFixed(1)} ${["", "KiB", "MiB", "GiB"][power]}`;
}
