// Helpers that make elements of the page.

/** An element: h("button", {class: "plain", onclick: f}, "text", child). Anything null or false is omitted. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG elements. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Text as children of an element; text between backticks is code. */
export const withCode = (text) => text.split("`").map((part, j) => (j % 2 ? h("code", {}, part) : part));

/** A name that may be broken after its underscores. */
export const breakable = (name) => name.split(/(?<=_)/).flatMap((part, j) => (j ? [h("wbr"), part] : [part]));

export const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
