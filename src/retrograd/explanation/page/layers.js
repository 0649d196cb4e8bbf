// The layers of a model: documents of small ones; for the others an outline whose entries are requested.

import { fetchAnswer } from "page/data_source";

const PARTIAL = "this file contains only a part of this layer: run explain(model, batch, loss).show() for the whole layer";

export class Layers {
  /** map: of the model; served: {token} if there is a server */
  constructor(map, served) {
    Object.assign(this, { map, served });
    this.operators = map.layers.filter(({ why_not }) => !why_not).map(({ path }) => path);
    this.answers = new Map(Object.entries(map.answers ?? {}));
    this.documents = new Map();
  }

  /** The word in a link before the layer. */
  get word() {
    return "layer";
  }

  get first() {
    const weighty = this.map.layers.find(({ path, weight_norms }) => this.operators.includes(path) && weight_norms.weight);
    return weighty?.path ?? this.operators[0];
  }

  has() {
    return true;
  }

  async get(path) {
    if (!this.documents.has(path)) this.documents.set(path, await this.#document(path));
    return this.documents.get(path);
  }

  async #document(path) {
    const found = this.map.documents?.[path] ?? (await this.ask("layer", { layer: path }));
    const about = { ...found, operator: path, kind: found.operator, settings: [] };
    return found.numerical ? about : { ...about, ask: (what, rest) => this.ask(what, { layer: path, ...rest }) };
  }

  /** Fetches a part that the document was sent without. */
  async complete(document, part) {
    Object.assign(document, await this.ask(part, { layer: document.operator }));
  }

  /** An answer of the server, or of this file; each is requested once. */
  ask(what, query) {
    const key = [what, ...Object.values(query)].join("\n");
    if (!this.answers.has(key)) {
      const answer = this.served ? fetchAnswer(this.served.token, what, query) : Promise.reject(new Error(PARTIAL));
      this.answers.set(key, answer);
      answer.catch(() => this.served && this.answers.delete(key));
    }
    return Promise.resolve(this.answers.get(key));
  }
}
