// Export: text to the clipboard, the picture as SVG.

import { palette } from "page/color";
import { bend } from "page/connectors";
import { SvgPen, escaped } from "page/cell_renderer";

export async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copiedByHand(text);
  }
}

/** Fallback if scripts cannot access the clipboard, for example in local files of some browsers. */
function copiedByHand(text) {
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

/** The visible grids with their highlights, as an SVG. */
export function svg({ stage, grids, lines, selection, title, sentence }) {
  const box = stage.getBoundingClientRect();
  const top = 64;
  const colors = palette();
  const parts = [];
  for (const grid of grids) {
    if (!grid.base.isConnected) continue;
    const at = grid.paper.getBoundingClientRect();
    const [dx, dy] = [at.left - box.left + stage.scrollLeft + 20, at.top - box.top + stage.scrollTop + top];
    const pen = new SvgPen(dx, dy);
    grid.paintCells(pen, grid.light.faded, grid.part);
    grid.light.paint(pen);
    const caption = grid.element.querySelector("figcaption b")?.textContent ?? "";
    parts.push(
      `<text x="${dx + 15}" y="${dy - 6}" font-weight="700" font-size="15" ` +
        `fill="${colors.roles[grid.array.role]}">${escaped(caption)}</text>`,
      ...pen.parts,
    );
  }
  for (const { from, to, color } of lines.curves(selection)) {
    const [a, b] = [from, to].map(({ x, y }) => ({ x: x + 20, y: y + top }));
    parts.push(`<path d="${bend(a, b)}" fill="none" stroke="${color}" stroke-width="1.5"/>`);
  }
  const [width, height] = [Math.ceil(stage.scrollWidth + 40), Math.ceil(stage.scrollHeight + top + 20)];
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" ` +
      `viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif">`,
    `<rect width="100%" height="100%" fill="${colors.paper}"/>`,
    `<text x="20" y="26" font-size="15" fill="${colors.ink}" font-family="monospace">${escaped(title)}</text>`,
    `<text x="20" y="46" font-size="13" fill="${colors.muted}">${escaped(sentence)}</text>`,
    ...parts,
    "</svg>",
  ].join("\n");
}

const STYLES = [
  ...["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "fill-opacity", "stroke-opacity", "font"],
  ...["text-anchor", "dominant-baseline", "paint-order", "stroke-linecap", "stroke-linejoin", "display"],
];

/** A picture as a file, with the colors of the style sheet. */
export function styled(picture) {
  const copy = picture.cloneNode(true);
  const [from, to] = [picture, copy].map((each) => [...each.querySelectorAll("*")]);
  from.forEach((each, j) => {
    const style = getComputedStyle(each);
    for (const name of STYLES) to[j].style.setProperty(name, style.getPropertyValue(name));
  });
  copy.style.background = palette().paper;
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return new XMLSerializer().serializeToString(copy);
}

/** Downloads text as a file. */
export function saved(name, text, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
