// The panel that shows one entry: its products, their sum, the value in the array, the numerical gradient.

import { h } from "page/dom";
import { count, long, small } from "page/number_format";
import { colors } from "page/color";
import { ROLES } from "page/grid";
import { termNoun } from "page/related_entries";

const [MOST, MOST_IN_PASSING] = [300, 12]; // rows that are written out: in a scrollable list, and in any other

export class EntryPanel {
  constructor(element, selection, document) {
    Object.assign(this, { element, selection, document });
    this.order = "in order";
    this.all = false;
    this.playing = null;
    selection.listen((what) => (what === "entry" ? this.draw() : this.#mark()));
  }

  /** Shows another document. */
  open(document) {
    this.document = document;
    if (document.ask) this.order = "largest first"; // the products of a large layer are not all listed
  }

  draw() {
    this.stop();
    const { reading } = this.selection;
    if (!reading) {
      this.element.replaceChildren(
        h("p", { class: "empty" }, "Point at a number, tap it, or walk to it with Tab and the arrow keys."),
      );
      return;
    }
    const { array, at, sum } = reading;
    const parts = [this.#head(array, at, sum)];
    if (sum && reading.uses.length) parts.push(this.#choice(reading));
    if (reading.shown === "sum") parts.push(...this.#sum(reading));
    else parts.push(...this.#uses(reading));
    this.element.replaceChildren(this.#handle(), ...parts);
    this.rows = new Map(
      [...this.element.querySelectorAll("[data-product]")].map((row) => [Number(row.dataset.product), row]),
    );
    this.#mark();
  }

  /** On a phone the panel is a sheet at the bottom, which opens and closes. */
  #handle() {
    const turn = () => handle.setAttribute("aria-expanded", String(this.element.classList.toggle("open")));
    const open = String(this.element.classList.contains("open"));
    const handle = h("button", { class: "handle", "aria-expanded": open, "aria-label": "all products", onclick: turn });
    return handle;
  }

  #head(array, at, sum) {
    const chip = h("span", { class: `chip role-${array.role}` }, ROLES[array.role] ?? array.role);
    const pinned =
      this.selection.pinned && !this.selection.hovered
        ? h("button", { class: "plain", onclick: () => this.selection.release(), title: "Release (Esc)" }, "pinned ×")
        : null;
    const value = at < 0 ? "0" : array.value(at) === undefined ? "…" : long(array.value(at));
    return h(
      "header",
      {},
      h(
        "div",
        { class: "kind" },
        chip,
        h("span", {}, at < 0 ? "a zero outside the array: padding" : array.about),
        pinned,
      ),
      h("h2", {}, h("code", {}, array.label(at)), h("span", { class: "equals" }, "="), h("strong", {}, value)),
      sum && this.selection.model.formulas[array.name]
        ? h("code", { class: "formula" }, this.selection.model.formulas[array.name])
        : null,
    );
  }

  #choice(reading) {
    const option = (wish, text) =>
      h("button", { "aria-pressed": String(reading.shown === wish), onclick: () => this.selection.prefer(wish) }, text);
    return h("div", { class: "choice" }, option("sum", "what it is made of"), option("uses", "what it goes into"));
  }

  #sum(reading) {
    const { products, sum } = reading;
    if (sum.pending) return [h("p", { class: "why" }, sum.pending)];
    const why = reason(reading, this.selection.model);
    return [
      why ? h("p", { class: "why reason" }, why) : null,
      products.length > 1 ? this.#controls(products) : null,
      this.#list(products, (each) => product(each, reading.array), 0, sum.rest),
      this.#checks(sum, products),
    ].filter(Boolean);
  }

  #uses({ array, at, uses }) {
    if (!uses.length) {
      const copy =
        array.copies &&
        `a copy of ${this.selection.model.arrays.get(array.copies.array).label(array.copies.index[at])}`;
      const nothing = this.selection.model.nothing ?? "No product on this page has it as a factor.";
      return [h("p", { class: "why" }, copy ?? nothing)];
    }
    const into = uses.map(({ target, products }) =>
      h(
        "li",
        {},
        h("b", { class: `role-${target.role}` }, target.name),
        ` ${count(new Set(products.map(({ to }) => to)).size, "entry")}`,
      ),
    );
    let number = 0;
    const lists = uses.flatMap(({ target, products }) => {
      const first = number;
      number += products.length;
      return [
        h("h3", {}, "into ", h("b", { class: `role-${target.role}` }, target.name)),
        this.#list(products, (each) => use(each, array, at), first),
      ];
    });
    return [h("p", { class: "why" }, "It is a factor of "), h("ul", { class: "into" }, ...into), ...lists];
  }

  #controls(products) {
    const play = h(
      "button",
      { class: "play", onclick: () => this.#play(), title: "Add the products one after the other (Space)" },
      "▶ add up",
    );
    this.playButton = play;
    const next = this.order === "in order" ? "largest first" : "in order";
    const sort =
      products.length > 2 && h("button", { class: "plain", onclick: () => this.#sort(next) }, `${this.order} ⇅`);
    this.running = h("span", { class: "running", "aria-hidden": "true" });
    return h(
      "div",
      { class: "controls" },
      h("span", {}, count(this.selection.reading.sum?.count ?? products.length, termNoun(products))),
      play,
      this.running,
      sort,
    );
  }

  #sort(order) {
    this.order = order;
    this.draw();
  }

  /** others: {count, total} of products that are not listed */
  #list(products, write, first = 0, others = null) {
    let rows = products.map((each, j) => [each, first + j]);
    if (this.order !== "in order") rows.sort(([a], [b]) => Math.abs(b.value) - Math.abs(a.value));
    const most = this.selection.hovered ? MOST_IN_PASSING : MOST;
    const rest = this.all ? [] : rows.slice(most);
    if (!this.all) rows = rows.slice(0, most);
    const largest = Math.max(...rows.map(([each]) => Math.abs(each.value)), 0);
    const items = rows.map(([each, number]) => {
      const item = h(
        "li",
        {
          "data-product": number,
          class: each.factors.some(({ at }) => at < 0) ? "padding" : null,
          onpointerenter: () => this.selection.look(number),
          onpointerleave: () => this.playing ?? this.selection.look(null),
        },
        ...write(each),
      );
      const bar = h("i", { class: "bar" });
      bar.style.width = `${largest ? (100 * Math.abs(each.value)) / largest : 0}%`;
      bar.style.background = colors(Math.sign(each.value), 1).fill;
      item.append(bar);
      return item;
    });
    if (rest.length) items.push(this.#rest(rest));
    if (others?.count)
      items.push(
        h("li", { class: "rest" }, `the other ${others.count.toLocaleString("en")} add up to ${long(others.total)}`),
      );
    return h(
      "ol",
      {
        class: rows.length > 4 ? "products many" : "products",
        tabindex: 0,
        "aria-label": "products",
        onkeydown: (event) => this.#walk(event),
      },
      ...items,
    );
  }

  #rest(rest) {
    const total = rest.reduce((sum, [each]) => sum + each.value, 0);
    const show = () => {
      this.all = true;
      this.draw();
    };
    return h(
      "li",
      { class: "rest" },
      h("button", { class: "plain", onclick: show }, `and ${count(rest.length, "other")}, whose sum is ${long(total)}`),
    );
  }

  #checks(sum, products) {
    const row = (name, value, mark, note) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, name),
        h("td", {}, value),
        h("td", { class: "mark" }, mark, note ? h("small", {}, note) : null),
      );
    const rows = [
      row(products.length && termNoun(products) === "entry" ? "sum of the entries" : "sum of the products", long(sum.total), null, ""),
      row(
        `${sum.array.name} of the run`,
        long(sum.value),
        tick(sum.agrees),
        sum.agrees ? "" : small(Math.abs(sum.value - sum.total)),
      ),
    ];
    if (sum.numerical !== null) {
      const difference = Math.abs(sum.value - sum.numerical);
      const mark =
        this.document.exact || sum.confirmed
          ? tick(sum.confirmed)
          : h(
              "span",
              { class: "declared", title: "the backward is declared, and differs from the derivative on purpose" },
              "≠ declared",
            );
      rows.push(row("numerical gradient", long(sum.numerical), mark, `Δ ${small(difference)}`));
    } else if (sum.awaited) rows.push(row("numerical gradient", "…", null, ""));
    return h("table", { class: "checks", hidden: !products }, h("tbody", {}, ...rows));
  }

  /** The selected product. */
  #mark() {
    const { active } = this.selection;
    this.element.querySelector("li.active")?.classList.remove("active");
    const row = active === null ? null : this.rows?.get(active);
    if (!row) return;
    row.classList.add("active");
    const list = row.parentElement;
    if (row.offsetTop < list.scrollTop || row.offsetTop + row.offsetHeight > list.scrollTop + list.clientHeight) {
      list.scrollTop = row.offsetTop - list.clientHeight / 2;
    }
  }

  #walk(event) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const numbers = [...event.currentTarget.querySelectorAll("[data-product]")].map((row) =>
      Number(row.dataset.product),
    );
    const place = numbers.indexOf(this.selection.active);
    this.selection.look(numbers[Math.max(0, Math.min(numbers.length - 1, place + by))]);
  }

  /** Adds the products one by one, or stops. */
  toggle() {
    if (this.playing) this.stop();
    else if (this.selection.reading?.shown === "sum") this.#play();
  }

  #play() {
    if (this.playing) return this.stop();
    const { products } = this.selection.reading;
    if (products.length < 2) return;
    this.playButton.textContent = "■ stop";
    const order = products.map((_, j) => j);
    if (this.order !== "in order") order.sort((a, b) => Math.abs(products[b].value) - Math.abs(products[a].value));
    let number = 0;
    let total = 0;
    const step = () => {
      if (number >= products.length) return this.stop();
      this.selection.look(order[number]);
      total += products[order[number]].value;
      this.running.textContent = `so far ${long(total)}`;
      number += 1;
      this.playing = setTimeout(step, Math.max(120, Math.min(700, 9000 / products.length)));
    };
    step();
  }

  stop() {
    if (!this.playing) return;
    clearTimeout(this.playing);
    this.playing = null;
    if (this.playButton) this.playButton.textContent = "▶ add up";
    this.selection.look(null);
  }
}

