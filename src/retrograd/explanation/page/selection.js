// The selected entry and the selected product. Everything that is drawn observes it.

import { numbered, read } from "page/related_entries";

export class Selection {
  #listeners = new Set();

  constructor() {
    this.model = null;
    this.pinned = null;
    this.hovered = null;
    this.active = null; // the number of a product
    this.wish = "sum";
    this.reading = null;
    this.storyStep = null;
    this.numbers = null;
  }

  /** Calls back with "entry" or "product" after each change; returns a function that stops this. */
  listen(callback) {
    this.#listeners.add(callback);
    return () => this.#listeners.delete(callback);
  }

  #changed(what) {
    if (what === "entry") {
      const current = this.hovered ?? this.pinned;
      const step = current && this.storyStep?.name === current.name && this.storyStep.at === current.at ? this.storyStep : null;
      const wish = step ? (step.into ? "uses" : "sum") : this.wish;
      this.reading = current && read(this.model, current.name, current.at, wish, step?.into);
      this.numbers = null;
      this.active = step?.product ?? null;
    }
    for (const callback of this.#listeners) callback(what);
  }

  /** Changes the document; the pinned entry stays if the new one has it. */
  open(model) {
    const before = this.pinned &&
      this.model && { name: this.pinned.name, index: this.model.arrays.get(this.pinned.name).index(this.pinned.at) };
    this.model = model;
    this.hovered = null;
    const array = before && model.arrays.get(before.name);
    const place = array && before.index.map((i, axis) => i + array.low[axis]);
    const fits =
      place && place.length === array.shape.length && place.every((i, axis) => i >= 0 && i < array.padded[axis]);
    const kept = fits && array.at(place) >= 0;
    this.pinned = kept ? { name: before.name, at: array.at(place) } : model.first;
    this.#changed("entry");
  }

  hover(name, at) {
    if (this.hovered?.name === name && this.hovered.at === at) return;
    this.hovered = { name, at };
    this.#changed("entry");
  }

  /** Returns to the pinned entry when the pointer leaves. */
  leave() {
    if (!this.hovered) return;
    this.hovered = null;
    this.#changed("entry");
  }

  pin(name, at) {
    this.pinned = { name, at };
    this.hovered = null;
    this.#changed("entry");
  }

  /** Selects the entry of a story's step, its uses in the array `into` if given, and its product. */
  showStep(step) {
    this.storyStep = step;
    if (step) this.pin(step.name, step.at);
  }

  release() {
    this.hovered = null;
    this.pinned = null;
    this.#changed("entry");
  }

  prefer(wish) {
    this.storyStep = null;
    this.wish = wish;
    this.#changed("entry");
  }

  /** The number of the first product that a cell is part of, or null. */
  numberOf(array, at) {
    if (!this.reading) return null;
    this.numbers ??= numbered(this.reading);
    return this.numbers(array, at);
  }

  look(product) {
    if (this.active === product) return;
    this.active = product;
    this.#changed("product");
  }

  get product() {
    return this.active === null ? null : (this.reading?.products[this.active] ?? null);
  }
}
