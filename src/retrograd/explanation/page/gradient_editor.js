// The tab "type it": other gradients of a function of several arrays, one expression for each.

import { toType } from "page/curves";
import { h, withCode } from "page/dom";
import { Grid } from "page/grid";
import { count, short } from "page/number_format";

export class Rules {
  /** retype(text, say): requests these gradients in place of the declared ones; null if there is no server */
  constructor(selection, retype) {
    Object.assign(this, { selection, retype });
    this.element = h("div", { class: "typing" });
    this.grids = [];
    this.drafts = {}; // current inputs, by gradient
  }

  open(model) {
    const { rules, typed, operator } = model.document;
    if (this.operator !== operator) this.drafts = {};
    this.operator = operator;
    if (!this.retype) return this.#ownRules(rules, operator);
    const now = assigned(typed);
    const fields = Object.entries(rules).map(([name, own]) => {
      const input = h("input", {
        id: `rule-${name}`,
        value: this.drafts[name] ?? now[name] ?? "",
        placeholder: own,
        oninput: () => (this.drafts[name] = input.value),
        maxlength: 200,
        spellcheck: "false",
        autocomplete: "off",
        "aria-describedby": "rules-message",
      });
      return { name, input, row: h("p", {}, h("label", { for: `rule-${name}` }, `${name} = `), input) };
    });
    const message = h("p", { id: "rules-message", class: "wrong", role: "alert" });
    const submit = async (event) => {
      event.preventDefault();
      const text = fields
        .filter(({ input }) => input.value.trim())
        .map(({ name, input }) => `${name} = ${input.value.trim()}`)
        .join("; ");
      await this.retype(text, (words) => (message.textContent = words));
    };
    const own = () => {
      this.drafts = {};
      return this.retype("", () => {});
    };
    const pairs = Object.keys(rules).map((name) => this.#checked(model, name));
    this.grids = pairs.map(({ grid }) => grid);
    this.element.replaceChildren(
      h(
        "p",
        { class: "say" },
        "Type another gradient for any of the arrays: an expression in the upstream gradient g, in ",
        Object.keys(rules)
          .map((name) => name.slice(1))
          .join(", "),
        " and in n, the number of entries of the first array. An empty line keeps the function's own gradient.",
      ),
      h(
        "form",
        { onsubmit: submit },
        ...fields.map(({ row }) => row),
        h(
          "p",
          {},
          h("button", {}, "use them"),
          " ",
          h("button", { type: "button", hidden: !typed, onclick: own }, "restore their own"),
        ),
      ),
      message,
      h("div", { class: "row" }, ...pairs.map(({ grid }) => grid.element)),
    );
    this.layout(this.width ?? 800);
  }

  /** The function's own gradients as expressions, if there is no server. */
  #ownRules(rules, operator) {
    const lines = Object.entries(rules).map(([name, own]) => `${name} = ${own}`);
    this.element.replaceChildren(
      h("p", { class: "say" }, "The gradients as one would type them, with n entries in the first array:"),
      h("pre", { class: "change", tabindex: 0 }, lines.join("\n")),
      h("p", { class: "say" }, withCode(toType(operator))),
    );
  }

  /** A gradient, with a cross if it differs from the numerical one. */
  #checked(model, name) {
    const array = model.arrays.get(name);
    const wrong = (at) => at >= 0 && model.confirmed(array, array.value(at), model.numerical[name]?.[at] ?? null) === false;
    const number = [...array.values].filter((_, at) => wrong(at)).length;
    const grid = new Grid(array, this.selection, {
      what: number ? `${count(number, "entry")} not the derivative` : "the derivative",
      marked: wrong,
      text: (value, at) => (wrong(at) ? `${short(value)}✗` : short(value)),
    });
    return { grid };
  }

  layout(width) {
    this.width = width;
    for (const grid of this.grids) {
      const { columns, panelColumns } = grid.panels;
      const fitting = Math.min(40, Math.floor((width - 40) / (columns * panelColumns)));
      grid.setCell(Math.max(grid.least, fitting), { width: width - 12, height: 420 });
    }
  }
}

/** "ga = g * b; gb = g" as an object. */
function assigned(typed) {
  const parts = (typed ?? "").split(";").map((each) => each.split(/=(.*)/s));
  return Object.fromEntries(parts.filter(([, text]) => text).map(([name, text]) => [name.trim(), text.trim()]));
}
