// Where documents come from: from this file, or from the program that serves the page.

/** The page's own data: {served, documents} as it stands in the HTML. */
export async function opened(element) {
  const text = element.textContent;
  return JSON.parse(element.dataset.packed === undefined ? text : await unpacked(text));
}

async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).text();
}

const key = (operator, settings) =>
  JSON.stringify([operator, Object.entries(settings).sort(([a], [b]) => (a < b ? -1 : 1))]);
/** The settings of a document, and the gradient that was typed for it. */
export const settingsOf = ({ settings, typed }) => ({
  ...Object.fromEntries(settings.map(({ name, value }) => [name, value])),
  ...(typed ? { typed } : {}),
});

/** Documents in the file: those of some combinations of settings. */
export class Carried {
  constructor(documents) {
    this.documents = new Map(documents.map((each) => [key(each.operator, settingsOf(each)), each]));
    this.operators = [...new Set(documents.map(({ operator }) => operator))];
  }

  get first() {
    return this.operators[0];
  }

  #any(operator) {
    return [...this.documents.values()].find((each) => each.operator === operator) ?? null;
  }

  has(operator, settings) {
    return this.documents.has(key(operator, settings));
  }

  async get(operator, settings) {
    const found = settings ? this.documents.get(key(operator, settings)) : this.#any(operator);
    if (!found)
      throw new Error(`this file does not hold these settings: run \`retrograd explain ${operator}\` to change them`);
    return found;
  }
}

const KEPT = 40; // answers that are remembered

/** Documents that the serving program makes; the last ones are remembered. */
export class Served {
  constructor({ token, operators = [], first = operators[0] }, documents) {
    Object.assign(this, { token, first, documents: new Map() });
    for (const each of documents) this.documents.set(key(each.operator, settingsOf(each)), each);
    this.operators = operators.length ? operators : [...new Set(documents.map(({ operator }) => operator))];
    this.running = null;
  }

  has() {
    return true;
  }

  async get(operator, settings) {
    const place = settings && key(operator, settings);
    if (this.documents.has(place)) return this.documents.get(place);
    this.running?.abort();
    this.running = new AbortController();
    const found = await this.#ask("explanation", operator, settings, this.running.signal);
    if (this.documents.size >= KEPT) this.documents.delete(this.documents.keys().next().value);
    this.documents.set(key(operator, settingsOf(found)), found);
    return found;
  }

  /** Fetches a part that the document was sent without. */
  async complete(document, part) {
    Object.assign(document, await this.#ask(part, document.operator, settingsOf(document)));
  }

  #ask(what, operator, settings, signal) {
    return asked(this.token, what, { operator, ...settings }, signal);
  }
}

/** An answer of the program that serves the page. */
export async function asked(token, what, query, signal) {
  const request = fetch(`/api/${what}?${new URLSearchParams(query)}`, {
    headers: { "X-Retrograd-Token": token },
    signal,
    cache: "no-store",
  });
  const answer = await request.catch((error) => {
    throw error.name === "AbortError" ? error : new Error("the program that serves this page has ended");
  });
  const found = await answer.json().catch(() => ({ error: `the server answered ${answer.status}` }));
  if (!answer.ok) throw new Error(found.error ?? `the server answered ${answer.status}`);
  return found;
}
