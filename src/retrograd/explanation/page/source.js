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
export const settingsOf = (document) => Object.fromEntries(document.settings.map(({ name, value }) => [name, value]));

/** Documents in the file: those of some combinations of settings. */
export class Carried {
  constructor(documents) {
    this.documents = new Map(documents.map((each) => [key(each.operator, settingsOf(each)), each]));
    this.operators = [...new Set(documents.map(({ operator }) => operator))];
  }

  first(operator = this.operators[0]) {
    return [...this.documents.values()].find((each) => each.operator === operator) ?? null;
  }

  has(operator, settings) {
    return this.documents.has(key(operator, settings));
  }

  async get(operator, settings) {
    const found = settings ? this.documents.get(key(operator, settings)) : this.first(operator);
    if (!found)
      throw new Error(`this file does not hold these settings: run \`retrograd explain ${operator}\` to change them`);
    return found;
  }
}

const KEPT = 40; // answers that are remembered

/** Documents that the serving program makes; the last ones are remembered. */
export class Served {
  constructor({ token, operators = [] }, documents) {
    Object.assign(this, { token, documents: new Map() });
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
    const query = new URLSearchParams({ operator, ...settings });
    const answer = await fetch(`/api/explanation?${query}`, {
      headers: { "X-Retrograd-Token": this.token },
      signal: this.running.signal,
      cache: "no-store",
    });
    const found = await answer.json().catch(() => ({ error: `the server answered ${answer.status}` }));
    if (!answer.ok) throw new Error(found.error ?? `the server answered ${answer.status}`);
    if (this.documents.size >= KEPT) this.documents.delete(this.documents.keys().next().value);
    this.documents.set(key(operator, settingsOf(found)), found);
    return found;
  }
}
