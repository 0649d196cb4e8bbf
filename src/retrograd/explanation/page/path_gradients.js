// Contributions of gradient paths: sums of the document's products, or for a large layer sums sent by the library.

export class Worth {
  /** changed(message): the numbers of a place have arrived, or are not available */
  constructor(model, ways, changed) {
    Object.assign(this, { model, ways, changed });
    this.known = new Map();
  }

  /** The sum of the products of a path to an entry; NaN while they are loading. place: {n, h, i} */
  over(way, t, { array, at }, place) {
    if (this.model.document.ask) return this.known.get(key(place))?.[this.ways.indexOf(way)][t + 1] ?? NaN;
    const products = this.model.entry(array.name, at)?.products ?? [];
    const own = products.filter((each) => each.factors.some((factor) => way.sources.includes(factor.array.name)));
    return own.reduce((sum, { value }) => sum + value, 0);
  }

  /** Requests the numbers of a place, if they are not loaded. */
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
