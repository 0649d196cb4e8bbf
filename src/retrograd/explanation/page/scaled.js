// Small numbers as multiples of a power of ten, so that they differ in a cell.

import { ROLES } from "page/grid";
import { short } from "page/number";

const DIGITS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** Options of a grid whose largest number is below 0.05: its numbers are written in units of 10⁻ⁿ. */
export function scaled(array) {
  if (!(array.largest > 0) || array.largest >= 0.05) return {};
  const places = Math.ceil(-Math.log10(array.largest));
  const power = [...String(places)].map((digit) => DIGITS[digit]).join("");
  const role = array.role === "upstream" ? "upstream" : (ROLES[array.role] ?? array.role);
  return { what: `${role}, in 10⁻${power}`, text: (value) => short(value * 10 ** places, 1) };
}
