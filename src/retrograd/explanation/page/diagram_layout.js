// Layout of one step of a recurrent layer's diagram: the coordinates of its cells and lines.
//
// The first state is above the gates, with its gradient on top. A second state, if any, is below them, with its
// gradient beneath. Values leave a state to the right, and gradients arrive from there.

const [GATE, STATE, HEIGHT] = [31, 38, 22]; // the widths of cells, and their height
const [RESULT, LANE, FRAME] = [24, 87, 172]; // the start of the result, the first state and the gates
const MOST = 4; // input numbers shown

export class Step {
  /** diagram: of the document; inputs: the number of input values per step */
  constructor({ states, gates, joins, ways, between }, inputs) {
    Object.assign(this, { states, gates, joins, ways, between, inputs: Math.min(inputs, MOST) });
    const two = states.length > 1;
    this.gap = gates.some(([name]) => joins.some(({ into }) => into === name)) ? 10 : 3;
    this.inset = two ? 5 : 14; // of the gates in their frame, to make space for the previous state from above
    const span = Math.max(row(gates.length, this.gap), row(this.inputs), row(2));
    this.frame = { x: 4, y: FRAME, width: span + this.inset + 5, height: 2 * HEIGHT + 30 };
    const right = this.frame.x + this.frame.width;
    this.low = FRAME + this.frame.height;
    this.state = { left: right - 5, middle: right - 5 + STATE / 2, right: right - 5 + STATE };
    [this.out, this.down, this.up] = [right + 39, right + 53, right + 59]; // lines next to the states
    this.width = right + 64;
    this.lanes = [{ back: LANE, value: LANE + HEIGHT + 2 }];
    if (two) this.lanes.push({ value: this.low + 24, back: this.low + 26 + HEIGHT });
    this.input = this.low + (two ? 98 : 30);
    this.height = this.input + 2 * HEIGHT + 6;
  }

  /** The vertical center of a state's or gradient's row. */
  level(name) {
    const j = this.states.findIndex((pair) => pair.includes(name));
    return this.lanes[j][this.states[j][0] === name ? "value" : "back"] + HEIGHT / 2;
  }

