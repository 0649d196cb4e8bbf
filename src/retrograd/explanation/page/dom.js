// Elements of the page.

/** An element: h("button", {class: "plain", onclick: f}, "text", child). What is null or false is left out. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for a picture's elements. */
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

/** A text as children of an element: what stands between backticks is code. */
export const withCode = (text) => text.split("`").map((part, j) => (j % 2 ? h("code", {}, part) : part));

export const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
