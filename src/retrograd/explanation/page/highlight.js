// The highlights of a grid: the entries related to the selected one, on a canvas above the cells.

import { colors, palette } from "page/color";
import { h } from "page/dom";
import { CanvasPen, sized } from "page/cell_renderer";

const AROUND = 6; // pixels around highlighted cells: their outlines
const MANY = 100; // cells

export class Light {
  /** grid: the grid whose canvas `over` is drawn on */
  constructor(grid) {
    this.grid = grid;
    this.moved();
  }

  /** Resets the layout after the cells have moved. */
  moved() {
    this.corners = new Map();
    this.bright = null;
  }

  get faded() {
    const { reading } = this.grid.selection ?? {};
    return Boolean(reading && reading.products.length + reading.lit.size > 1);
  }

  follow() {
    const { reading, active } = this.grid.selection;
    if (this.shown?.reading !== reading || this.shown.active !== active) this.draw();
  }

  draw() {
    const { over, cell, selection } = this.grid;
    this.shown = { reading: selection?.reading, active: selection?.active };
    this.grid.fade(this.faded);
    const corners = this.#shownCorners();
    over.hidden = !corners.size;
    if (!corners.size) return; // an untouched canvas is not sent to the screen again
    let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
    for (const { x, y } of corners.values()) {
      left = Math.min(left, x);
      top = Math.min(top, y);
      right = Math.max(right, x);
      bottom = Math.max(bottom, y);
    }
    [left, top] = [left - AROUND, top - AROUND];
    const edge = cell + AROUND;
    this.paint(new CanvasPen(sized(over, left, top, right - left + edge, bottom - top + edge)), corners);
  }

  /** The corners of the highlighted visible cells: {entry: corner}. */
  #shownCorners() {
    const found = new Map();
    const lit = this.grid.selection?.reading?.lit.get(this.grid.array.name);
    if (!lit) return found;
    const { part } = this.grid;
    for (const at of [...lit.keys(), ...this.active]) {
      const corner = this.#corner(at);
      if (corner && this.grid.isInside(corner, part)) found.set(at, corner);
    }
    return found;
  }

  /** Same as Panels.corner, but fast: pointing at an entry may look up thousands of related entries. */
  #corner(at) {
    let corner = this.corners.get(at);
    if (corner === undefined) {
      corner = this.grid.panels.corner(at, this.grid.cell);
      this.corners.set(at, corner);
    }
    return corner;
  }

  paint(pen, corners = this.#shownCorners()) {
    if (!corners.size) return;
    const { grid } = this;
    const { cell, array } = grid;
    const lit = grid.selection.reading.lit.get(array.name);
    const { ink, roles } = palette();
    const { side } = this;
    const radius = cell >= 16 ? 3 : 0;
    const accent = roles[array.role];
    const inset = (by) => (at) => ({ x: corners.get(at).x + by, y: corners.get(at).y + by });
    const kinds = { target: [], copy: [], factor: [] };
    for (const [at, as] of lit) if (corners.has(at)) kinds[as].push(at);
    const small = cell >= 5 && cell < 12;
    const isTile = (at) => small && this.#isKnown(at) && ["factor", "copy"].includes(lit.get(at));
    const tiles = [];
    for (const [at, { x, y }] of corners) {
      if (isTile(at)) tiles.push({ at, x, y });
      else grid.paintCell(pen, at, x, y);
    }
    if (tiles.length > MANY && pen.copied) pen.copied(this.#everyCell(), tiles, cell, side);
    else this.#paintTiles(pen, tiles);
    const outlined = (cells) => (cell >= 12 ? cells : small ? cells.filter((at) => at < 0) : []);
    pen.outlines(outlined(kinds.copy).map(inset(1)), side - 2, side - 2, accent, 1.5, { dash: [3, 2], radius });
    const thick = cell >= 12 ? 1.75 : 1;
    pen.outlines(outlined(kinds.factor).map(inset(0.75)), side - 1.5, side - 1.5, accent, thick, { radius });
    const active = this.active.filter((at) => corners.has(at));
    pen.outlines(active.map(inset(-1.5)), side + 3, side + 3, accent, 3.5, { radius: radius + 2 });
    const target = corners.get(kinds.target[0]);
    if (target) {
      pen.outline(target.x - 1, target.y - 1, side + 2, side + 2, ink, 2.5, { radius: radius + 1 });
      pen.outline(target.x - 4, target.y - 4, side + 8, side + 8, ink, 1, { radius: radius + 3 });
    }
  }

  /** Whether a value is available: padding has none, and that of a large layer may still be loading. */
  #isKnown(at) {
    return at >= 0 && this.grid.array.value(at) !== undefined;
  }

  /** The painted part of a cell; the rest is the gap to the next one. */
  get side() {
    const { cell } = this.grid;
    return cell - (cell >= 16 ? 2 : cell >= 7 ? 1 : 0);
  }

  /** Highlighted small cells: their outline is the background of the value. */
  #paintTiles(pen, tiles) {
    const { array } = this.grid;
    const { side } = this;
    const accent = palette().roles[array.role];
    for (const { at, x, y } of tiles) {
      pen.cell(x, y, side, side, accent, 0);
      pen.cell(x + 1, y + 1, side - 2, side - 2, colors(array.value(at), array.largest).fill, 0);
    }
  }

  /** A picture in which every cell is highlighted; cells are copied from it instead of being redrawn in every frame. */
  #everyCell() {
    if (!this.bright) {
      const { grid } = this;
      const { width, height } = grid.size(grid.cell);
      const tiles = [];
      grid.panels.each(grid.cell, (at, x, y) => this.#isKnown(at) && tiles.push({ at, x, y }));
      this.bright = h("canvas");
      this.#paintTiles(new CanvasPen(sized(this.bright, 0, 0, width, height)), tiles);
    }
    return this.bright;
  }

  /** The cells of the selected product. */
  get active() {
    const { array, selection } = this.grid;
    const { product, reading } = selection;
    if (!product) return [];
    const all = [...product.factors.map((factor) => [factor.array.name, factor.at]), [product.target.name, product.to]];
    return all
      .filter(([name, at]) => name === array.name && !(name === reading.array.name && at === reading.at))
      .map(([, at]) => at);
  }

  pulse() {
    const { over } = this.grid;
    if (!this.active.length) return;
    over.classList.remove("pulse");
    void over.offsetWidth; // restarts the animation
    over.classList.add("pulse");
  }
}
