// The cell size of the grids on the stage, and the number of bands of columns.

import { Panels } from "page/array_layout";

const COLUMN = 22; // between columns
const ROW = 44; // caption of a grid and space below it
const PASS = 32; // the words "forward" and "backward"
const [SMALLEST, DISTINCT, READABLE, LARGEST] = [3, 8, 18, 38];

/**
 * The cell size, the columns of each band, and for each column whether its panels are placed across or down.
 *
 * columns: [[array or null, array or null], ...]; captions: the width of each column's captions;
 * grid(array): the axes of its grid, if not the last two
 */
export function planned(columns, captions, grid, width, height) {
  const shapes = columns.map((column) =>
    [false, true].map((across) => column.map((array) => array && new Panels(array, { across, grid: grid(array) }))),
  );
  const arrangements = choices(shapes);
  let best = null;
  for (let cell = LARGEST; cell >= READABLE + 2; cell--) {
    for (const arrangement of arrangements) {
      const found = bands(shapes, captions, arrangement, cell, width);
      if (found?.bands.length === 1 && found.height <= height) return { cell, across: arrangement, bands: found.bands };
    }
  }
  for (let cell = LARGEST; cell >= SMALLEST; cell--) {
    for (const arrangement of arrangements) {
      const found = bands(shapes, captions, arrangement, cell, width);
      if (!found) continue;
      const plan = { cell, across: arrangement, bands: found.bands };
      if (found.height <= height && cell >= READABLE) return plan;
      // nothing fits: prefer small cells to much scrolling, but keep them readable
      const cost = found.height - 45 * Math.min(cell, READABLE + 8);
      if (!best || cost < best.cost) best = { ...plan, cost };
    }
    if (best && (cell === READABLE || cell === DISTINCT)) return best;
  }
  return best ?? { cell: SMALLEST, across: arrangements[0], bands: columns.map((_, j) => [j]) };
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

function bands(shapes, captions, arrangement, cell, width) {
  const found = [[]];
  let [used, height, tallest] = [PASS, 0, [0, 0]];
  for (let j = 0; j < shapes.length; j++) {
    const [above, below] = shapes[j][arrangement[j]].map((panels) => panels?.size(cell) ?? { width: 0, height: 0 });
    const wide = Math.max(above.width, below.width, captions[j]) + COLUMN;
    if (wide + PASS > width) return null;
    if (used + wide > width) {
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
