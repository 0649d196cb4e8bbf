// Cell renderers: for a canvas, and for SVG text. Both draw the same picture.

const FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
const NAMED = `dominant-baseline="central" font-family="${FONT}"`;

export class CanvasPen {
  constructor(context) {
    this.context = context;
    context.textBaseline = "middle";
    [this.size, this.anchor] = [null, null]; // current context state: setting a font takes longer than writing
  }

  cell(x, y, width, height, fill, radius) {
    const { context } = this;
    context.fillStyle = fill;
    if (radius) {
      context.beginPath();
      context.roundRect(x, y, width, height, radius);
      context.fill();
    } else context.fillRect(x, y, width, height);
  }

  /** Cells copied from a picture of the whole grid, adjacent ones in one piece. corners: [{x, y}] */
  copied(picture, corners, cell, side) {
    const { context } = this;
    const { a: scale } = context.getTransform();
    context.imageSmoothingEnabled = false;
    const copy = (x, y, width) =>
      context.drawImage(picture, x * scale, y * scale, width * scale, side * scale, x, y, width, side);
    let [left, top, right] = [0, 0, 0];
    for (const { x, y } of corners) {
      if (y !== top || x !== right + cell - side) {
        if (right > left) copy(left, top, right - left);
        [left, top] = [x, y];
      }
      right = x + side;
    }
    if (right > left) copy(left, top, right - left);
  }

  hatch(x, y, size, stroke) {
    const { context } = this;
    context.save();
    context.beginPath();
    context.rect(x, y, size, size);
    context.clip();
    context.strokeStyle = stroke;
    context.lineWidth = 1;
    context.beginPath();
    for (let from = -size; from < size; from += 5) {
      context.moveTo(x + from, y + size);
      context.lineTo(x + from + size, y);
    }
    context.stroke();
    context.restore();
  }

  outline(x, y, width, height, stroke, thickness, options = {}) {
    this.outlines([{ x, y }], width, height, stroke, thickness, options);
  }

  /** Draws many cells of one size, which is faster than one by one. */
  outlines(corners, width, height, stroke, thickness, { dash = [], radius = 0 } = {}) {
    if (!corners.length) return;
    const { context } = this;
    context.strokeStyle = stroke;
    context.lineWidth = thickness;
    context.setLineDash(dash);
    context.beginPath();
    for (const { x, y } of corners) {
      if (radius) context.roundRect(x, y, width, height, radius);
      else context.rect(x, y, width, height);
    }
    context.stroke();
    context.setLineDash([]);
  }

  text(x, y, text, fill, size, anchor = "middle") {
    const { context } = this;
    if (size !== this.size) context.font = `${size}px ${FONT}`;
    if (anchor !== this.anchor) context.textAlign = anchor === "middle" ? "center" : anchor;
    [this.size, this.anchor] = [size, anchor];
    context.fillStyle = fill;
    context.fillText(text, x, y);
  }
}

const r = (number) => Math.round(number * 100) / 100;
export const escaped = (text) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);

export class SvgPen {
  constructor(dx = 0, dy = 0) {
    this.parts = [];
    this.dx = dx;
    this.dy = dy;
  }

  #rect(x, y, width, height, rest) {
    this.parts.push(
      `<rect x="${r(x + this.dx)}" y="${r(y + this.dy)}" width="${r(width)}" height="${r(height)}" ${rest}/>`,
    );
  }

  cell(x, y, width, height, fill, radius) {
    this.#rect(x, y, width, height, `fill="${fill}" rx="${radius}"`);
  }

  hatch(x, y, size, stroke) {
    const lines = [];
    const point = (px, py) => `${r(px + this.dx)} ${r(py + this.dy)}`;
    for (let from = -size + 5; from < size; from += 5) {
      const [start, end] = [Math.max(0, from), Math.min(size, from + size)];
      lines.push(`M${point(x + start, y + size - (start - from))}L${point(x + end, y + size - (end - from))}`);
    }
    this.parts.push(`<path d="${lines.join("")}" stroke="${stroke}" fill="none"/>`);
  }

  outline(x, y, width, height, stroke, thickness, { dash = [], radius = 0 } = {}) {
    const dashes = dash.length ? ` stroke-dasharray="${dash.join(" ")}"` : "";
    this.#rect(
      x,
      y,
      width,
      height,
      `fill="none" stroke="${stroke}" stroke-width="${thickness}" rx="${radius}"${dashes}`,
    );
  }

  outlines(corners, ...rest) {
    for (const { x, y } of corners) this.outline(x, y, ...rest);
  }

  text(x, y, text, fill, size, anchor = "middle") {
    this.parts.push(
      `<text x="${r(x + this.dx)}" y="${r(y + this.dy)}" fill="${fill}" font-size="${r(size)}" ` +
        `text-anchor="${anchor}" ${NAMED}>${escaped(text)}</text>`,
    );
  }
}

/** Clears and sizes the canvas; returns its context, with the coordinates of the layout. */
export function sized(canvas, x, y, width, height) {
  const scale = Math.min(devicePixelRatio || 1, 3);
  const [across, down] = [Math.ceil(width * scale), Math.ceil(height * scale)];
  const context = canvas.getContext("2d");
  if (canvas.width === across && canvas.height === down) {
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, across, down);
  } else {
    [canvas.width, canvas.height] = [across, down];
    [canvas.style.width, canvas.style.height] = [`${width}px`, `${height}px`];
  }
  [canvas.style.left, canvas.style.top] = [`${x}px`, `${y}px`];
  context.setTransform(scale, 0, 0, scale, -x * scale, -y * scale);
  return context;
}
