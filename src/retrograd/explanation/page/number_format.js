// Numbers as text.

const minus = (text) => text.replace(/-/g, "−");

/** Up to seven digits, for the panel. */
export function long(value) {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return minus(String(value));
  const text = Number(value.toPrecision(7));
  return minus(Math.abs(text) < 1e-4 || Math.abs(text) >= 1e9 ? text.toExponential() : String(text));
}

/** A few decimals, for a cell. */
export function short(value, decimals = 2) {
  if (!Number.isFinite(value)) return long(value);
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1000) return minus(String(value + 0));
  if (size >= 999.5) return minus(value.toExponential(0).replace("+", ""));
  const places = size >= 99.5 ? 0 : size >= 9.95 ? Math.min(1, decimals) : decimals;
  const text = value.toFixed(places).replace(/^(-?)0\./, "$1.");
  return minus(/[1-9]/.test(text) ? text : text.replace("-", ""));
}

/** A difference, with two digits. */
export function small(value) {
  if (value === 0 || !Number.isFinite(value)) return long(value);
  const text =
    Math.abs(value) < 0.01 || Math.abs(value) >= 1000 ? value.toExponential(1) : String(Number(value.toPrecision(2)));
  return minus(text);
}

/** "1 product", "25 products", "2 entries". */
export function count(number, noun) {
  const many = noun.endsWith("y") ? `${noun.slice(0, -1)}ies` : `${noun}s`;
  return `${number.toLocaleString("en")} ${number === 1 ? noun : many}`;
}