const tick = (right) =>
  right
    ? h("span", { class: "tick", role: "img", "aria-label": "agrees" }, "✓")
    : h("span", { class: "cross", role: "img", "aria-label": "differs" }, "✗");

const term = ({ array, at, value }) => [
  h("code", { class: `name role-${array.role}` }, at < 0 ? `${array.name} padding` : array.label(at)),
  h("b", {}, long(value)),
];

function product(each) {
  const terms = each.factors.flatMap((factor, j) => [
    j ? h("span", { class: "times" }, "×") : null,
    h("span", { class: "term" }, ...term(factor)),
  ]);
  const scale =
    each.scale === 1
      ? null
      : h("span", { class: "term" }, h("span", { class: "times" }, "×"), h("b", {}, long(each.scale)));
  return [h("span", { class: "terms" }, ...terms, scale), h("span", { class: "value" }, long(each.value))];
}

function use(each, array, at) {
  const others = each.factors.filter((factor) => factor.array !== array || factor.at !== at);
  const times = others.flatMap((factor, j) => [
    h("span", { class: "times" }, j ? "×" : "← ×"), // the product is added to the target, not multiplied by it
    h("span", { class: "term" }, ...term(factor)),
  ]);
  return [
    h(
      "span",
      { class: "terms" },
      h("code", { class: `name role-${each.target.role}` }, each.target.label(each.to)),
      ...times,
    ),
    h("span", { class: "value" }, long(each.value)),
  ];
}

