// Colors of values and roles, from CSS variables.

const STEPS = 128;
const PALE = 0.45; // the share of its color that a pale cell keeps
const READABLE = 4.6; // contrast of text: level AA of WCAG is 4.5, and colors are rounded
let now = null;

/** The colors of the current theme. */
export function palette() {
  now ??= make();
  return now;
}

/** Resets the colors after a change of theme. */
export function forget() {
  now = null;
}

function make() {
  // a variable has the colors of both themes; the computed style of an element has the current one
  const probe = document.body.appendChild(document.createElement("i"));
  const read = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const paper = rgb(read("zero"));
  const scale = [];
  for (let j = -STEPS; j <= STEPS; j++) {
    const end = rgb(read(j < 0 ? "negative" : "positive"));
    // small values stay visible: their share of the color grows faster than they do
    scale.push(mixed(paper, end, Math.abs(j / STEPS) ** 0.8));
  }
  const [dark, light] = ["dark-text", "light-text"].map((name) => rgb(read(name)));
  // black or white: one of them has a contrast of at least 4.58 with any color
  const readable = (ground) => css(contrast(ground, dark) >= contrast(ground, light) ? dark : light);
  const quiet = ["muted", "soft"].map((name) => rgb(read(name)));
  const quietly = (ground) => {
    const found = quiet.find((each) => contrast(each, ground) >= READABLE);
    return found ? css(found) : readable(ground);
  };
  const pale = scale.map((ground) => mixed(paper, ground, PALE));
  const nan = rgb(read("nan"));
  const roles = {};
  for (const role of ["input", "weight", "output", "upstream", "gradient", "inner"]) roles[role] = read(role);
  const found = {
    cells: scale.map((ground) => ({ fill: css(ground), text: readable(ground) })),
    pale: pale.map((ground) => ({ fill: css(ground), text: quietly(ground) })),
    nan: { fill: css(nan), text: readable(nan) },
    roles,
    ink: read("ink"),
    muted: read("muted"),
    line: read("line"),
    paper: read("paper"),
    wrong: read("wrong"),
  };
  probe.remove();
  return found;
}

/** The colors of a cell: background and text; pale: of a cell that is not highlighted while others are. */
export function colors(value, largest, pale = false) {
  const found = palette();
  if (Number.isNaN(value)) return found.nan;
  const share = largest > 0 ? Math.max(-1, Math.min(1, value / largest)) : 0;
  const cells = pale ? found.pale : found.cells;
  if (share === 0) return { fill: cells[STEPS].fill, text: pale ? cells[STEPS].text : found.ink };
  return cells[STEPS + Math.round(share * STEPS)];
}

const css = ([r, g, b]) => `rgb(${Math.round(r)} ${Math.round(g)} ${Math.round(b)})`;

const rgb = (text) => text.match(/[\d.]+/g).map(Number); // "rgb(1, 2, 3)"

const linear = (c) => (c <= 10.31475 ? c / 3294.6 : ((c / 255 + 0.055) / 1.055) ** 2.4);
const gamma = (c) => 255 * (c <= 0.0031308 ? 12.92 * c : 1.055 * c ** (1 / 2.4) - 0.055);

function contrast(a, b) {
  const light = (color) => 0.2126 * linear(color[0]) + 0.7152 * linear(color[1]) + 0.0722 * linear(color[2]);
  const [high, low] = [light(a), light(b)].sort((p, q) => q - p);
  return (high + 0.05) / (low + 0.05);
}

/** Interpolates two colors in Oklab, in which equal steps look equal. */
function mixed(from, to, share) {
  const [a, b] = [oklab(from), oklab(to)];
  const [l, m, s] = unlab(a.map((each, j) => each + (b[j] - each) * share));
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map((c) => Math.max(0, Math.min(255, gamma(Math.max(0, c)))));
}

function oklab(color) {
  const [r, g, b] = color.map(linear);
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

const unlab = ([L, a, b]) => [
  (L + 0.3963377774 * a + 0.2158037573 * b) ** 3,
  (L - 0.1055613458 * a - 0.0638541728 * b) ** 3,
  (L - 0.0894841775 * a - 1.291485548 * b) ** 3,
];
