// The cell size of the grids on the stage, and the number of bands of columns. Cells are never so small that their
// numbers cannot be read, unless the reader zooms out.

import { Panels } from "page/array_layout";

const COLUMN = 22; // between columns
const ROW = 44; // caption of a grid and space below it
const PASS = 32; // the words "forward" and "backward"
const MARGIN = 14; // right of the last column
const LARGEST = 38;
const ENOUGH = 26; // larger cells are not worth more scrolling

/**
 * The cell size before zooming, the columns of each band, and for each column whether its panels are placed across or
 * down; and the frame beyond which a grid is scrolled.
 *
 * columns: [[array or null, array or null], ...]; captions: the width of each column's captions;
 * grid(array): the axes of its grid, if not the last two; room: {width, height, zoom, smallest}, where smallest is the
 * size of the smallest readable cells
 */
export function planned(columns, captions, grid, { width, height, zoom, smallest }) {
  const shapes = columns.map((column) =>
    [false, true].map((across) => column.map((array) => array && new Panels(array, { across, grid: grid(array) }))),
  );
  const frame = { width: width - PASS - COLUMN - MARGIN, height: Math.max(360, height) };
  const arrangements = choices(shapes);
  const tried = (cell, arrangement) => {
    const found = bands(shapes, captions, arrangement, Math.max(3, Math.round(cell * zoom)), width, frame);
    return { ...found, cell, across: arrangement, frame };
  };
  const largest = Math.max(LARGEST, smallest);
  for (let cell = largest; cell >= smallest; cell--) {
    for (const arrangement of arrangements) {
      const plan = tried(cell, arrangement);
      if (plan.bands.length === 1 && plan.height <= height) return plan;
    }
  }
  let best = null;
  for (let cell = largest; cell >= smallest; cell--) {
    for (const arrangement of arrangements) {
      const plan = tried(cell, arrangement);
      if (plan.height <= height) return plan;
      // nothing fits: prefer small cells to much scrolling
      const cost = plan.height - 45 * Math.min(cell, ENOUGH);
      if (!best || cost < best.cost) best = { ...plan, cost };
    }
  }
  return best;
}

/** All arrangements of columns whose panels fit across and down; with many such columns, all down or all across. */
function choices(shapes) {
  const free = shapes.flatMap(([down, across], j) =>
    down.some((each, k) => each && each.panelRows !== across[k].panelRows) ? [j] : [],
  );
  if (free.length > 4) return [shapes.map(() => 0), shapes.map(() => 1)];
  return Array.from({ length: 2 ** free.length }, (_, arrangement) =>
    shapes.map((_, j) => (free.includes(j) ? (arrangement >> free.indexOf(j)) & 1 : 0)),
  );
}

/** The columns of each band, and the height of all; a column wider than the page is scrolled. */
function bands(shapes, captions, arrangement, cell, width, frame) {
  const found = [[]];
  let [used, height, tallest] = [PASS, 0, [0, 0]];
  const framed = (panels) => {
    const size = panels?.size(cell) ?? { width: 0, height: 0 };
    return { width: Math.min(size.width, frame.width), height: Math.min(size.height, frame.height) };
  };
  for (let j = 0; j < shapes.length; j++) {
    const [above, below] = shapes[j][arrangement[j]].map(framed);
    const wide = Math.max(above.width, below.width, captions[j]) + COLUMN;
    if (used + wide > width && found.at(-1).length) {
      found.push([]);
      height += tallest[0] + tallest[1] + 2 * ROW;
      [used, tallest] = [PASS, [0, 0]];
    }
    found.at(-1).push(j);
    used += wide;
    tallest = [Math.max(tallest[0], above.height), Math.max(tallest[1], below.height)];
  }
  return { bands: found, height: height + tallest[0] + tallest[1] + 2 * ROW };
}
