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
      derived ? part("What results", python(derived)) : null,
      declared.length ? part(derived ? "What is declared, and runs" : "What is declared", ...declared.map(python)) : null,
    ];
    this.element.replaceChildren(
      h(
        "p",
        { class: "say" },
        whyNot
          ? `${whyNot[0].toUpperCase()}${whyNot.slice(1)}.`
          : "The gradient of the result, g, goes back through every operation by its rule. The library derives the " +
              `gradient of every formula like this.${names.length ? ` In it, ${names.join(", and ")}.` : ""}`,
      ),
      h("div", { class: "columns" }, ...parts.filter(Boolean)),
      apart === null
        ? ""
        : h(
            "p",
            { class: "diagnosis" },
            apart === 0
              ? "On these numbers what is derived and what is declared are equal in every bit."
              : apart > 1000
                ? "What is declared is not the derivative, and stands in its place."
                : `On these numbers what is derived and what is declared are ${small(apart)} ulp apart.`,
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
