// A layer that is too large to be sent whole: the library sends parts of its arrays, and single entries on request.

import { Values, numbers, product } from "page/array";
import { Model, near } from "page/document_model";

const ENTRY_DELAY = 90; // milliseconds that the pointer must rest on an entry before it is requested
const NUMERICAL_DELAY = 350; // the same for its numerical gradient

/**
 * An array of which a part, its window, is shown. The page's grids see only the window: positions are counted from the
 * window's start, after axes of extent 1, and anything outside has position 1 on the first of these.
 */
export class Parts extends Values {
  constructor(name, outline, ask) {
    super(name, { ...outline, values: [] });
    Object.assign(this, { ask, largest: outline.largest, window: outline.window });
    this.size = product(this.shape);
    this.whole = { low: this.low, padded: this.padded }; // of the whole array, with the padding, which is not shown
    this.before = Math.max(1, 3 - this.shape.length);
    this.axes = [...new Array(this.before).fill(""), ...this.letters];
    this.padded = [...new Array(this.before).fill(1), ...this.window];
    this.start = this.shape.map(() => 0);
    this.known = new Map();
    this.loaded = new Set();
    this.values = { length: product(this.window), forEach: (call) => this.known.forEach(call) };
    this.move(this.start);
  }

  /** The axes of the grid. */
  get grid() {
    return [this.padded.length - 2, this.padded.length - 1];
  }

  value(at) {
    return at < 0 ? 0 : this.known.get(at);
  }

  learn(at, value) {
    if (at >= 0) this.known.set(at, numbers([value])[0]);
  }

  index(at) {
    const [flat, shape] = at < 0 ? [-1 - at, this.whole.padded] : [at, this.shape];
    const place = unravelled(flat, shape);
    return at < 0 ? place.map((i, axis) => i - this.whole.low[axis]) : place;
  }

  place(at) {
    const index = this.index(at);
    const inside = at >= 0 && index.every((i, axis) => i >= this.start[axis] && i < this.start[axis] + this.window[axis]);
    const place = new Array(this.before).fill(0);
    if (!inside) place[0] = 1;
    return [...place, ...index.map((i, axis) => i - this.start[axis])];
  }

  at(place) {
    return this.flat(this.start.map((start, axis) => start + (place[axis + this.before] ?? 0)));
  }

  shows(at) {
    return this.place(at)[0] === 0;
  }

  /** Moves the window to a place, or as close to it as the array permits. */
  move(start) {
    this.start = start.map((i, axis) => Math.max(0, Math.min(i, this.shape[axis] - this.window[axis])));
    this.low = [...new Array(this.before).fill(0), ...this.start.map((i) => -i)];
  }

  /** The window that contains an entry. */
  reveal(at) {
    if (at >= 0 && !this.shows(at)) this.move(this.index(at).map((i, axis) => i - (i % this.window[axis])));
  }

  get complete() {
    return !this.size || this.loaded.has(this.start.join());
  }

  /** Fetches the entries of the window. */
  async load() {
    const start = this.start.join();
    const found = await this.ask("block", { array: this.name, start });
    this.loaded.add(start);
    numbers(found.values).forEach((value, j) => {
      const inside = unravelled(j, found.shape);
      this.known.set(this.flat(inside.map((i, axis) => i + found.start[axis])), value);
    });
  }
}

function unravelled(flat, shape) {
  const place = new Array(shape.length);
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    place[axis] = flat % shape[axis];
    flat = (flat - place[axis]) / shape[axis];
  }
  return place;
}

/** Model of a layer whose sums are requested one entry at a time. */
export class RemoteModel extends Model {
  /** changed(): an answer has arrived */
  constructor(document, selection) {
    const sums = Object.entries(document.sums).map(([name, { formula, factors }]) => {
      return [name, { formula, products: factors.map((each) => ({ factors: each, scale: 1, index: [] })) }];
    });
    super({ arrays: {}, sums: {} });
    this.document = document;
    for (const [name, each] of Object.entries(document.arrays)) this.arrays.set(name, new Parts(name, each, document.ask));
    for (const [name, { formula, products }] of sums) {
      this.formulas[name] = formula;
      this.products.set(name, products);
    }
    this.selection = selection;
    this.found = new Map();
    this.nothing = "For a layer of this size, only sums are listed: point at an entry of a gradient or of y.";
  }

  get first() {
    return this.document.first;
  }

  uses() {
    return [];
  }

  /** Stores one unit of a recurrent layer at every step, and the contributions of the gradient paths. */
  async learn(place) {
    const found = await this.document.ask("through_time", place);
    for (const [name, values] of Object.entries(found.values)) {
      const array = this.arrays.get(name);
      const [letters, each] = [array.letters.join(""), numbers(values)];
      each.forEach((value, j) => {
        const width = letters === "tni" ? each.length / array.shape[0] : 1;
        const last = letters === "tni" ? place.input + (j % width) : place.unit;
        array.learn(array.flat([Math.floor(j / width), place.sequence, last]), value);
      });
    }
    return found.ways.map((way) => [...numbers(way)]);
  }

  entry(name, at) {
    if (at < 0 || !this.isSum(name)) return null;
    const found = this.found.get(`${name} ${at}`);
    if (!found || typeof found === "string") {
      if (!found) this.#later(ENTRY_DELAY, () => this.#take(name, at));
      return this.#waiting(name, at, found ?? "computing its products …");
    }
    if (found.awaited) this.#later(NUMERICAL_DELAY, () => this.#measure(found));
    return found;
  }

  #waiting(name, at, pending) {
    const array = this.arrays.get(name);
    return { array, at, value: array.value(at), products: [], total: NaN, numerical: null, agrees: true, pending };
  }

  /** Calls back once the reader has stayed on an entry for some time. */
  #later(time, call) {
    clearTimeout(this.timer);
    this.timer = setTimeout(call, time);
  }

  async #take(name, at) {
    const key = `${name} ${at}`;
    try {
      this.found.set(key, this.#read(await this.document.ask("taken", { array: name, index: at })));
    } catch (error) {
      this.found.set(key, error.message);
    }
    this.#tell(name, at);
  }

  #read({ array: name, index: at, value, count, sum, rest, products }) {
    const array = this.arrays.get(name);
    array.learn(at, value);
    const [own, total, others] = numbers([value, sum, rest]);
    const listed = products.map(({ factors, scale, value: each }) => ({
      target: array,
      to: at,
      scale,
      value: numbers([each])[0],
      factors: factors.map(([factor, place, number]) => {
        const from = this.arrays.get(factor);
        from.learn(place, number);
        return { array: from, at: place, value: numbers([number])[0] };
      }),
    }));
    const size = listed.reduce((all, each) => all + Math.abs(each.value), Math.abs(others));
    return {
      ...{ array, at, value: own, products: listed, total, numerical: null, confirmed: null, count },
      rest: { count: count - listed.length, total: others },
      agrees: near(total, own, size),
      awaited: array.role === "gradient",
    };
  }

  async #measure(found) {
    const { name } = found.array;
    try {
      const { numerical } = await this.document.ask("numerical", { array: name, index: found.at });
      [found.numerical] = numbers([numerical]);
      found.confirmed = this.confirmed(found.array, found.value, found.numerical);
    } catch {
      // the entry is shown without its numerical gradient
    }
    found.awaited = false;
    this.#tell(name, found.at);
  }

  #tell(name, at) {
    const current = this.selection.hovered ?? this.selection.pinned;
    if (this.selection.model === this && current?.name === name && current.at === at)
      this.selection.prefer(this.selection.wish);
  }
}
