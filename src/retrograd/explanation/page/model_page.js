// A model's page: the map of its layers next to the page of the open layer.

import { h } from "page/dom";
import { LayerMap } from "page/layer_map";

const $ = (id) => document.getElementById(id);

export class ModelView {
  /** page: the page that shows a layer */
  constructor(page, map) {
    this.page = page;
    this.name = map.name;
    this.map = new LayerMap($("map"), map, {
      choose: (path) => this.#choose(path),
      follow: ({ path, array, index }) => this.#jump(path, array, index),
    });
    page.selection.listen((what) => what === "entry" && this.#offer());
    $("entry").addEventListener("click", (event) => this.#factor(event));
  }

  /** Shows a layer's document. */
  open(found) {
    this.map.open(found.operator);
    // the present selection belongs to another layer
    if (this.path !== found.operator) this.page.selection.pinned = null;
    this.path = found.operator;
  }

  /** "conv2d of layer features.3"; the empty path is the model itself. */
  title({ operator, kind }) {
    return operator ? `${kind} of layer ${operator}` : `${kind} of ${this.name}`;
  }

  /** The elements of the heading. */
  heading(found) {
    return [found.kind, " ", h("small", {}, this.title(found).slice(found.kind.length + 1))];
  }

  async #choose(path) {
    $("lead").textContent = `Opening ${path} …`;
    await this.page.go(path, null);
    if (this.page.document?.operator !== path) return;
    if (matchMedia("(max-width: 1080px)").matches) $("operator").scrollIntoView({ block: "start" });
  }

  async #jump(path, name, index) {
    if (path !== this.path) await this.#choose(path);
    const array = this.page.model.arrays.get(name);
    if (this.path !== path || !array) return;
    const flat = index.reduce((all, i, axis) => all * array.shape[axis] + i, 0);
    this.page.selection.pin(name, flat);
  }

  /** Below a gradient's entry: the path of its gradient. */
  #offer() {
    const { reading } = this.page.selection;
    if (!reading?.sum || reading.sum.pending || reading.array.role !== "gradient" || reading.shown !== "sum") return;
    const button = h("button", { class: "follow", onclick: () => this.#follow(reading, button) }, "Follow it to the loss");
    $("entry").append(button);
  }

  async #follow({ array, at }, button) {
    button.disabled = true;
    button.textContent = "Following …";
    try {
      const { steps } = await this.page.source.ask("path_to_loss", { layer: this.path, array: array.name, index: at });
      $("entry").classList.remove("open"); // on a phone it covers the map
      this.map.showPath(`${this.path} ${array.label(at)}`, steps);
      button.textContent = "Follow it to the loss";
    } catch (error) {
      button.textContent = error.message;
    }
    button.disabled = false;
  }

  /** Shows the part of an array with the factor that was clicked. */
  #factor(event) {
    const term = event.target.closest("[data-product] .term");
    const { reading, active } = this.page.selection;
    if (!term || !reading) return;
    const row = term.closest("[data-product]");
    const product = reading.products[Number(row.dataset.product)];
    const factor = product?.factors[[...row.querySelectorAll(".term")].indexOf(term)];
    if (!factor) return;
    this.page.view.show?.(factor.array, factor.at);
    if (active !== Number(row.dataset.product)) this.page.selection.look(Number(row.dataset.product));
    for (const grid of this.page.view.grids)
      if (grid.array === factor.array) grid.element.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
}
