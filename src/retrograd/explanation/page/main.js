// The page: opens the data, and connects the parts.

import { Announcer } from "page/announce";
import { Blocks } from "page/blocks";
import { Code } from "page/code";
import { forget } from "page/color";
import { Curves } from "page/curves";
import { Derivation } from "page/derivation";
import { breakable, h, withCode } from "page/dom";
import { EntryPanel } from "page/entry_panel";
import { copied, saved, svg } from "page/export";
import { Mutations } from "page/mutation_tab";
import { Layers } from "page/layers";
import { Legend } from "page/legend";
import { Lines } from "page/connectors";
import { applied, parsed, show, written } from "page/permalink";
import { Matrices } from "page/matrices";
import { Model } from "page/document_model";
import { ModelView } from "page/model_page";
import { zoom } from "page/grid";
import { count, long, small } from "page/number_format";
import { sentence } from "page/related_entries";
import { RemoteModel } from "page/remote_layer";
import { Rules } from "page/gradient_editor";
import { Selection } from "page/selection";
import { Settings } from "page/settings";
import { EmbeddedDocuments, ServedDocuments, opened, settingsOf } from "page/data_source";
import { Stage } from "page/entries_tab";
import { Stories } from "page/story";
import { Tabs } from "page/tabs";
import { Theme } from "page/theme";
import { Time } from "page/through_time";

/** Whether the server computes a part of a document on request. */
const promised = (document, part) => Boolean(document.later?.includes(part));
const HINT = matchMedia("(pointer: coarse)").matches
  ? " Tap any number."
  : " Point at any number; click to pin it.";
const ZOOMS = [0.3, 0.45, 0.65, 1, 1.3, 1.7, 2.2];
const $ = (id) => document.getElementById(id);

