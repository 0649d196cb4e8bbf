// Announces the selected entry to screen readers once the reader rests on it.

import { count, long } from "page/number_format";
import { sentence } from "page/related_entries";

export class Announcer {
  constructor(element, selection) {
    let waiting = null;
    const say = (text) => {
      clearTimeout(waiting);
      waiting = setTimeout(() => (element.textContent = text), 200);
    };
    selection.listen((what) => {
      const { reading, product } = selection;
      if (what === "entry")
        say(reading ? `${sentence(reading, { long, count })}.${check(reading)}` : "nothing is selected");
      else if (product)
        say(product.factors.map(({ array, at, value }) => `${array.label(at)} = ${long(value)}`).join(" times "));
    });
  }
}

function check({ sum, shown }) {
  if (shown !== "sum" || sum.numerical === null) return "";
  return ` The numerical gradient is ${long(sum.numerical)}${sum.confirmed ? ", it agrees" : ", it differs"}.`;
}
