// The map of a model: its layers in the order in which they ran, with gradient norms and problems.

import { numbers } from "page/array";
import { h } from "page/dom";
import { count, long, small } from "page/number_format";

const extents = (shape) => shape.join("×");

export class LayerMap {
  /** choose(path): opens a layer; follow(step): follows a step of the path */
  constructor(element, map, { choose, follow }) {
    Object.assign(this, { element, map, choose, follow });
    this.scale = logarithmic(map.layers.flatMap((each) => norms(each).map(([, value]) => value)));
    this.rows = new Map(map.layers.map((layer) => [layer.path, this.#row(layer)]));
    this.end = h("li", { class: "end" }, h("b", {}, "loss "), long(numbers([map.loss])[0]));
    const list = h("ol", {}, ...[...this.rows.values()].map(({ element: row }) => row), this.end);
    list.addEventListener("keydown", (event) => this.#key(event));
    this.say = h("p", { class: "say", role: "status" });
    const wide = !matchMedia("(max-width: 1080px)").matches;
    this.details = h(
      "details",
      { open: wide },
      h("summary", {}, h("b", {}, map.name), h("span", {}, count(map.layers.length, "layer"))),
      this.say,
      list,
      this.#legend(),
    );
    element.replaceChildren(this.details);
    element.hidden = false;
    document.body.classList.add("with-map");
  }

  #row(layer) {
    const button = h(
      "button",
      { class: "layer", onclick: () => (layer.why_not ? this.#refuse(layer) : this.choose(layer.path)) },
      h("span", { class: "path" }, h("b", {}, layer.path || layer.kind), h("span", { class: "kind" }, layer.path ? layer.kind : "")),
      h("span", { class: "shapes" }, extents(layer.input), h("i", {}, " → "), extents(layer.output)),
      ...norms(layer).map(([name, value]) => this.#bar(name, value)),
      ...marks(layer).map(([kind, text]) => h("span", { class: `mark ${kind}` }, text)),
    );
    if (layer.why_not) button.classList.add("closed");
    const stops = h("div", { class: "stops" });
    return { layer, button, stops, element: h("li", {}, button, stops) };
  }

  #bar(name, value) {
    const bar = h("i", { class: `bar role-${name === "gy" ? "upstream" : "gradient"}` });
    bar.style.width = `${100 * this.scale.share(value)}%`;
    const text = value === 0 ? "0" : small(value);
    return h("span", { class: "norm", title: `norm of ${name}: ${text}` }, h("small", {}, name), h("span", {}, bar), h("small", {}, text));
  }

  #legend() {
    const { low, high } = this.scale;
    return h(
      "p",
      { class: "hint" },
      `Bars: norms of the gradients on a logarithmic scale from 1e${low} to 1e${high}. `.replaceAll("-", "−"),
      "gy comes from the loss, gw is the weight's.",
    );
  }

  #refuse({ path, why_not }) {
    this.say.textContent = `${path}: ${why_not}.`;
  }

  /** Marks the current layer. */
  open(path) {
    for (const [each, { button }] of this.rows) {
      if (each === path) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    }
    this.say.textContent = "";
    const { button } = this.rows.get(path);
    const [top, bottom] = [button.offsetTop - 40, button.offsetTop + button.offsetHeight + 10];
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop || bottom > scrollTop + clientHeight) this.element.scrollTop = top - clientHeight / 3;
  }

  #key(event) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const buttons = [...this.rows.values()].map(({ button }) => button);
    const next = buttons.indexOf(document.activeElement) + by;
    buttons[Math.max(0, Math.min(buttons.length - 1, next))].focus();
  }

  /** Draws the path of an entry's gradient from the loss: in each layer, the entry that carried most of it. */
  showPath(label, steps) {
    this.clear();
    if (!steps.length) {
      this.say.textContent = `${label}: no product of it leads to the loss.`;
      return;
    }
    let share = 1;
    const passed = new Set(steps.map(({ path }) => path));
    for (const step of steps) {
      share *= step.share;
      const { stops, element } = this.rows.get(step.path);
      element.classList.add("on-path");
      stops.append(
        h(
          "button",
          { onclick: () => this.follow(step), title: `this entry's product is ${percent(step.share)} of the previous sum` },
          h("code", {}, `gy[${step.index.join(", ")}]`),
          h("b", {}, percent(step.share)),
        ),
      );
    }
    const paths = [...this.rows.keys()];
    const [from, to] = [paths.indexOf(steps[0].path), paths.indexOf(steps.at(-1).path)];
    for (const path of paths.slice(from, to)) this.rows.get(path).element.classList.add(passed.has(path) ? "on-path" : "beside-path");
    const arrived = to === paths.length - 1;
    this.end.classList.toggle("on-path", arrived);
    const rest = arrived ? "" : " It ends before a layer that cannot be explained.";
    this.say.textContent = `${label}: the largest product of each sum, from here to the loss. This path alone carries ${percent(share)}.${rest}`;
    this.details.open = true;
    this.element.scrollTop = 0;
    this.say.scrollIntoView({ block: "nearest" });
  }

  clear() {
    for (const { stops, element } of this.rows.values()) {
      stops.replaceChildren();
      element.classList.remove("on-path", "beside-path");
    }
    this.end.classList.remove("on-path");
    this.say.textContent = "";
  }
}

const percent = (share) => `${(100 * share).toFixed(Math.abs(share) < 0.0995 ? 1 : 0)} %`.replace("-", "−");

/** [[name, norm], ...] of a layer: of its upstream gradient, and of all its parameters' gradients together. */
function norms({ gy_norm, weight_norms }) {
  const own = Object.values(weight_norms);
  const found = [];
  if (gy_norm !== null) found.push(["gy", numbers([gy_norm])[0]]);
  if (own.length) found.push(["gw", Math.hypot(...numbers(own))]);
  return found;
}

function marks(layer) {
  const found = [];
  if (layer.not_finite) found.push(["wrong", `✗ ${count(layer.not_finite, "NaN or infinite entry")}`]);
  if (layer.dead > 0 && !layer.why_not) found.push(["dead", `○ ${percent(layer.dead)} dead: 0 for the whole batch`]);
  if (layer.calls > 1) found.push(["often", `ran ${layer.calls} times; the last is shown`]);
  if (layer.gy_norm === 0) found.push(["wrong", "✗ its gradient is 0"]);
  if (layer.gy_norm === null) found.push(["often", "no gradient: the loss does not depend on it"]);
  return found;
}

/** A logarithmic scale that includes all these numbers. */
function logarithmic(values) {
  const logs = values.filter((value) => value > 0 && Number.isFinite(value)).map(Math.log10);
  const low = Math.floor(Math.min(0, ...logs));
  const high = Math.max(low + 1, Math.ceil(Math.max(-99, ...logs)));
  const share = (value) => {
    if (!(value > 0)) return 0;
    return Number.isFinite(value) ? Math.max(0.02, (Math.log10(value) - low) / (high - low)) : 1;
  };
  return { low, high, share };
}