class Page {
  constructor({ served, documents, model }, others) {
    this.source = model ? new Layers(model, served) : served ? new ServedDocuments(served, documents) : new EmbeddedDocuments(documents, others);
    this.selection = new Selection();
    const answers = Boolean(served) && !model; // the gradients of a model's layers are those of the run
    this.views = [
      {
        id: "time",
        title: "Through time",
        has: (d) => Boolean(d.diagram),
        view: new Time(this.selection),
      },
      { id: "entries", title: "Entry by entry", has: (d) => !d.ask, view: new Stage(this.selection) },
      { id: "blocks", title: "Entry by entry", has: (d) => d.ask, view: new Blocks(this.selection, "main") },
      {
        id: "between",
        title: "Intermediate",
        has: (d) => d.ask && Object.values(d.arrays).some(({ view }) => view === "time"),
        view: new Blocks(this.selection, "time"),
      },
      {
        id: "matrices",
        title: "As matrices",
        has: (d) => !d.ask && Object.values(d.arrays).some(({ view }) => view === "matrices"),
        view: new Matrices(this.selection),
      },
      {
        id: "curves",
        title: "Curves",
        has: (d) => Boolean(d.curves),
        view: new Curves(this.selection, answers ? (text, say) => this.#retype(text, say) : null),
      },
      {
        id: "derivation",
        title: "Derivation",
        has: (d) => Boolean(d.derivation),
        view: new Derivation(),
      },
      {
        id: "rules",
        title: "Type it",
        has: (d) => Boolean(d.rules) && (answers || d.settings.length > 0),
        view: new Rules(this.selection, answers ? (text, say) => this.#retype(text, say) : null),
      },
      {
        id: "code",
        title: "The code that ran",
        has: (d) => Boolean(d.traces) || promised(d, "traces"),
        needs: "traces",
        view: new Code(),
      },
      {
        id: "faults",
        title: "Break it",
        has: (d) => Boolean(d.faults?.length) || promised(d, "faults"),
        needs: "faults",
        view: new Mutations(),
      },
    ];
    this.panel = new EntryPanel($("entry"), this.selection, null);
    this.legend = new Legend($("legend"));
    this.tabs = new Tabs($("tabs"), $("view"), this.views, () => this.#showView());
    this.settings = new Settings($("settings"), {
      has: (values) => this.source.has(this.document.operator, values),
      choose: (values) => this.go(this.document.operator, { ...settingsOf(this.document), ...values }),
      holds: () => this.source.holds,
    });
    this.stories = new Stories($("story"), { show: (step) => this.#tell(step) });
    this.lines = new Lines($("view"), []);
    new Announcer($("announce"), this.selection);
    new Theme($("theme"), () => this.#repaint());
    this.selection.listen((what) => this.#selected(what));
    if (model) this.network = new ModelView(this, model);
    this.#listen();
  }

  get view() {
    return this.views.find(({ id }) => id === this.tabs.current).view;
  }

  /** Starts with the state given in the link. */
  async start() {
    const { operator, settings, tab, entry, story } = parsed(location.hash);
    await this.go(this.source.operators.includes(operator) ? operator : this.source.first, null);
    if (!this.document) return;
    const requested = applied(this.document, settings);
    if (JSON.stringify(requested) !== JSON.stringify(settingsOf(this.document)))
      await this.go(this.document.operator, requested);
    if (story && this.stories.has(story)) this.stories.read(story.number, story.step);
    if (tab) this.tabs.choose(tab);
    const array = entry && this.model.arrays.get(entry.name);
    if (array && entry.at < array.size) this.selection.pin(entry.name, entry.at);
    document.documentElement.dataset.ready = "";
  }

  /** Shows an operator with these settings; on an error the page does not change. */
  async go(operator, settings, say = (text) => this.settings.message(text)) {
    let found;
    try {
      found = await this.source.get(operator, settings);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (this.document) say(error.message);
      else $("lead").textContent = error.message;
      return;
    }
    this.#open(found, !settings);
  }

  /** The same function with a typed gradient in place of its own; an empty one restores its own. */
  #retype(typed, say) {
    const { typed: _, ...settings } = settingsOf(this.document);
    return this.go(this.document.operator, typed ? { ...settings, typed } : settings, say);
  }

  #open(found, fresh) {
    this.document = found;
    if (fresh || this.defaults?.operator !== found.operator)
      this.defaults = { operator: found.operator, values: settingsOf(found) };
    this.model = found.ask ? new RemoteModel(found, this.selection) : new Model(found);
    this.network?.open(found);
    const title = this.network ? `${this.network.title(found)} · ${this.network.name}` : found.operator;
    document.title = `${title} · see the gradient`;
    $("operator").replaceChildren(...(this.network?.heading(found) ?? this.#operatorChoice(found.operator)));
    $("call").textContent = found.call;
    this.#badge(found.agreement ?? {});
    this.settings.open(found);
    this.panel.open(found);
    this.tabs.open(found);
    $("copy-python").hidden = !found.python;
    $("copy-gradcheck").hidden = !found.gradcheck;
    this.opened = new Set();
    // the views are built before the selection, which refers to their arrays, notifies them
    this.quiet = true;
    this.selection.open(this.model);
    this.quiet = false;
    this.#showView();
    this.legend.open(this.model);
    this.stories.open(this.model);
  }

  /** Shows a step of a story: its part of the page, with its entry selected. */
  #tell(step) {
    if (step && step.view !== this.tabs.current) this.tabs.choose(step.view);
    this.selection.showStep(step && { ...step.entry, into: step.into, product: step.product });
    this.layout();
  }

  #operatorChoice(operator) {
    if (this.source.operators.length < 2) return breakable(operator);
    const choice = h(
      "select",
      { "aria-label": "operator", onchange: () => this.go(choice.value, null) },
      ...this.source.operators.map((name) => h("option", { value: name, selected: name === operator }, name)),
    );
    // a list is as wide as its longest name; this one is as wide as the chosen name
    const context = h("canvas").getContext("2d");
    context.font = getComputedStyle($("operator")).font;
    choice.style.width = `${Math.ceil(context.measureText(operator).width) + 34}px`;
    return [choice];
  }

  #badge(agreement) {
    const all = Object.entries(agreement);
    $("badge").hidden = !all.length;
    const worst = Math.max(0, ...all.map(([, ulp]) => ulp));
    const text = worst === 0 ? "textbook = compiled, bit for bit" : `textbook ≈ compiled, ${small(worst)} ulp apart`;
    $("badge").textContent = `${worst < 64 ? "✓" : "✗"} ${text}`;
    $("badge").classList.toggle("wrong", !(worst < 64));
    const each = all.map(([name, ulp]) => `${name} ${small(ulp)}`).join(", ");
    $("badge").title =
      "The textbook kernels, in plain NumPy, and the compiled ones both computed this input. " +
      `The differences, in units of the last place of the largest entry: ${each}`;
  }

  async #showView() {
    const { needs, view } = this.views.find(({ id }) => id === this.tabs.current);
    const { document } = this;
    if (needs && !document[needs]) {
      $("view").replaceChildren(h("p", { class: "say" }, "Running it …"));
      try {
        await this.source.complete(document, needs);
      } catch (error) {
        $("view").replaceChildren(h("p", { class: "say" }, withCode(error.message)));
        return;
      }
      if (this.document !== document || this.view !== view) return;
    }
    view.changed = () => this.layout();
    view.moved = () => this.lines.draw(this.selection);
    if (!this.opened.has(view)) view.open(this.model);
    this.opened.add(view);
    $("view").replaceChildren(view.element, this.lines.element);
    this.layout();
    this.#address();
  }

  layout() {
    if (!this.opened.has(this.view)) return;
    const frame = $("view").clientWidth;
    const { top } = $("view").getBoundingClientRect();
    this.#fitPanel(top); // before anything is drawn: reading positions afterwards would force another layout
    this.view.layout(frame, Math.max(420, innerHeight - top - scrollY - 24));
    this.lines.grids = this.view.grids;
    $("save-svg").hidden = !this.view.grids.length && !this.view.picture;
    $("smaller").hidden = $("larger").hidden = !this.view.grids.length;
    $("smaller").disabled = zoom.factor <= ZOOMS[0];
    $("larger").disabled = zoom.factor >= ZOOMS.at(-1);
    this.#selected("entry");
  }

  #selected(what) {
    if (this.quiet || !this.model) return;
    if (this.opened.has(this.view)) {
      for (const grid of this.view.grids) if (grid.selection) grid.follow(what);
      this.lines.draw(this.selection);
      if (what === "entry") this.view.follow?.();
    }
    if (what !== "entry") return;
    this.#lead();
    if (!this.selection.hovered) this.#address();
  }

  #lead() {
    const { reading } = this.selection;
    const text = reading ? sentence(reading, { long, count }) : "Every number here can be broken down into its products";
    const name = reading ? reading.array.label(reading.at) : "";
    const lead = reading
      ? [h("code", { class: `role-${reading.array.role}` }, name), text.slice(name.length), "."]
      : [text, "."];
    $("lead").replaceChildren(...lead, h("span", { class: "hint" }, HINT));
  }

  get hash() {
    const tab = ["entries", "blocks"].includes(this.tabs.current) ? null : this.tabs.current;
    return written({
      word: this.source.word,
      operator: this.document.operator,
      settings: settingsOf(this.document),
      defaults: this.defaults.values,
      tab,
      entry: this.selection.pinned,
      story: this.stories.place,
    });
  }

  #address() {
    if (document.documentElement.dataset.ready !== undefined) show(this.hash);
  }

