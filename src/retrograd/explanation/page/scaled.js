// Small numbers as multiples of a power of ten, so that they differ in a cell.

import { ROLES } from "page/grid";
import { short } from "page/number";

const DIGITS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** Options of a grid whose largest number is below a limit: its numbers are written in units of 10⁻ⁿ. */
export function scaled(array, limit = 0.05) {
  if (!(array.largest > 0) || array.largest >= limit) return {};
  const places = Math.ceil(-Math.log10(array.largest));
  const power = [...String(places)].map((digit) => DIGITS[digit]).join("");
  const role = array.role === "upstream" ? "upstream" : (ROLES[array.role] ?? array.role);
  return { what: `${role}, in 10⁻${power}`, text: (value) => short(value * 10 ** places, 1) };
}
