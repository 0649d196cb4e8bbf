// The caption of a recurrent layer's diagram: what its lines mean, and how a gradient reached a step.

import { h, s } from "page/dom";
import { long, short } from "page/number_format";
import { line } from "page/diagram_shapes";

const WAYS = {
  state: "through the next state",
  output: "through the output",
  weights: "through w_hh and the next gates",
  loss: "from the loss",
};
const MOST = 6; // factors of a product that are written out

/** The legend of the paths; unit: the unit of the gradients, if they are small. */
export function legend({ ways, kept }, unit) {
  const kinds = [...new Set(ways.map(({ kind }) => kind))];
  const found = kinds.map((kind) => {
    const times = ways.filter((way) => way.kind === kind).map((way) => way.times).find(Boolean);
    const text = times && kind !== "weights" ? `${WAYS[kind]}: × ${times}` : WAYS[kind];
    return h("li", {}, sample(kind), text);
  });
  if (kept) found.push(h("li", {}, h("i", { class: "fade" }), "kept: the share that the gates of all later steps let through"));
  if (unit) found.push(h("li", {}, `gradients in ${unit}`));
  return found;
}

function sample(kind) {
  const points = [
    [31, 7],
    [4, 7],
  ];
  const { element } = line(points, `track back way ${kind}`, 5);
  return s("svg", { viewBox: "0 0 32 14", width: 32, height: 14, "aria-hidden": "true" }, element);
}

/** The caption: the paths to the selected gradient, and the share kept until the current step. */
export function caption(diagram, reading) {
  const { t } = diagram.at;
  const found = [];
  const ways = diagram.tracks.filter((track) => track.way && track.t === t && track.way.to === reading?.array.name);
  const value = reading?.array.value(reading.at);
  if (ways.length && value !== undefined) {
    const parts = ways.map((track) => `${long(Number(diagram.over(track).toPrecision(3)))} ${track.way.about}`);
    const name = h("code", { class: "role-gradient" }, reading.array.label(reading.at));
    found.push(h("p", {}, name, ` = ${long(value)}: `, parts.join("; "), "."));
  }
  found.push(h("p", {}, ...(diagram.data.kept ? keptShare(diagram, t) : [diagram.data.about])));
  return found;
}

function keptShare(diagram, t) {
  const { data, steps } = diagram;
  const [[state, gradient]] = data.states;
  const last = steps - 1;
  if (t >= last)
    return ["At the last step nothing is lost yet: here the path back through ", h("code", {}, state), " begins."];
  if (diagram.value(data.kept, t) === undefined) return ["…"];
  const [{ gate }] = data.ways.filter(({ kind }) => kind === "state");
  const later = Array.from({ length: last - t }, (_, j) => t + 1 + j);
  const factors = later.length > MOST ? [...later.slice(0, MOST - 2), null, last] : later;
  const joined = (write) => factors.map((each) => (each === null ? "…" : write(each))).join(" · ");
  const names = joined((each) => `${gate}[${each}]`);
  const numbers = later.length > 1 ? [joined((each) => short(diagram.value(gate, each))), " = "] : [];
  const product = h("output", { class: "kept-product" }, long(Number(diagram.value(data.kept, t).toPrecision(3))));
  const whose = h("code", { class: "role-gradient" }, gradient);
  return ["The ", whose, ` of step ${last} reaches step ${t} over ${names} = `, ...numbers, product, "."];
}