  #repaint() {
    if (this.model) this.layout();
    this.legend.draw();
  }

  /** Makes all cells larger or smaller. */
  #zoom(by) {
    const next = ZOOMS.indexOf(zoom.factor) + by;
    if (!(next in ZOOMS)) return;
    zoom.factor = ZOOMS[next];
    this.layout();
  }

  #listen() {
    let width = innerWidth;
    $("smaller").addEventListener("click", () => this.#zoom(-1));
    $("larger").addEventListener("click", () => this.#zoom(1));
    new ResizeObserver(() => {
      if (this.model && Math.abs($("view").clientWidth - width) > 1) {
        width = $("view").clientWidth;
        this.layout();
      }
    }).observe($("view"));
    addEventListener("scroll", () => this.#fitPanel(), { passive: true });
    addEventListener("resize", () => this.#fitPanel());
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.selection.release();
      if (event.key === " " && (event.target === document.body || event.target.classList.contains("paper"))) {
        event.preventDefault();
        this.panel.toggle();
      }
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", forget);
    addEventListener("hashchange", () => {
      if (parsed(location.hash).operator) this.start();
    });
    const say = (button, words, works) => {
      const before = button.textContent;
      button.textContent = works ? words : "the browser did not allow it";
      setTimeout(() => (button.textContent = before), 1500);
    };
    for (const [id, text] of [
      ["copy-python", () => this.document.python],
      ["copy-gradcheck", () => this.document.gradcheck],
      ["copy-link", () => location.href.split("#")[0] + this.hash],
    ]) {
      $(id).addEventListener("click", async () => say($(id), "copied", await copied(text())));
    }
    // not a link: inside another document its address would be relative to that document
    $("skip").addEventListener("click", () => $("view").focus());
    $("save-svg").addEventListener("click", () => saved(`${this.document.operator}.svg`, this.svg(), "image/svg+xml"));
  }

  /** The panel extends exactly to the bottom of the window, since its last lines are the check. */
  #fitPanel(top = $("view").getBoundingClientRect().top) {
    $("entry").style.maxHeight = matchMedia("(max-width: 760px)").matches
      ? ""
      : `${Math.max(340, innerHeight - Math.max(16, top) - 16)}px`;
  }

  svg() {
    const { reading } = this.selection;
    if (this.view.picture) return this.view.svg();
    return svg({
      stage: $("view"),
      grids: this.view.grids,
      lines: this.lines,
      selection: this.selection,
      title: this.document.call,
      sentence: reading ? sentence(reading, { long, count }) : "",
    });
  }
}

const page = new Page(await opened($("source")), JSON.parse($("others").textContent));
await page.start();

/** The interface for tests and consoles: take() has the effect of pointing at an entry. */
window.retrograd = {
  page,
  take(name, at) {
    page.selection.hover(name, at);
    const { reading } = page.selection;
    const listed = reading.products.map((each) => ({
      value: each.value,
      scale: each.scale,
      factors: each.factors.map((factor) => [factor.array.name, factor.at, factor.value]),
      to: each.to,
      target: each.target.name,
    }));
    return {
      shown: reading.shown,
      value: reading.array.value(at),
      products: listed,
      total: reading.sum?.total ?? null,
      numerical: reading.sum?.numerical ?? null,
      agrees: reading.sum?.agrees ?? null,
      confirmed: reading.sum?.confirmed ?? null,
    };
  },
};
