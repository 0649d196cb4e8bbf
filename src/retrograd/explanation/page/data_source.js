// Sources of documents: this file, or the server of the page.

/** The page's own data: {served, documents}, as embedded in the HTML. */
export async function opened(element) {
  const text = element.textContent;
  return JSON.parse(element.dataset.packed === undefined ? text : await unpacked(text));
}

async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).text();
}

/** Unpacks a document's indices, which are packed by columns as differences. */
function decoded(document) {
  for (const { products } of Object.values(document.sums))
    for (const each of products) each.index = summed(each.index, 1 + each.factors.length);
  for (const { copies } of Object.values(document.arrays)) if (copies) copies.index = summed(copies.index, 1);
  return document;
}

function summed(differences, width) {
  const rows = differences.length / width;
  const index = new Array(differences.length);
  for (let column = 0; column < width; column++) {
    let value = 0;
    for (let row = 0; row < rows; row++) {
      value += differences[column * rows + row];
      index[row * width + column] = value;
    }
  }
  return index;
}

const key = (operator, settings) =>
  JSON.stringify([operator, Object.entries(settings).sort(([a], [b]) => (a < b ? -1 : 1))]);
/** The settings of a document, and the typed gradient, if any. */
export const settingsOf = ({ settings, typed }) => ({
  ...Object.fromEntries(settings.map(({ name, value }) => [name, value])),
  ...(typed ? { typed } : {}),
});

/** The command that computes a document with these settings. */
function command(operator, settings, { settings: known }) {
  const changed = known.filter(({ name, default: own }) => own !== null && settings[name] !== own);
  return ["retrograd explain", operator, ...changed.map(({ name }) => `--set ${name}=${settings[name]}`)].join(" ");
}

/**
 * Documents in the file, for some combinations of settings.
 *
 * others: {about, documents}, the first document with other settings; they are unpacked on request
 */
export class EmbeddedDocuments {
  constructor(documents, others) {
    this.documents = new Map(documents.map((each) => [key(each.operator, settingsOf(each)), each]));
    this.operators = [...new Set(documents.map(({ operator }) => operator))];
    this.holds = others?.about ?? null;
    this.latest = 0;
    this.later = new Map();
    for (const each of others?.documents ?? [])
      this.documents.set(key(this.first, { ...settingsOf(documents[0]), ...each.changed }), each);
  }

  get first() {
    return this.operators[0];
  }

  #any(operator) {
    return [...this.documents.values()].find((each) => each.operator === operator) ?? null;
  }

  /** Whether settings can be chosen; if the file has many, choosing others shows an explanation. */
  has(operator, settings) {
    return Boolean(this.holds) || this.documents.has(key(operator, settings));
  }

  async get(operator, settings) {
    const place = settings && key(operator, settings);
    const ticket = ++this.latest;
    const found = settings ? this.documents.get(place) : this.#any(operator);
    if (!found) {
      const about = this.holds ?? "this file does not hold these settings";
      throw new Error(`${about[0].toUpperCase()}${about.slice(1)}: \`${command(operator, settings, this.#any(operator))}\` computes these`);
    }
    if (found.error) throw new Error(found.error);
    if (!found.packed) return found;
    const document = decoded(JSON.parse(await unpacked(found.packed)));
    this.documents.set(place, document);
    if (found.later) this.later.set(document, found.later);
    if (ticket !== this.latest) throw new DOMException("a newer request has replaced this one", "AbortError");
    return document;
  }

  /** A part that was packed separately, if the file has it. */
  async complete(document, part) {
    const text = this.later.get(document);
    if (text) Object.assign(document, JSON.parse(await unpacked(text)));
    if (document[part]) return;
    const runs = command(document.operator, settingsOf(document), document);
    throw new Error(`This file contains this for at most one changed setting: \`${runs}\` shows it.`);
  }
}

const KEPT = 40; // answers in the cache

/** Documents computed by the server, with a cache of the most recent ones. */
export class ServedDocuments {
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
    return fetchAnswer(this.token, what, { operator, ...settings }, signal);
  }
}

/** An answer of the server. */
export async function fetchAnswer(token, what, query, signal) {
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
