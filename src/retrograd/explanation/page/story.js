// Guided stories for newcomers: questions, each with a few steps that select entries and explain what they show.

import { Values } from "page/array";
import { h } from "page/dom";
import { Grid } from "page/grid";

export class Stories {
  /** show(step): selects its entry in its part of the page; null closes the story */
  constructor(element, { show }) {
    Object.assign(this, { element, show });
    this.stories = [];
    [this.chosen, this.step] = [null, 0];
  }

  /** Changes the document; a story in progress continues with its numbers. */
  open(model) {
    const question = this.stories[this.chosen]?.question;
    const stories = model.document.stories ?? [];
    this.roles = (name) => model.arrays.get(name)?.role;
    this.stories = stories;
    const again = stories.findIndex((each) => each.question === question);
    this.element.hidden = !stories.length;
    if (again >= 0) this.read(again, Math.min(this.step, stories[again].steps.length - 1));
    else this.#close();
  }

  /** The current step: {number, step}, or null. */
  get place() {
    return this.chosen === null ? null : { number: this.chosen, step: this.step };
  }

  has({ number, step }) {
    return step < (this.stories[number]?.steps.length ?? 0);
  }

  /** The steps of a story. */
  read(number, step = 0) {
    [this.chosen, this.step] = [number, step];
    const { question, steps } = this.stories[number];
    const now = steps[step];
    const focused = this.element.contains(document.activeElement) ? document.activeElement.dataset.go : null;
    const button = (go, text, to, attributes = {}) =>
      h("button", { "data-go": go, onclick: to, ...attributes }, text);
    const last = step === steps.length - 1;
    const others = this.stories.length > 1 ? (number + 1) % this.stories.length : null;
    const next = last && others !== null ? () => this.read(others) : () => this.read(number, step + 1);
    this.element.replaceChildren(
      h(
        "header",
        {},
        h("h2", {}, question),
        h("span", { class: "place" }, `${step + 1} of ${steps.length}`),
        button("back", "‹ back", () => this.read(number, step - 1), { disabled: step === 0 }),
        last && others === null
          ? button("next", "done", () => this.#close(), { class: "next" })
          : button("next", last ? "next question ›" : "next ›", next, { class: "next" }),
        button("close", "×", () => this.#close(), { class: "plain", "aria-label": "close" }),
      ),
      h(
        "div",
        { class: "tell", "aria-live": "polite" },
        h("p", {}, ...this.#written(now.text)),
        now.pictures.length ? this.#pictures(now.pictures) : null,
      ),
    );
    this.element.classList.add("open");
    if (focused) this.element.querySelector(`[data-go="${focused}"]:not(:disabled), .next`)?.focus();
    this.show(now);
  }

  #close() {
    const open = this.chosen !== null;
    [this.chosen, this.step] = [null, 0];
    this.element.classList.remove("open");
    this.element.replaceChildren(
      h("b", { class: "label" }, "Read this first"),
      ...this.stories.map(({ question }, number) => h("button", { onclick: () => this.read(number) }, question)),
    );
    if (!open) return;
    this.element.querySelector("button")?.focus();
    this.show(null);
  }

  /** A text whose entry names have the colors of their arrays. */
  #written(text) {
    return text.split("`").map((part, j) => {
      if (j % 2 === 0) return part;
      const role = this.roles(part.split("[")[0]);
      return h("code", { class: role ? `role-${role}` : null }, part);
    });
  }

  /** Arrays that are multiplied elementwise or added, with the signs between them. */
  #pictures(pictures) {
    const parts = pictures.flatMap(({ name, sign, ...each }) => {
      const grid = new Grid(new Values(name, { ...each, view: "story" }), null, { what: "" });
      grid.setCell(Math.max(grid.least, Math.min(26, Math.floor(78 / grid.panels.rows))), { width: 260, height: 200 });
      return sign ? [h("span", { class: "arrow" }, sign), grid.element] : [grid.element];
    });
    return h("div", { class: "pictures" }, ...parts);
  }
}
