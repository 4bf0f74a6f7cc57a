/** Elements from plain calls. Strings become text nodes and nothing else, so no memory can ever become markup. */

const SVG = "http://www.w3.org/2000/svg";

/**
 * An HTML element. Attributes: `class`, `on…` with a function listens, `style` is an object of CSS properties,
 * `dataset` an object; true sets an attribute, false, null and undefined leave it out; other functions are refused.
 * Children: nodes, strings, numbers, and arrays of them; null and false are left out.
 */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element, with the same attributes and children as `el`. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** Puts these children in place of all that an element has. */
export function replace(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) set(element, name, value);
  element.append(...nodes(children));
  return element;
}

function set(element, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name.startsWith("on") && typeof value === "function") element.addEventListener(name.slice(2), value);
  else if (name === "style") for (const [key, part] of Object.entries(value)) element.style.setProperty(key, part);
  else if (name === "dataset") Object.assign(element.dataset, value);
  else if (name === "value" && "value" in element && element.namespaceURI !== SVG) element.value = value;
  else if (name === "checked" || name === "selected" || name === "indeterminate") element[name] = value;
  else if (name.startsWith("on")) throw new TypeError(`${name} takes a function`);
  else element.setAttribute(name, value === true ? "" : String(value));
}

function nodes(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(String(child))));
}

let numbered = 0;

/** An id that no other element of the page has. */
export function unique(name) {
  numbered += 1;
  return `${name}-${numbered}`;
}
