// The document model of the page: arrays, and for every entry its products and the products that use it.
//
// Nothing is computed here that the library computes. Numbers of the document are multiplied to show a product, and
// products are added to check an entry.

import { Values, numbers, product } from "page/array";

/** The rows of an index, looked up by one of their columns. */
class Lookup {
  constructor(index, width, column, key, size) {
    this.key = key;
    this.start = new Int32Array(size + 1);
    const rows = index.length / width;
    for (let row = 0; row < rows; row++) this.start[key(index[row * width + column]) + 1]++;
    for (let j = 0; j < size; j++) this.start[j + 1] += this.start[j];
    const free = this.start.slice(0, size);
    this.rows = new Int32Array(rows);
    for (let row = 0; row < rows; row++) this.rows[free[key(index[row * width + column])]++] = row;
  }

  of(at) {
    const key = this.key(at);
    return this.rows.subarray(this.start[key], this.start[key + 1]);
  }
}

/** The products of one kind that are added to an array. */
class Products {
  constructor(target, { factors, scale, index }, arrays) {
    Object.assign(this, { target, factors, scale, arrays });
    this.index = Int32Array.from(index);
    this.width = 1 + factors.length;
    this.lookups = [];
  }

  /** Rows in which column 0 (the target) or one of the factors is the entry `at`. */
  rows(column, at) {
    if (!this.lookups[column]) {
      const array = this.arrays.get(column ? this.factors[column - 1] : this.target);
      const key = (entry) => (entry < 0 ? array.size - 1 - entry : entry);
      this.lookups[column] = new Lookup(this.index, this.width, column, key, array.size + product(array.padded));
    }
    return this.lookups[column].of(at);
  }

  read(row) {
    let value = this.scale;
    const factors = this.factors.map((name, j) => {
      const at = this.index[row * this.width + 1 + j];
      const array = this.arrays.get(name);
      const factor = array.value(at);
      value *= factor;
      return { array, at, value: factor };
    });
    // avoids 0 times an infinity of the other factor: padding is skipped, not read
    if (factors.some(({ at }) => at < 0)) value = 0;
    return {
      target: this.arrays.get(this.target),
      to: this.index[row * this.width],
      factors,
      scale: this.scale,
      value,
    };
  }
}

export class Model {
  constructor(document) {
    this.document = document;
    this.arrays = new Map(Object.entries(document.arrays).map(([name, each]) => [name, new Values(name, each)]));
    this.formulas = {};
    this.products = new Map();
    for (const [target, sum] of Object.entries(document.sums)) {
      this.formulas[target] = sum.formula;
      this.products.set(
        target,
        sum.products.map((each) => new Products(target, each, this.arrays)),
      );
    }
    // a matrix has the color of the array that it copies
    for (const array of this.arrays.values()) {
      if (array.role !== "inner" || array.view !== "matrices") continue;
      if (array.copies) array.role = this.arrays.get(array.copies.array).role;
      else if (this.isBackward(array.name)) array.role = "gradient";
    }
    this.numerical = {};
    for (const [name, values] of Object.entries(document.numerical ?? {})) this.numerical[name] = numbers(values);
    this.copied = new Map();
    for (const array of this.arrays.values()) if (array.copies) this.#copied(array);
  }

  /** For each array that others copy: entry -> [[array, at], ...]. */
  #copied({ name, copies }) {
    if (!this.copied.has(copies.array)) this.copied.set(copies.array, new Map());
    const entries = this.copied.get(copies.array);
    copies.index.forEach((from, at) => {
      if (!entries.has(from)) entries.set(from, []);
      entries.get(from).push([this.arrays.get(name), at]);
    });
  }

  isSum(name) {
    return this.products.has(name);
  }

  /** An entry with its products, or null for padding and for arrays that are not sums. */
  entry(name, at) {
    if (at < 0 || !this.isSum(name)) return null;
    const array = this.arrays.get(name);
    const products = [];
    for (const each of this.products.get(name)) for (const row of each.rows(0, at)) products.push(each.read(row));
    let total = 0;
    let size = 0;
    for (const { value } of products) {
      total += value;
      size += Math.abs(value);
    }
    const value = array.value(at);
    const numerical = this.numerical[name]?.[at] ?? null;
    return {
      array,
      at,
      value,
      products,
      total,
      numerical,
      agrees: near(total, value, Math.max(size, 0.1 * array.largest)),
      confirmed: this.confirmed(array, value, numerical),
    };
  }

  /** Whether a gradient agrees with its central difference. */
  confirmed(array, value, numerical) {
    if (numerical === null) return null;
    return near(value, numerical, 10 * Math.max(Math.abs(value), 0.1 * array.largest));
  }

  /** The products that an entry is a factor of, by target: [{target, products}, ...]. */
  uses(name, at) {
    const found = [];
    for (const [target, kinds] of this.products) {
      const products = [];
      for (const each of kinds) {
        const columns = each.factors.flatMap((factor, j) => (factor === name ? [j + 1] : []));
        const rows = new Set(columns.flatMap((column) => [...each.rows(column, at)]));
        for (const row of rows) products.push(each.read(row));
      }
      if (products.length) found.push({ target: this.arrays.get(target), products });
    }
    return found;
  }

  /** Whether some product of a target has exactly these arrays as factors. */
  multiplies(target, ...factors) {
    const expected = factors.sort().join(" ");
    return (this.products.get(target) ?? []).some((each) => [...each.factors].sort().join(" ") === expected);
  }

  /** Whether an array belongs to the backward pass: it is a gradient, or computed from one. */
  isBackward(name, seen = new Set()) {
    const { role } = this.arrays.get(name);
    if (role === "gradient" || role === "upstream") return true;
    if (role !== "inner" || seen.has(name)) return false;
    seen.add(name);
    return (this.products.get(name) ?? []).some((each) => each.factors.some((factor) => this.isBackward(factor, seen)));
  }

  /** The entry selected initially: the largest of the weight's gradient. */
  get first() {
    const gradients = [...this.products.keys()].filter(
      (name) => this.arrays.get(name).role === "gradient" && name in this.numerical,
    );
    const ofWeight = (name) => this.arrays.get(name.slice(1))?.role === "weight";
    const first = gradients.find(ofWeight) ?? gradients[0];
    const name = first ?? [...this.products.keys()][0] ?? [...this.arrays.keys()][0];
    const { values } = this.arrays.get(name);
    let best = 0;
    values.forEach((value, at) => {
      if (Math.abs(value) > Math.abs(values[best])) best = at;
    });
    return { name, at: best };
  }
}

/** Whether two numbers agree, up to the rounding of a float32 sum of this size. */
export function near(a, b, size) {
  if (Object.is(a, b)) return true;
  if (!Number.isFinite(a) || !Number.isFinite(b)) return false;
  return Math.abs(a - b) <= 2e-5 * size + 1e-9;
}
