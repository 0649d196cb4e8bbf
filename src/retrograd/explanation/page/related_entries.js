// The highlighted entries: those related to the selected one.

/** The entry's name and position, as a key of a set. */
const key = (array, at) => `${array.name} ${at}`;

/**
 * What the page shows of an entry.
 *
 * sum: the entry as the sum of its products, or null; uses: the sums it is part of; shown: "sum" or "uses";
 * into: the only target whose uses are shown, if any
 * products: in the order of the panel; lit: {array name: {position: "target" | "factor" | "copy"}}
 */
export function read(model, name, at, wish = "sum", into = null) {
  const array = model.arrays.get(name);
  const sum = model.entry(name, at);
  const uses = model.uses(name, at).filter(({ target }) => !into || target.name === into);
  const shown = sum && (wish === "sum" || !uses.length) ? "sum" : "uses";
  const products = shown === "sum" ? sum.products : uses.flatMap((each) => each.products);
  const lit = new Map();
  const light = (other, place, as) => {
    if (!lit.has(other.name)) lit.set(other.name, new Map());
    const places = lit.get(other.name);
    if (!places.has(place)) places.set(place, as);
  };
  light(array, at, "target");
  const source = (other, place) => {
    if (!other.copies) return;
    const [from, there] = [model.arrays.get(other.copies.array), other.copies.index[place]];
    // padding has no cell if the array is shown without its padding
    if (there >= 0 || from.padded.some((extent, axis) => extent > from.shape[axis])) light(from, there, "copy");
  };
  for (const each of products) {
    if (shown === "sum") {
      for (const factor of each.factors) {
        light(factor.array, factor.at, "factor");
        source(factor.array, factor.at);
      }
    } else light(each.target, each.to, "factor");
  }
  source(array, at);
  for (const [other, place] of model.copied.get(name)?.get(at) ?? []) {
    light(other, place, "copy");
    // the row and the column of matrices that have the same sum
    if (shown === "sum")
      for (const each of model.entry(other.name, place)?.products ?? [])
        for (const factor of each.factors) light(factor.array, factor.at, "factor");
  }
  return { array, at, sum, uses, shown, products, lit };
}

/** The cells of one product: its factors and the entry that it is added to. */
export const cells = (each) => [...each.factors.map(({ array, at }) => [array.name, at]), [each.target.name, each.to]];

/** For each highlighted cell the number of the first product that it is part of. */
export function numbered(reading) {
  const found = new Map();
  reading.products.forEach((each, number) => {
    const parts =
      reading.shown === "sum" ? each.factors.map(({ array, at }) => key(array, at)) : [key(each.target, each.to)];
    for (const part of parts) if (!found.has(part)) found.set(part, number);
  });
  return (array, at) => found.get(key(array, at)) ?? null;
}

/** "gy · x", the arrays whose entries are multiplied; most products are of the same kind as the previous one. */
function factorKinds(products) {
  const kinds = new Set();
  let before = [];
  for (const { factors } of products) {
    let j = 0;
    while (j < factors.length && factors[j].array === before[j]?.array) j += 1;
    if (j < factors.length || factors.length !== before.length || !kinds.size)
      kinds.add(factors.map(({ array }) => array.name).join(" · "));
    before = factors;
  }
  return [...kinds];
}

/** What a sum adds up: products, or single entries. */
export function termNoun(products) {
  return products.some((each) => each.factors.length > 1) ? "product" : "entry";
}

/** One sentence about an entry, for the headline and for screen readers. */
export function sentence(reading, { long, count }) {
  const { array, at, sum, shown, products } = reading;
  if (at < 0) return `${array.label(at)} is padding, which is 0`;
  const value = long(array.value(at));
  if (sum?.pending) return `${array.label(at)}: ${sum.pending}`;
  if (shown === "sum") {
    if (!products.length) return `${array.label(at)} = ${value}: the loss does not depend on it`;
    const kinds = factorKinds(products);
    const noun = termNoun(products);
    const check = sum.agrees ? "" : "; the products do not add up to it";
    if (products.length === 1) {
      const [{ factors, scale }] = products;
      const one = factors.map((factor) => factor.array.label(factor.at)).join(" · ");
      return `${array.label(at)} = ${value}, which is ${scale === 1 ? one : `${long(scale)} · ${one}`}${check}`;
    }
    const which = kinds.length > 3 ? `of ${kinds.length} kinds` : (noun === "entry" ? "of " : "") + kinds.join(" and ");
    return `${array.label(at)} = ${value}, the sum of ${count(sum.count ?? products.length, noun)} ${which}${check}`;
  }
  const into = reading.uses.map(
    (each) => `${count(new Set(each.products.map(({ to }) => to)).size, "entry")} of ${each.target.name}`,
  );
  return `${array.label(at)} = ${value}${into.length ? `, which goes into ${into.join(", ")}` : ""}`;
}
