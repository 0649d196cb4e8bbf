// Small numbers as multiples of a power of ten, so that they differ in a cell.

import { ROLES } from "page/grid";
import { short } from "page/number_format";

const DIGITS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** The unit of numbers of which this is the largest: 10⁻ⁿ below a limit, as {factor, name}; else null. */
export function unit(largest, limit = 0.05) {
  if (!(largest > 0) || largest >= limit) return null;
  const places = Math.ceil(-Math.log10(largest));
  return { factor: 10 ** places, name: `10⁻${[...String(places)].map((digit) => DIGITS[digit]).join("")}` };
}

/** Options of a grid whose numbers are so small that they are written in such a unit. */
export function scaled(array, limit) {
  const found = unit(array.largest, limit);
  if (!found) return {};
  const role = array.role === "upstream" ? "upstream" : (ROLES[array.role] ?? array.role);
  return { what: `${role}, in ${found.name}`, text: (value) => short(value * found.factor, 1) };
}
