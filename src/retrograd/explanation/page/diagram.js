// The diagram of a recurrent layer unrolled in time: a column per step, values to the right, gradients to the left.
//
// It shows one unit of one sequence. Its cells are selected like those of the grids; the numbers on its arrows are
// sums of the document's products.

import { colors } from "page/color";
import { h, s } from "page/dom";
import { styled } from "page/export";
import { long, short, small } from "page/number_format";
import { unit } from "page/scaling";
import { box, line, mark } from "page/diagram_shapes";
import { Step } from "page/diagram_layout";
import { caption, legend } from "page/diagram_caption";
import { PathGradients } from "page/path_gradients";

const [LEFT, RIGHT] = [10, 10];
const MOST = 12; // steps drawn
const [LEAST, LARGEST] = [0.86, 1.3]; // relative to the diagram's natural size
const KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const THICKEST = 4.5;

export class Diagram {
  constructor(selection) {
    this.selection = selection;
    this.box = h("div", { class: "box" });
    this.caption = h("figcaption", { class: "told" });
    this.keys = h("ul", { class: "ways" });
    this.element = h("figure", { class: "diagram" }, this.box, this.keys, this.caption);
  }

  open(model) {
    this.model = model;
    this.data = model.document.diagram;
    const { shape } = this.#array("x");
    const [state] = this.data.states[0];
    [this.steps, this.batch, this.units] = this.#array(state).shape;
    this.step = new Step(this.data, shape[2]);
    this.at = { t: this.steps > MOST ? this.steps - 1 : 0, n: 0, h: 0, i: 0 }; // with many steps, the last one
    this.drawn = new Set(this.step.cells.map(({ name }) => name));
    this.missing = null; // why the numbers of the current place are not available
    this.pathGradients = new PathGradients(model, this.data.ways, (message) => this.#changed(message));
    this.first = Math.max(0, Math.min(this.steps - MOST, this.at.t));
    this.scale = 1;
    // all gradients in one unit, to show how they shrink
    const gradients = [...this.data.states, ...this.data.gates, ["y", "gy"], ["x", "gx"]].map(([, name]) => name);
    this.gradients = new Set(gradients.flatMap((name) => [name, `${name}0`]));
    const unitOfAll = unit(Math.max(...gradients.map((name) => this.#array(name).largest)));
    this.factor = unitOfAll?.factor ?? 1;
    this.keys.replaceChildren(...legend(this.data, unitOfAll?.name));
  }

  #array(name) {
    return this.model.arrays.get(name);
  }

  /** The entry of an array at a step, for the current unit and sequence; before the first step, h0 and c0. */
  #entry(name, t, unit = null) {
    const array = this.#array(t < 0 ? `${name}0` : name);
    if (!array || t >= this.steps) return null;
    const place = { t, n: this.at.n, h: this.at.h, i: this.#input(unit), d: 0 };
    return { array, at: array.flat(array.letters.map((letter) => place[letter])) };
  }

  /** The input number shown in a cell; if there are many, they start with the selected one. */
  #input(unit) {
    return this.at.i + (unit ?? 0);
  }

  layout(width) {
    const { step, steps } = this;
    const shown = Math.min(steps, MOST);
    const begins = this.#array(`${this.data.states.at(-1)[0]}0`) ? step.width - step.state.left + 24 : 0;
    this.left = LEFT + begins;
    this.wide = this.left + shown * step.width + RIGHT;
    this.scale = Math.max(LEAST, Math.min(LARGEST, (width - 2) / this.wide));
    this.overflows = this.wide * this.scale > width;
    this.scrolled = null;
    this.#draw();
  }

  #x(t) {
    return this.left + (t - this.first) * this.step.width;
  }

  #draw() {
    const { step } = this;
    const last = Math.min(this.steps, this.first + MOST);
    this.nodes = new Map();
    this.columns = new Map();
    this.tracks = [];
    this.labels = [];
    this.grounds = new Map();
    const layers = { ground: s("g", {}), kept: s("g", { class: "kept" }), lines: s("g", {}), ways: s("g", {}), cells: s("g", {}) };
    for (let t = this.first - 1; t < last; t++) {
      if (t < 0 && this.left === LEFT) continue;
      const own = t >= this.first;
      const at = `translate(${this.#x(t)} 0)`;
      if (own) layers.ground.append(this.#ground(t, at));
      if (own || t < 0) layers.cells.append(this.#column(t, at, own));
      const [lines, ways] = [s("g", { transform: at }), s("g", { transform: at })];
      if (own) for (const each of step.lines) lines.append(this.#track(each, t, t));
      if (t + 1 < last && (own || t < 0)) for (const each of step.onward) lines.append(this.#track(each, t, t + 1));
      if (own || t < 0) for (const way of this.data.ways) ways.append(...this.#way(way, t));
      layers.lines.append(lines);
      layers.ways.append(ways);
      if (this.data.kept && own && t + 1 < last) layers.kept.append(this.#fade(t));
    }
    this.picture = s(
      "svg",
      {
        viewBox: `0 0 ${this.wide} ${step.height}`,
        width: Math.round(this.wide * this.scale),
        height: Math.round(step.height * this.scale),
        role: "group",
        "aria-roledescription": "picture of the steps in time",
        "aria-label": `${this.steps} steps in time, values to the right, gradients back to the left`,
        onkeydown: (event) => this.#key(event),
      },
      ...Object.values(layers),
    );
    this.box.replaceChildren(this.picture);
    this.#values();
  }

  #ground(t, transform) {
    const { step } = this;
    const ground = s("rect", { class: "ground", x: 0, y: 1, width: step.width, height: step.height - 2, rx: 8, transform });
    this.grounds.set(t, ground);
    return s(
      "g",
      {},
      ground,
      s("rect", { class: "gates", ...step.frame, rx: 7, transform }),
      s("text", { class: "moment", x: 10, y: 15, transform }, `t = ${t}`),
    );
  }

  /** The cells of a step; only the states before the first step. */
  #column(t, transform, own) {
    const group = s("g", { transform });
    const states = this.data.states.flat();
    const nodes = [];
    for (const cell of this.step.cells) {
      if (!own && !states.includes(cell.name)) continue;
      if (!this.#entry(cell.name, t, cell.unit)) continue;
      const node = this.#cell(cell, t);
      group.append(node.element);
      nodes.push(node);
    }
    const between = own && this.data.between && this.#entry(this.data.between, t);
    if (between) {
      const { state, frame } = this.step;
      const node = this.#cell(
        { name: this.data.between, x: state.middle - 17, y: frame.y - 28, width: 34, height: 18, word: "tanh" },
        t,
      );
      group.append(node.element);
      nodes.push(node);
    }
    if (own) for (const sign of this.step.signs) group.append(mark(sign));
    if (own && this.data.kept) {
      const { x, y } = this.step.share;
      const node = this.#cell({ name: this.data.kept, x: x - 33, y: y - 9, width: 56, height: 17, share: true }, t);
      group.append(node.element);
      nodes.push(node);
    }
    this.columns.set(t, nodes);
    return group;
  }

  #cell(cell, t) {
    const { role } = this.#entry(cell.name, t, cell.unit).array;
    const node = { cell, t };
    const handlers = {
      onpointerenter: (event) => event.pointerType !== "touch" && this.selection.hover(...this.#place(node)),
      onpointerleave: () => this.selection.leave(),
      onclick: () => this.selection.pin(...this.#place(node)),
      onfocus: () => this.#focus(node),
      onblur: () => this.moving || this.selection.leave(),
    };
    return Object.assign(node, box(cell, role, t < 0 ? "0" : "", handlers));
  }

  #place({ cell, t }) {
    const { array, at } = this.#entry(cell.name, t, cell.unit);
    return [array.name, at];
  }

  /** A line between two entries, or between an entry and the gates. */
  #track({ from, to, unit, points, back = false }, t, later) {
    const { element } = line(points, back ? "track back" : "track", 3.5);
    const source = () => from && this.#entry(from, t, unit);
    const target = () => to && this.#entry(to, later, unit);
    this.tracks.push({ element, source, target, back });
    return element;
  }

  /** A path of the gradient to a state; its width and its number show its contribution. */
  #way(way, t) {
    if (!this.#entry(way.to, t) || t + way.by < this.first || t + way.by >= Math.min(this.steps, this.first + MOST)) return [];
    const { points, label, along } = this.step.way(way);
    const { element, path } = line(points, `track back way ${way.kind}`, 6);
    element.prepend(s("title", {}, way.about));
    if (along) element.append(s("text", { transform: `translate(${along.x} ${along.y}) rotate(-90)` }, `× ${way.times}`));
    const number = label && s("text", { class: `worth ${way.kind}`, x: label.x, y: label.y, "text-anchor": label.anchor });
    this.tracks.push({ element, way, t, path, number, back: true });
    return number ? [element, number] : [element];
  }

  /** The share kept from a step back to the previous one, as the width of a band. */
  #fade(t) {
    const { step } = this;
    const y = step.level(this.data.states[0][1]);
    const [from, to] = [this.#x(t + 1) + step.state.left, this.#x(t) + step.state.right];
    const band = s("path", { class: "fade" });
    this.labels.push(() => {
      const [late, early] = [t + 1, t].map((each) => this.value(this.data.kept, each) ?? 0);
      const [a, b] = [late, early].map((value) => 0.75 + 12 * Math.min(1, Math.abs(value)));
      band.setAttribute("d", `M${from} ${y - a}L${to} ${y - b}V${y + b}L${from} ${y + a}Z`);
      band.style.opacity = 0.1 + 0.35 * Math.min(1, (Math.abs(late) + Math.abs(early)) / 2);
    });
    return band;
  }

  value(name, t) {
    const { array, at } = this.#entry(name, t);
    return array.value(at);
  }

  /** The largest gradient of this unit's states over all steps, the reference for path widths. */
  #largest() {
    let found = 1e-30;
    for (const [, name] of this.data.states)
      for (let t = 0; t < this.steps; t++) {
        const size = Math.abs(this.value(name, t));
        if (Number.isFinite(size)) found = Math.max(found, size);
      }
    return found;
  }

  /** The contribution of a path. */
  over({ way, t }) {
    return this.pathGradients.over(way, t, this.#entry(way.to, t), this.at);
  }

  #changed(message) {
    this.missing = message;
    if (!message) this.#values();
    this.#tell(this.selection.reading);
  }

  /** The caption; if the numbers of this place are not available, it says why. */
  #tell(reading) {
    this.caption.replaceChildren(...(this.missing ? [h("p", {}, this.missing)] : caption(this, reading)));
  }

  /** Writes the numbers of the current unit and sequence. */
  #values() {
    this.pathGradients.request(this.at);
    for (const nodes of this.columns.values())
      for (const node of nodes) {
        const { array, at } = this.#entry(node.cell.name, node.t, node.cell.unit);
        const value = array.value(at);
        const { fill, text } = value === undefined ? { fill: "none", text: "" } : colors(value, array.largest);
        const { share, word, width } = node.cell;
        node.key = `${array.name} ${at}`;
        const number = short(value * (this.gradients.has(array.name) ? this.factor : 1));
        const part = share && (Math.abs(value) < 0.005 ? small(value) : short(value));
        const words = word ?? (value === undefined ? "…" : share ? `kept ${part}` : number);
        if (!share) node.ground.style.fill = fill;
        if (!share) node.text.style.fill = text;
        node.text.textContent = words;
        node.text.style.fontSize = `${Math.min(11.5, ((width - 3) * 1.62) / words.length)}px`;
        const says = value === undefined ? "…" : long(value);
        node.element.setAttribute("aria-label", `${array.label(at)} = ${says}, ${array.about}`);
      }
    for (const write of this.labels) write();
    const ways = this.tracks.filter(({ way }) => way).map((track) => ({ track, total: this.over(track) }));
    const largest = this.#largest();
    for (const { track, total } of ways) {
      const { way, t, path, number } = track;
      const part = Math.min(1, Math.abs(total) / largest);
      path.style.strokeWidth = Number.isNaN(part) ? 1 : 1 + (THICKEST - 1) * part;
      if (!number) continue;
      const gate = way.gate && Number.isFinite(total) && `× ${way.times} ${short(this.value(way.gate, t + way.by))} → `;
      number.replaceChildren(gate ? s("tspan", { class: "gate" }, gate) : "", Number.isNaN(total) ? "" : short(total * this.factor));
    }
    this.#light();
  }