  #gate(name) {
    const j = this.gates.findIndex((pair) => pair.includes(name));
    const space = this.frame.width - this.inset - 5 - row(this.gates.length, this.gap);
    const left = this.frame.x + this.inset + space / 2 + j * (GATE + this.gap);
    return { left, middle: left + GATE / 2, right: left + GATE, y: FRAME + 15 };
  }

  #input(unit) {
    const space = this.frame.width - this.inset - 5 - row(this.inputs);
    const left = this.frame.x + this.inset + space / 2 + unit * (GATE + 3);
    return { left, middle: left + GATE / 2, right: left + GATE };
  }

  /** The cells from top to bottom: {name, unit, x, y, width, height, label: {x, y, anchor}}. */
  get cells() {
    const found = [];
    const add = (name, x, y, width, label, unit) =>
      found.push({ name, unit, x, y, width, height: HEIGHT, label: label && { text: name, ...label } });
    const leftOf = (y) => ({ x: this.state.left - 5, y, anchor: "end" });
    const pair = ([name, gradient], value, back) => {
      const both = [
        [name, value],
        [gradient, back],
      ].sort(([, a], [, b]) => a - b);
      for (const [each, y] of both) add(each, this.state.left, y, STATE, leftOf(y + 5));
    };
    for (const [name, y] of [
      ["y", RESULT],
      ["gy", RESULT + HEIGHT],
    ])
      add(name, this.state.left, y, STATE, leftOf(y + HEIGHT / 2));
    pair(this.states[0], this.lanes[0].value, this.lanes[0].back);
    for (const [name, gradient] of this.gates) {
      const { left, middle, y } = this.#gate(name);
      add(name, left, y, GATE, { x: middle, y: y - 7, anchor: "middle" });
      add(gradient, left, y + HEIGHT, GATE, { x: middle, y: y + 2 * HEIGHT + 7, anchor: "middle" });
    }
    if (this.states[1]) pair(this.states[1], this.lanes[1].value, this.lanes[1].back);
    for (const [name, y] of [
      ["x", this.input],
      ["gx", this.input + HEIGHT],
    ])
      for (let unit = 0; unit < this.inputs; unit++) {
        const { left, right } = this.#input(unit);
        const label = unit === this.inputs - 1 && { x: right + 5, y: y + HEIGHT / 2, anchor: "start" };
        add(name, left, y, GATE, label, unit);
      }
    return found;
  }

  /** The products and sums along the lines: {x, y, text, title}. */
  get signs() {
    return this.joins.flatMap((join) => {
      const title = `${join.into}: ${join.text}`;
      const x = this.#across(join);
      if (this.#gateBelow(join.into)) return [];
      if (join.into !== this.states[0][0])
        return [{ x: this.state.middle, y: this.#gate(join.gates[0]).y + HEIGHT / 2, text: join.sign, title }];
      const y = this.hands(join.into) ? this.level(join.into) : FRAME - 22;
      const found = [{ x, y, text: join.sign, title }];
      if (join.gates.length > 1) found.push({ x, y: FRAME - 13, text: "×", title });
      return found;
    });
  }

  #gateBelow(name) {
    return this.gates.some(([gate]) => gate === name);
  }

  #across({ gates }) {
    return gates.reduce((sum, name) => sum + this.#gate(name).middle, 0) / gates.length - 5;
  }

  /** Whether a state is passed directly to the next step, and not only through the weights. */
  hands(state) {
    const [, gradient] = this.states.find(([name]) => name === state);
    return this.ways.some(({ kind, to }) => kind === "state" && to === gradient);
  }

  /** The lines inside a step: {from, to, unit, points, back}; no name means all gates. */
  get lines() {
    const last = this.states.at(-1);
    const { state, up } = this;
    const found = this.joins.flatMap((join) => [...this.#forward(join), ...this.#backward(join)]);
    const second = this.states[1]?.[0];
    if (second)
      found.push({
        from: this.between,
        to: second,
        points: [
          [state.middle, this.lanes[0].value + HEIGHT + 1],
          [state.middle, this.lanes[1].value - 1],
        ],
      });
    const [from, y] = [this.level(last[0]), RESULT + HEIGHT / 2];
    found.push({ from: last[0], to: "y", points: [[state.right, from], [up, from], [up, y], [state.right + 1, y]] });
    for (let unit = 0; unit < this.inputs; unit++) {
      const { middle } = this.#input(unit);
      found.push({ from: "x", unit, points: [[middle - 5, this.input - 1], [middle - 5, this.low + 1]] });
      found.push({ to: "gx", unit, back: true, points: [[middle + 5, this.low], [middle + 5, this.input - 2]] });
    }
    return found;
  }

  #forward(join) {
    const { state } = this;
    return join.gates.map((name) => {
      const gate = this.#gate(name);
      const y = gate.y + HEIGHT / 2;
      let points;
      if (this.#gateBelow(join.into)) points = [[gate.right + 1, y], [this.#gate(join.into).left - 1, y]];
      else if (join.into !== this.states[0][0]) points = [[gate.right, y], [state.middle, y]];
      else {
        const [x, level] = [this.#across(join), this.level(join.into)];
        const end = this.hands(join.into) ? [[x, level]] : [[x, level], [state.left - 1, level]];
        const bracket = join.gates.length > 1 ? [[gate.middle - 5, FRAME - 13], [x, FRAME - 13]] : [];
        points = [[gate.middle - 5, FRAME], ...bracket, ...end];
      }
      return { from: name, to: join.into, points };
    });
  }

  /** The lines from a state's gradient to those of its gates. */
  #backward(join) {
    return join.gates.map((name) => {
      const gate = this.#gate(name);
      const [, to] = this.gates.find((pair) => pair[0] === name);
      const x = gate.middle + 5;
      if (this.#gateBelow(join.into)) {
        const y = gate.y + 1.5 * HEIGHT;
        const [, from] = this.gates.find((pair) => pair[0] === join.into);
        return { from, to, back: true, points: [[this.#gate(join.into).left - 1, y], [gate.right + 1, y]] };
      }
      const [, from] = this.states.find(([state]) => state === join.into);
      const [level, above] = [this.level(from), join.into === this.states[0][0]];
      return { from, to, back: true, points: [[this.state.left, level], [x, level], [x, above ? FRAME - 1 : this.low + 1]] };
    });
  }

  /** The lines to the next step, one step width to the right: {from, to, points}. */
  get onward() {
    const { state, width } = this;
    const found = [];
    for (const [name] of this.states)
      if (this.hands(name)) {
        const level = this.level(name);
        found.push({ from: name, to: name, points: [[state.right, level], [width + state.left - 1, level]] });
      }
    const last = this.states.at(-1)[0];
    const level = this.level(last);
    const [x, end] = this.states.length > 1 ? [width + 9, this.low + 1] : [width + 10, FRAME - 1];
    found.push({ from: last, points: [[state.right, level], [x, level], [x, end]] });
    return found;
  }

  /** A gradient path to a state of this step: its line, and the places of its number and its factor. */
  way({ to, kind, by }) {
    const { state, width } = this;
    const level = this.level(to);
    const end = state.right + 2;
    const two = this.states.length > 1;
    if (kind === "state") {
      const label = { x: width + state.left / 2, y: level - 20, anchor: "middle" };
      return { points: [[width + state.left, level], [end, level]], label };
    }
    if (kind === "weights") {
      const [x, from] = two ? [width + 15, this.low] : [width + 17, FRAME];
      const label = two
        ? { x: width - 2, y: level + 19, anchor: "middle" }
        : { x: width - 2, y: FRAME - 20, anchor: "end" };
      return { points: [[x, from], [x, level + 7], [end, level + 7]], label };
    }
    if (by === 0 && two && to === this.states[0][1]) {
      const from = this.level(this.states[1][1]) - 6;
      const label = { x: this.out - 6, y: this.low - 12, anchor: "end" };
      const along = { x: this.out + 7, y: (from + level) / 2 };
      return { points: [[state.right, from], [this.out, from], [this.out, level + 7], [end, level + 7]], label, along };
    }
    const [from, arrival] = [RESULT + 1.5 * HEIGHT, two ? level : level - 7];
    return { points: [[state.right, from], [this.down, from], [this.down, arrival], [end, arrival]], label: null };
  }

  /** The place of the kept share next to a state's gradient. */
  get share() {
    return { x: this.state.middle, y: LANE - 9, anchor: "middle" };
  }
}

/** The width of this many cells. */
function row(count, gap = 3) {
  return count * GATE + (count - 1) * gap;
}
