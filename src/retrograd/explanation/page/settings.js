// The settings of the operator: numbers as sliders, words as buttons.

import { h, withCode } from "page/dom";

export class Settings {
  /** has(settings): whether they are available; choose(settings): requests them; holds(): what a file includes */
  constructor(element, { has, choose, holds }) {
    Object.assign(this, { element, has, choose, holds });
    this.operator = null;
  }

  open(document) {
    this.values = Object.fromEntries(document.settings.map(({ name, value }) => [name, value]));
    if (this.operator !== document.operator) this.#make(document);
    this.document = document;
    for (const setting of document.settings) this.controls.get(setting.name).show(setting.value, this.#open(setting));
    this.message("");
    const closed = document.settings.every((setting) => this.#open(setting).length < 2);
    const some = document.settings.some((setting) => this.#open(setting).length < setting.choices.length);
    this.note.replaceChildren(
      ...(some
        ? [
            "run ",
            h("code", {}, `retrograd explain ${document.operator}`),
            closed ? " to change these" : " for the other settings",
          ]
        : this.holds()
          ? [`${this.holds()}; `, h("code", {}, `retrograd explain ${document.operator}`), " computes any other"]
          : []),
    );
    this.note.classList.toggle("holds", !some);
    this.brief.textContent = document.settings.map(({ name, value }) => `${name} ${value}`).join(" · ");
  }

  /** The choices of a setting that are available with the other settings unchanged. */
  #open({ name, choices, value }) {
    return choices.filter((choice) => choice === value || this.has({ ...this.values, [name]: choice }));
  }

  #make({ operator, settings }) {
    this.operator = operator;
    this.controls = new Map();
    const fields = settings.map((setting) => {
      const control = setting.choices.every((choice) => typeof choice === "number")
        ? slider(setting, (value) => this.#change(setting.name, value))
        : buttons(setting, (value) => this.#change(setting.name, value));
      this.controls.set(setting.name, control);
      return control.element;
    });
    this.error = h("p", { class: "error", role: "alert" });
    this.note = h("p", { class: "note" });
    this.brief = h("span", {});
    const details = h(
      "details",
      { open: !matchMedia("(max-width: 760px)").matches },
      h("summary", {}, h("b", {}, "Settings "), this.brief),
      h("div", { class: "fields" }, ...fields, this.note),
    );
    this.element.replaceChildren(details, this.error);
    this.element.hidden = !settings.length;
  }

  #change(name, value) {
    this.choose({ ...this.values, [name]: value });
  }

  /** Shows an error next to the settings; the page does not change. */
  message(text) {
    this.error.replaceChildren(...withCode(text));
    if (text) for (const { name, value } of this.document.settings) this.controls.get(name).mark(value);
  }
}

function slider({ name, choices, about }, change) {
  const value = h("output", {});
  const id = `setting-${name}`;
  const input = h("input", { type: "range", min: 0, max: choices.length - 1, step: 1, id });
  let open = choices;
  const nearest = (target) =>
    open.reduce((best, each) =>
      Math.abs(choices.indexOf(each) - target) < Math.abs(choices.indexOf(best) - target) ? each : best,
    );
  let now = null;
  const say = (choice) => {
    value.textContent = choice;
    input.setAttribute("aria-valuetext", `${choice}`);
    input.value = choices.indexOf(choice);
    input.style.setProperty(
      "--part",
      `${choices.length > 1 ? (100 * choices.indexOf(choice)) / (choices.length - 1) : 0}%`,
    );
  };
  input.addEventListener("input", () => {
    const target = Number(input.value);
    // to the next available choice in that direction
    const towards = open.filter(
      (each) => Math.sign(choices.indexOf(each) - choices.indexOf(now)) === Math.sign(target - choices.indexOf(now)),
    );
    const chosen = open.includes(choices[target]) ? choices[target] : towards.length ? nearest(target) : now;
    say(chosen);
    if (chosen === now) return;
    now = chosen;
    change(chosen);
  });
  return {
    element: h("div", { class: "field", title: about }, h("label", { for: id }, name, value), input),
    show(choice, choosable) {
      open = choosable;
      now = choice;
      say(choice);
      input.disabled = open.length < 2;
    },
    mark(choice) {
      now = choice;
      say(choice);
    },
  };
}

function buttons({ name, choices, about }, change) {
  const made = choices.map((choice) => h("button", { type: "button", onclick: () => change(choice) }, String(choice)));
  const mark = (value) =>
    made.forEach((button, j) => button.setAttribute("aria-pressed", String(choices[j] === value)));
  return {
    element: h(
      "div",
      { class: "field words", title: about, role: "group", "aria-label": name },
      h("span", { class: "label" }, name),
      h("div", { class: "choice" }, ...made),
    ),
    show(value, open) {
      mark(value);
      made.forEach((button, j) => (button.disabled = !open.includes(choices[j])));
    },
    mark,
  };
}
