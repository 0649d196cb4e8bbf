// The tab "derivation": how a formula's gradient is derived, rule by rule, next to the declared gradient.

import { python } from "page/code";
import { h } from "page/dom";
import { small } from "page/number_format";

export class Derivation {
  constructor() {
    this.element = h("div", { class: "derivation" });
    this.grids = [];
  }

  open(model) {
    const { formula, values, steps, derived, declared, why_not: whyNot, apart, called } = model.document.derivation;
    const names = Object.entries(called).map(([input, name]) => `${input} is called ${name}`);
    const part = (title, ...rest) => h("section", {}, h("h2", {}, title), ...rest);
    const parts = [
      formula ? part("The formula", python(formula)) : null,
      values.length > 1
        ? part("Its operations, one at a time", h("pre", { class: "values", tabindex: 0 }, values.join("\n")))
        : null,
      steps.length ? part("From the result back", h("ol", { class: "rules" }, ...steps.map(step))) : null,
      derived ? part("The derived gradient", python(derived)) : null,
      declared.length ? part(derived ? "The declared gradient, which runs" : "The declared gradient", ...declared.map(python)) : null,
    ];
    this.element.replaceChildren(
      h(
        "p",
        { class: "say" },
        whyNot
          ? `${whyNot[0].toUpperCase()}${whyNot.slice(1)}.`
          : "The gradient of the result, g, goes back through every operation, by the operation's rule. The library " +
              `derives the gradient of every formula in this way.${names.length ? ` In it, ${names.join(", and ")}.` : ""}`,
      ),
      h("div", { class: "columns" }, ...parts.filter(Boolean)),
      apart === null
        ? ""
        : h(
            "p",
            { class: "diagnosis" },
            apart === 0
              ? "On these numbers, the derived and the declared gradient are equal bit for bit."
              : apart > 1000
                ? "The declared gradient is not the derivative, but replaces it."
                : `On these numbers, the derived and the declared gradient are ${small(apart)} ulp apart.`,
          ),
    );
  }

  layout() {}
}

function step({ value, rule, gives }) {
  return h(
    "li",
    {},
    h("code", {}, value),
    h("p", {}, rule),
    ...gives.map((text) => h("code", { class: "gives" }, text)),
  );
}
