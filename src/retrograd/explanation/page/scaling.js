// Small numbers as multiples of a power of ten, so that they can be distinguished in cells.

import { caption } from "page/grid";
import { short } from "page/number_format";

const DIGITS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** The unit of numbers whose largest is given: 10⁻ⁿ below a limit, as {factor, name}; otherwise null. */
export function unit(largest, limit = 0.2) {
  if (!(largest > 0) || largest >= limit) return null;
  const places = Math.ceil(-Math.log10(largest));
  return { factor: 10 ** places, name: `10⁻${[...String(places)].map((digit) => DIGITS[digit]).join("")}` };
}

/** Options of a grid whose numbers are so small that they need such a unit. */
export function scaled(array) {
  const found = unit(array.largest);
  if (!found) return {};
  return { what: [caption(array), `in ${found.name}`].filter(Boolean).join(", "), text: (value) => short(value * found.factor, 1) };
}
