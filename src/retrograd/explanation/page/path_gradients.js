// What comes over the ways of a gradient: sums of the document's products, or for a large layer what the library sends.

export class Worth {
  /** changed(message): the numbers of a place have come, or cannot be had */
  constructor(model, ways, changed) {
    Object.assign(this, { model, ways, changed });
    this.known = new Map();
  }

  /** The sum of the products that come over a way to an entry; NaN while they are not here. place: {n, h, i} */
  over(way, t, { array, at }, place) {
    if (this.model.document.ask) return this.known.get(key(place))?.[this.ways.indexOf(way)][t + 1] ?? NaN;
    const products = this.model.entry(array.name, at)?.products ?? [];
    const own = products.filter((each) => each.factors.some((factor) => way.sources.includes(factor.array.name)));
    return own.reduce((sum, { value }) => sum + value, 0);
  }

  /** Asks for the numbers of a place, if they are not here. */
  async want(place) {
    if (!this.model.document.ask) return;
    const wanted = (this.wanted = key(place));
    if (this.known.has(wanted)) return;
    this.known.set(wanted, null);
    let failure = null;
    try {
      this.known.set(wanted, await this.model.learn({ sequence: place.n, unit: place.h, input: place.i }));
    } catch (error) {
      this.known.delete(wanted);
      failure = error.message;
    }
    if (this.wanted === wanted) this.changed(failure); // not if another place is shown by now
  }
}

const key = ({ n, h, i }) => [n, h, i].join();