/** Why the gradient is this sum, if the forward pass multiplied each input by one other entry. */
function reason({ array, at, products, sum }, model) {
  const factors = products[0]?.factors ?? [];
  const upstream = factors.find((factor) => factor.array.role === "upstream")?.array.name;
  const others = factors.filter((factor) => factor.array.role !== "upstream").map((factor) => factor.array.name);
  if (array.role !== "gradient" || !upstream || others.length > 1) return null;
  const [input, y] = [array.name, upstream].map((name) => name.slice(1));
  if (!model.multiplies(y, input, ...others)) return null;
  const entry = array.label(at).slice(1);
  const uses = sum.count ?? products.length;
  if (!others.length) {
    if (uses === 1) return `${entry} was passed on to one entry of ${y}, so the loss grows equally with both.`;
    const many = count(uses, "entry");
    return `${entry} was added to ${many} of ${y}, and ${upstream} says how much the loss grows with each of them.`;
  }
  const times = uses === 1 ? "once" : uses === 2 ? "twice" : `${uses.toLocaleString("en")} times`;
  const [other] = others;
  return (
    `The run used ${entry} ${times}: multiplied by an entry of ${other}, it was added to an entry of ${y}. ` +
    `There ${upstream} says how much the loss grows with ${y}, so each use adds ${upstream} · ${other}.`
  );
}
