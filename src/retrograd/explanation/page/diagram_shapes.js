// The shapes of a recurrent layer's diagram: cells, arrows with rounded corners, operator signs.

import { s } from "page/dom";

/** A cell that is a button: {element, ground, text}; after: text that follows its name. */
export function box({ x, y, width, height, label, share }, role, after, handlers) {
  const inside = { x: x + 1, y: y + 1, width: width - 2, height: height - 2, rx: 3 };
  const outside = { x: x - 2, y: y - 2, width: width + 4, height: height + 4, rx: 5 };
  const name = label && { x: label.x, y: label.y, "text-anchor": label.anchor, class: `name role-${role}` };
  const ground = s("rect", { class: "cell", ...inside });
  const text = s("text", { x: x + width / 2, y: y + height / 2 + 0.5, class: "number" });
  const element = s(
    "g",
    { class: `node role-${role}${share ? " share" : ""}`, role: "button", tabindex: -1, ...handlers },
    label ? s("text", name, label.text + after) : "",
    ground,
    text,
    s("rect", { class: "ring outer", ...outside }),
    s("rect", { class: "ring", ...inside }),
  );
  return { element, ground, text };
}

/** The sign of a product or sum where lines meet. */
export function mark({ x, y, text, title }) {
  const width = Math.max(14, text.length * 6.4 + 8);
  const ground = s("rect", { x: x - width / 2, y: y - 7, width, height: 14, rx: 7 });
  return s("g", { class: "sign" }, s("title", {}, title), ground, s("text", { x, y: y + 0.5 }, text));
}

/** An arrow through points, with a background that separates it from lines it crosses: {element, path}. */
export function line(points, kind, size) {
  const d = route(points);
  const path = s("path", { d });
  const end = s("path", { d: head(points, size), class: "head" });
  return { element: s("g", { class: kind }, s("path", { class: "halo", d }), path, end), path };
}

/** A line through points with rounded corners, as the `d` attribute of a path. */
function route(points, radius = 5) {
  const toward = ([x, y], [toX, toY]) => {
    const far = Math.hypot(toX - x, toY - y);
    const part = far ? Math.min(radius, far / 2) / far : 0;
    return [x + (toX - x) * part, y + (toY - y) * part];
  };
  return points
    .map((point, j) => {
      if (!j) return `M${point}`;
      if (j === points.length - 1) return `L${point}`;
      return `L${toward(point, points[j - 1])}Q${point} ${toward(point, points[j + 1])}`;
    })
    .join("");
}

/** The head of an arrow at the end of a line. */
function head(points, size) {
  const [[fromX, fromY], [x, y]] = points.slice(-2);
  const [dx, dy] = [Math.sign(x - fromX), Math.sign(y - fromY)];
  const wing = (side) => [x - size * dx + side * size * 0.7 * dy, y - size * dy + side * size * 0.7 * dx];
  return `M${wing(1)}L${x} ${y}L${wing(-1)}`;
}
