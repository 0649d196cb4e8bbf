// The legend of colors and signs.

import { colors, palette } from "page/color";
import { h } from "page/dom";
import { ROLES } from "page/grid";

export class Legend {
  constructor(element) {
    this.element = element;
  }

  open(model) {
    this.roles = [...new Set([...model.arrays.values()].map(({ role }) => role))];
    this.hasPadding = [...model.arrays.values()].some(({ size, padded }) => padded.reduce((a, b) => a * b, 1) > size);
    this.draw();
  }

  draw() {
    if (!this.roles) return;
    const scale = h("span", { class: "scale", "aria-hidden": "true" });
    const stops = [-1, -0.75, -0.5, -0.25, -0.1, 0, 0.1, 0.25, 0.5, 0.75, 1].map((share) => colors(share, 1).fill);
    scale.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
    const item = (mark, text) => h("li", {}, mark, text);
    const swatch = (name) => h("i", { class: `swatch ${name}` });
    palette();
    this.element.replaceChildren(
      h(
        "ul",
        { class: "roles" },
        ...this.roles.map((role) => item(h("i", { class: `dot role-${role}` }), ROLES[role] ?? role)),
      ),
      h(
        "ul",
        {},
        item(h("span", { class: "ends" }, "−", scale, "+"), "each array by its largest entry"),
        item(swatch("taken"), "the selected entry"),
        item(swatch("lit"), "the entries related to it"),
        this.hasPadding ? item(swatch("hatch"), "padding: zeros around the array") : null,
      ),
      h(
        "p",
        { class: "keys" },
        key("Tab"),
        " to an array, ",
        key("← ↑ ↓ →"),
        " move, ",
        key("Enter"),
        " pins, ",
        key("Esc"),
        " releases, ",
        key("["),
        " ",
        key("]"),
        " next panel, ",
        key("Space"),
        " adds the products up",
      ),
    );
  }
}

const key = (text) => h("kbd", {}, text);
