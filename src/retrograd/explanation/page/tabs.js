// The parts of the page, one shown at a time.

import { h } from "page/dom";

export class Tabs {
  /** views: [{id, title, has(document)}]; changed(id) is called after the reader chooses one */
  constructor(element, panel, views, changed) {
    Object.assign(this, { element, panel, views, changed });
    this.current = views[0].id;
    element.addEventListener("keydown", (event) => this.#key(event));
  }

  open(document) {
    this.shown = this.views.filter((view) => view.has(document));
    if (!this.shown.some(({ id }) => id === this.current)) this.current = this.shown[0].id;
    this.element.hidden = this.shown.length < 2;
    this.buttons = new Map(
      this.shown.map(({ id, title }) => [
        id,
        h("button", { role: "tab", id: `tab-${id}`, "aria-controls": "view", onclick: () => this.choose(id) }, title),
      ]),
    );
    this.element.replaceChildren(...this.buttons.values());
    this.#mark();
  }

  choose(id) {
    if (!this.buttons.has(id)) return;
    this.current = id;
    this.#mark();
    this.changed(id);
  }

  #mark() {
    for (const [id, button] of this.buttons) {
      button.setAttribute("aria-selected", String(id === this.current));
      button.tabIndex = id === this.current ? 0 : -1;
    }
    this.panel.setAttribute("aria-labelledby", `tab-${this.current}`);
    this.panel.dataset.view = this.current;
  }

  #key(event) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    const place = this.shown.findIndex(({ id }) => id === this.current);
    const next = this.shown[(place + by + this.shown.length) % this.shown.length].id;
    this.choose(next);
    this.buttons.get(next).focus();
  }
}
