// Layout of an array of any rank in two dimensions: two axes form a grid of cells. The positions of the other axes are
// panels: all are shown, or one at a time is chosen.

import { product } from "page/array";

const MARGIN = { left: 15, top: 17 };
const GAP = 12;

export class Panels {
  /**
   * across: panels of a single axis are side by side, otherwise stacked
   * transposed: the grid is transposed
   * single: one panel at a time
   * grid: [axis of the rows, axis of the columns], if they are not the last two
   */
  constructor(array, { across = true, transposed = false, single = false, grid = null } = {}) {
    this.array = array;
    let [row, column] = grid ?? lastTwo(array);
    if (transposed) [row, column] = [column, row];
    Object.assign(this, { row, column });
    const extent = (axis) => (axis === null ? 1 : array.padded[axis]);
    this.rows = extent(row);
    this.columns = extent(column);
    const leading = array.padded
      .map((_, axis) => axis)
      .filter((axis) => axis !== row && axis !== column && array.padded[axis] > 1);
    const most = single ? 1 : this.rows * this.columns <= 16 ? 16 : 4;
    this.chosen = new Map(
      array.padded
        .map((_, axis) => [axis, 0])
        .filter(([axis]) => axis !== row && axis !== column && array.padded[axis] === 1),
    );
    this.steps = [];
    while (product(leading.map(extent)) > most) {
      const axis = leading.shift();
      this.steps.push(axis);
      this.chosen.set(axis, array.low[axis]);
    }
    const down = leading.slice(0, -1);
    const last = leading.slice(-1);
    [this.panelsDown, this.panelsAcross] = down.length || across ? [down, last] : [last, []];
    this.panelRows = product(this.panelsDown.map(extent));
    this.panelColumns = product(this.panelsAcross.map(extent));
    this.labeled = leading.length > 0;
  }

  /** The size in pixels for a cell size. */
  size(cell) {
    return {
      width: MARGIN.left + this.panelColumns * this.columns * cell + (this.panelColumns - 1) * GAP + 2,
      height: this.panelRows * (MARGIN.top + this.rows * cell) + 2,
    };
  }

  /** The cell of an entry: {x, y} of its upper left corner, or null if another panel is chosen. */
  corner(at, cell) {
    const place = this.array.place(at);
    for (const [axis, position] of this.chosen) if (place[axis] !== position) return null;
    const row = this.row === null ? 0 : place[this.row];
    const column = this.column === null ? 0 : place[this.column];
    return this.#corner(this.#flat(this.panelsDown, place), this.#flat(this.panelsAcross, place), row, column, cell);
  }

