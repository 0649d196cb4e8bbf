// An array of the document, and the positions of its entries.
//
// An entry is identified by its flat position `at`. A negative `at` is padding: -1 - p is position p of the padded array.

const WORDS = { NaN, Infinity, "-Infinity": -Infinity };
const number = (value) => (typeof value === "string" ? WORDS[value] : Number(value));
export const product = (numbers) => numbers.reduce((a, b) => a * b, 1);

export const numbers = (values) => Float64Array.from(values, number);

export class Values {
  constructor(
    name,
    { shape, values, axes = "", role = "inner", about = "", dtype = "", padding = [], view = "main", copies = null },
  ) {
    Object.assign(this, { name, shape, axes, role, about, dtype, view, copies });
    this.letters = [...axes];
    this.values = numbers(values);
    this.size = this.values.length;
    const rank = shape.length;
    this.low = shape.map(() => 0);
    this.padded = [...shape];
    padding.forEach(([low, high], j) => {
      const axis = rank - padding.length + j;
      this.low[axis] = low;
      this.padded[axis] += low + high;
    });
    this.largest = 0;
    for (const value of this.values) if (Number.isFinite(value)) this.largest = Math.max(this.largest, Math.abs(value));
  }

  value(at) {
    return at < 0 ? 0 : this.values[at];
  }

  /** The position of an entry in the padded array, one number for each axis. */
  place(at) {
    return at < 0 ? unravel(-1 - at, this.padded) : unravel(at, this.shape).map((i, axis) => i + this.low[axis]);
  }

  /** The flat position of a place: the inverse of place. */
  at(place) {
    let inside = 0;
    for (let axis = 0; axis < place.length; axis++) {
      const i = place[axis] - this.low[axis];
      if (i < 0 || i >= this.shape[axis]) return -1 - ravel(place, this.padded);
      inside = inside * this.shape[axis] + i;
    }
    return inside;
  }

  /** The index as the user writes it; it may be negative in the padding. */
  index(at) {
    return this.place(at).map((i, axis) => i - this.low[axis]);
  }

  /** The entry at an index. */
  flat(index) {
    return ravel(index, this.shape);
  }

  label(at) {
    if (!this.shape.length) return this.name;
    return `${this.name}[${this.index(at).join(", ").replace(/-/g, "−")}]`;
  }

  /** "n 1 · c 2 · h 5 · w 5" */
  get extent() {
    if (!this.shape.length) return "a number";
    return this.shape.map((extent, axis) => (this.axes[axis] ? `${this.axes[axis]} ${extent}` : extent)).join(" · ");
  }
}

function unravel(flat, shape) {
  const place = new Array(shape.length);
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    place[axis] = flat % shape[axis];
    flat = (flat - place[axis]) / shape[axis];
  }
  return place;
}

function ravel(place, shape) {
  let flat = 0;
  for (let axis = 0; axis < shape.length; axis++) flat = flat * shape[axis] + place[axis];
  return flat;
}
