// Numbers as text.

const minus = (text) => text.replace(/-/g, "−");

/** Up to seven digits: what the panel says. */
export function long(value) {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return minus(String(value));
  const text = Number(value.toPrecision(7));
  return minus(Math.abs(text) < 1e-4 || Math.abs(text) >= 1e9 ? text.toExponential() : String(text));
}

/** About three places: what fits into a cell. */
export function short(value) {
  if (!Number.isFinite(value) || Object.is(value, -0)) return value === 0 ? "0" : long(value);
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1000) return minus(String(value));
  if (size >= 1000) return minus(value.toExponential(0).replace("+", ""));
  if (size < 0.005) return "≈0";
  return minus(value.toFixed(size >= 99.5 ? 0 : size >= 9.95 ? 1 : 2).replace(/^(-?)0\./, "$1."));
}

/** A difference: two digits. */
export const small = (value) => (value === 0 ? "0" : Number.isFinite(value) ? minus(value.toExponential(1)) : long(value));

/** "1 product", "25 products", "2 entries". */
export function count(number, noun) {
  const many = noun.endsWith("y") ? `${noun.slice(0, -1)}ies` : `${noun}s`;
  return `${number.toLocaleString("en")} ${number === 1 ? noun : many}`;
}
