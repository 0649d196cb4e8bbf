// Contributions of gradient paths: sums of the document's products, or for a large layer sums sent by the library.

export class PathGradients {
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
  async request(place) {
    if (!this.model.document.ask) return;
    const requested = (this.requested = key(place));
    if (this.known.has(requested)) return;
    this.known.set(requested, null);
    let failure = null;
    try {
      this.known.set(requested, await this.model.learn({ sequence: place.n, unit: place.h, input: place.i }));
    } catch (error) {
      this.known.delete(requested);
      failure = error.message;
    }
    if (this.requested === requested) this.changed(failure); // unless another place is shown by now
  }
}

const key = ({ n, h, i }) => [n, h, i].join();
