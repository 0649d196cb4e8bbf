// The lines from the cells of a product to the entry that it is added to.

import { palette } from "page/color";
import { s } from "page/dom";

export class Lines {
  /** stage: the element below the lines; grids: the grids on display */
  constructor(stage, grids) {
    Object.assign(this, { stage, grids });
    this.element = s("svg", { class: "lines", "aria-hidden": "true" });
  }

  draw(selection) {
    const curves = this.curves(selection).map(({ from, to, color }) => this.#curve(from, to, color));
    if (curves.length || this.element.childElementCount) this.element.replaceChildren(...curves);
  }

  /** [{from, to, color}] in the coordinates of the stage. */
  curves(selection) {
    const { product, reading } = selection;
    if (!product || !reading) return [];
    const target = this.#place(product.target, product.to);
    const found = [];
    for (const { array, at } of product.factors) {
      const from = this.#place(array, at);
      if (from && target)
        found.push({ from: edge(from, target), to: edge(target, from), color: palette().roles[array.role] });
    }
    return found;
  }

  #place(array, at) {
    const box = this.stage.getBoundingClientRect();
    for (const grid of this.grids) {
      if (grid.array !== array) continue;
      const middle = grid.middle(at);
      if (middle)
        return {
          x: middle.x - box.left + this.stage.scrollLeft,
          y: middle.y - box.top + this.stage.scrollTop,
          half: grid.cell / 2,
        };
    }
    return null;
  }

  #curve(from, to, color) {
    const path = s("path", { d: bend(from, to), class: "link" });
    path.style.stroke = color;
    const end = s("circle", { cx: from.x, cy: from.y, r: 3.5 });
    end.style.fill = color;
    return s("g", {}, path, end);
  }
}

/** The point where a line between the centers of two cells leaves the first one, so that the number stays readable. */
function edge(from, to) {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const share = from.half / Math.max(Math.abs(dx), Math.abs(dy), from.half);
  return Math.abs(dx) > Math.abs(dy)
    ? { x: from.x + dx * share, y: from.y }
    : { x: from.x, y: from.y + dy * share };
}

/** A curve that leaves and arrives along the longer direction. */
export function bend(from, to) {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const flat = Math.abs(dx) > Math.abs(dy);
  const ax = flat ? dx * 0.45 : Math.min(40, Math.abs(dy) / 6);
  const ay = flat ? -Math.min(40, Math.abs(dx) / 6) : dy * 0.45;
  const points = [from.x, from.y, from.x + ax, from.y + ay, to.x - ax, to.y + (flat ? ay : -ay), to.x, to.y];
  const [a, b, ...rest] = points.map((each) => Math.round(each * 10) / 10);
  return `M${a} ${b}C${rest.join(" ")}`;
}