  /** Highlights whatever belongs to the selected entry, and updates the caption. */
  follow() {
    const { reading } = this.selection;
    if (!this.picture) return;
    const { t, n, h: unit, i } = this.#seen(reading);
    const turned = n !== this.at.n || unit !== this.at.h || i !== this.at.i;
    this.at = { t, n, h: unit, i };
    if (turned) this.missing = null;
    if (t < this.first || t >= this.first + MOST) {
      this.first = Math.max(0, Math.min(this.steps - MOST, t - Math.floor(MOST / 2)));
      this.#draw();
    } else if (turned) this.#values();
    else this.#light();
    this.#tell(reading);
    this.#scroll();
  }

  /** The step, sequence and unit of an entry, or of the entries that belong to it. */
  #seen(reading) {
    const found = { ...this.at };
    if (!reading || reading.at < 0) return found;
    const { letters } = reading.array;
    const place = reading.array.index(reading.at);
    letters.forEach((letter, axis) => {
      if ("tnh".includes(letter)) found[letter] = place[axis];
    });
    if (letters.join("") === "tni") {
      const most = this.#array("x").shape[2] - this.step.inputs;
      if (place[2] < found.i || place[2] >= found.i + this.step.inputs) found.i = Math.min(place[2], most);
    }
    if (letters.includes("d")) found.t = 0;
    if (letters.includes("t") || letters.includes("d")) return found;
    const timed = [...reading.lit].filter(([name]) => this.#array(name)?.letters.join("") === "tnh");
    const own = timed.flatMap(([name, places]) => [...places.keys()].map((at) => this.#array(name).index(at)));
    if (own.length && !own.some(([, n, unit]) => n === found.n && unit === found.h)) [, found.n, found.h] = own[0];
    return found;
  }

  #light() {
    const { reading } = this.selection;
    const lit = reading?.lit ?? new Map();
    const selected = reading && `${reading.array.name} ${reading.at}`;
    let focusable = null;
    for (const nodes of this.columns.values())
      for (const node of nodes) {
        const [name, at] = this.#place(node);
        node.element.classList.toggle("taken", node.key === selected);
        node.element.classList.toggle("lit", Boolean(lit.get(name)?.has(at)));
        node.element.setAttribute("aria-pressed", String(this.#isPinned(name, at)));
        node.element.setAttribute("tabindex", -1);
        if (node.key === selected || (!focusable && node.t === this.at.t)) focusable = node;
      }
    focusable?.element.setAttribute("tabindex", 0);
    for (const track of this.tracks) track.element.classList.toggle("lit", this.#carries(track, reading));
    this.picture.classList.toggle("some", this.tracks.some(({ way, element }) => way && element.matches(".lit")));
    for (const [t, ground] of this.grounds) ground.classList.toggle("now", t === this.at.t);
  }

  #isPinned(name, at) {
    const { pinned } = this.selection;
    return pinned?.name === name && pinned.at === at;
  }

  /** Whether a product of the selected entry follows a line. */
  #carries(track, reading) {
    if (!reading?.products.length) return false;
    const has = ({ factors }, { array, at }) => factors.some((factor) => factor.array === array && factor.at === at);
    const gives = (product, { array, at }) => product.target === array && product.to === at;
    if (track.way) {
      const target = this.#entry(track.way.to, track.t);
      const { sources } = track.way;
      return reading.products.some(
        (each) => gives(each, target) && each.factors.some(({ array }) => sources.includes(array.name.replace(/0$/, ""))),
      );
    }
    const [source, target] = [track.source(), track.target()];
    const shown = (array) => this.drawn.has(array.name);
    return reading.products.some(
      (each) =>
        (source ? has(each, source) : gives(each, target)) &&
        (target ? gives(each, target) : !shown(each.target) && !this.model.isBackward(each.target.name)),
    );
  }

  /** Scrolls to the step if needed. Reading the box forces a layout, so this happens once per frame. */
  #scroll() {
    if (!this.overflows || this.scrolled === this.at.t) return;
    this.scrolled = this.at.t;
    requestAnimationFrame(() => {
      const { box, scale } = this;
      const [from, to] = [this.#x(this.at.t) * scale, this.#x(this.at.t + 1) * scale];
      if (from < box.scrollLeft) box.scrollLeft = from - 12;
      else if (to > box.scrollLeft + box.clientWidth) box.scrollLeft = to - box.clientWidth + 12;
    });
  }

  #focus(node) {
    if (node.element.matches(":focus-visible")) this.selection.hover(...this.#place(node));
  }

  #key(event) {
    const place = this.#focused();
    if (!place) return;
    const { node, t, j } = place;
    if (event.key === "Enter" || event.key === " ") this.selection.pin(...this.#place(node));
    else if (KEYS[event.key]) this.#move(node, t, j, ...KEYS[event.key]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #focused() {
    for (const [t, nodes] of this.columns) {
      const j = nodes.findIndex(({ element }) => element === document.activeElement);
      if (j >= 0) return { node: nodes[j], t, j };
    }
    return null;
  }

  /** The same array at another step, or the next cell of the step. */
  #move(node, t, j, across, down) {
    const same = ({ cell }) => cell.name === node.cell.name && cell.unit === node.cell.unit;
    this.moving = true; // other steps may have to be drawn, including the focused cell
    if (across) {
      const there = t + across >= -1 && this.#entry(node.cell.name, t + across, node.cell.unit);
      if (there) this.selection.hover(there.array.name, there.at);
    }
    const nodes = this.columns.get(t + across) ?? [];
    const next = across ? nodes.find(same) : nodes[Math.max(0, Math.min(nodes.length - 1, j + down))];
    next?.element.focus();
    this.moving = false;
  }

  svg() {
    return styled(this.picture);
  }
}
