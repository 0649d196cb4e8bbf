// Light and dark theme: the system's preference, unless the reader chose one.

import { forget } from "page/color";

const NAME = "retrograd-theme";
const ORDER = ["auto", "light", "dark"];

export class Theme {
  constructor(button, changed) {
    this.button = button;
    this.changed = changed;
    this.chosen = stored();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#apply());
    button.addEventListener("click", () => {
      this.chosen = ORDER[(ORDER.indexOf(this.chosen) + 1) % ORDER.length];
      try {
        localStorage.setItem(NAME, this.chosen);
      } catch {
        // a file in a sandbox has no storage: the choice is kept until the page is closed
      }
      this.#apply();
    });
    this.#apply(false);
  }

  #apply(tell = true) {
    document.documentElement.dataset.theme = this.chosen;
    const sign = { auto: "◐", light: "○", dark: "●" }[this.chosen];
    this.button.textContent = sign;
    this.button.setAttribute("aria-label", `colors: ${this.chosen}`);
    this.button.title = `Colors: ${this.chosen}`;
    forget();
    if (tell) this.changed();
  }
}

function stored() {
  try {
    const found = localStorage.getItem(NAME);
    return ORDER.includes(found) ? found : "auto";
  } catch {
    return "auto";
  }
}