  #flat(axes, place) {
    return axes.reduce((flat, axis) => flat * this.array.padded[axis] + place[axis], 0);
  }

  #corner(panelRow, panelColumn, row, column, cell) {
    return {
      x: MARGIN.left + panelColumn * (this.columns * cell + GAP) + column * cell,
      y: panelRow * (MARGIN.top + this.rows * cell) + MARGIN.top + row * cell,
    };
  }

  /** Calls callback(at, x, y) for every visible cell. */
  each(cell, callback) {
    this.eachPanel((place, panelRow, panelColumn) => {
      for (let row = 0; row < this.rows; row++) {
        for (let column = 0; column < this.columns; column++) {
          if (this.row !== null) place[this.row] = row;
          if (this.column !== null) place[this.column] = column;
          const { x, y } = this.#corner(panelRow, panelColumn, row, column, cell);
          callback(this.array.at(place), x, y);
        }
      }
    });
  }

  eachPanel(callback) {
    for (let panelRow = 0; panelRow < this.panelRows; panelRow++) {
      for (let panelColumn = 0; panelColumn < this.panelColumns; panelColumn++) {
        callback(this.#place(panelRow, panelColumn), panelRow, panelColumn);
      }
    }
  }

  #place(panelRow, panelColumn) {
    const place = new Array(this.array.shape.length).fill(0);
    for (const [axis, position] of this.chosen) place[axis] = position;
    for (const [axes, flat] of [
      [this.panelsDown, panelRow],
      [this.panelsAcross, panelColumn],
    ]) {
      let rest = flat;
      for (const axis of [...axes].reverse()) {
        place[axis] = rest % this.array.padded[axis];
        rest = Math.floor(rest / this.array.padded[axis]);
      }
    }
    return place;
  }

  /** The entry under a point, or null. */
  hit(x, y, cell) {
    const width = this.columns * cell + GAP;
    const height = MARGIN.top + this.rows * cell;
    const panelColumn = Math.floor((x - MARGIN.left) / width);
    const panelRow = Math.floor(y / height);
    if (panelColumn < 0 || panelColumn >= this.panelColumns || panelRow < 0 || panelRow >= this.panelRows) return null;
    const column = Math.floor((x - MARGIN.left - panelColumn * width) / cell);
    const row = Math.floor((y - panelRow * height - MARGIN.top) / cell);
    if (row < 0 || row >= this.rows || column >= this.columns) return null;
    return this.#at(panelRow, panelColumn, row, column);
  }

  #at(panelRow, panelColumn, row, column) {
    const place = this.#place(panelRow, panelColumn);
    if (this.row !== null) place[this.row] = row;
    if (this.column !== null) place[this.column] = column;
    return this.array.at(place);
  }

  /** The entry some cells away, crossing into the next panel; at the border the same entry. */
  moved(at, rows, columns) {
    const place = this.array.place(at);
    const step = (panels, inPanel, extent, by, count) => {
      const next = panels * extent + inPanel + by;
      return Math.max(0, Math.min(count * extent - 1, next));
    };
    const across = step(
      this.#flat(this.panelsAcross, place),
      this.column === null ? 0 : place[this.column],
      this.columns,
      columns,
      this.panelColumns,
    );
    const below = step(
      this.#flat(this.panelsDown, place),
      this.row === null ? 0 : place[this.row],
      this.rows,
      rows,
      this.panelRows,
    );
    return this.#at(
      Math.floor(below / this.rows),
      Math.floor(across / this.columns),
      below % this.rows,
      across % this.columns,
    );
  }

  /** The entry in the same cell of the next panel along the last leading axis that has several. */
  turned(at, by) {
    const axis = [...this.panelsDown, ...this.panelsAcross].at(-1) ?? this.steps.at(-1);
    if (axis === undefined) return at;
    const place = this.array.place(at);
    const next = place[axis] + by;
    const outside = next < 0 || next >= this.array.padded[axis];
    if (outside && this.steps.length && this.steps.at(-1) !== axis) return this.#stepped(place, by);
    place[axis] = Math.max(0, Math.min(this.array.padded[axis] - 1, next));
    return this.array.at(place);
  }

  #stepped(place, by) {
    const axis = this.steps.at(-1);
    place[axis] = Math.max(0, Math.min(this.array.padded[axis] - 1, place[axis] + by));
    return this.array.at(place);
  }

  /** Chooses the panels that contain an entry; returns true if this changes them. */
  reveal(at) {
    const place = this.array.place(at);
    const before = this.steps.map((axis) => this.chosen.get(axis)).join();
    for (const axis of this.steps) this.chosen.set(axis, place[axis]);
    return before !== this.steps.map((axis) => this.chosen.get(axis)).join();
  }

  /** "k 0  c 1", the axes and positions of a panel; without letters if space is short. */
  label(place, space) {
    const axes = [...this.panelsDown, ...this.panelsAcross];
    const position = (axis) => String(place[axis] - this.array.low[axis]).replace("-", "−");
    const long = axes.map((axis) => `${this.array.axes[axis] ?? ""} ${position(axis)}`.trim()).join("  ");
    if (long.length <= space) return long;
    const brief = axes.map(position).join(",");
    return brief.length <= space ? brief : "";
  }

  get letters() {
    const letter = (axis) => (axis === null ? "" : (this.array.axes[axis] ?? ""));
    return { row: letter(this.row), column: letter(this.column) };
  }

  get margin() {
    return MARGIN;
  }
}

function lastTwo({ shape }) {
  if (shape.length > 1) return [shape.length - 2, shape.length - 1];
  if (!shape.length) return [null, null];
  return shape[0] <= 8 ? [0, null] : [null, 0];
}
