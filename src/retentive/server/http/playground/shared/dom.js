/** Build elements with function calls. Strings always become text nodes, so the text of a memory cannot become markup. */

const SVG = "http://www.w3.org/2000/svg";

/**
 * Create an HTML element.
 *
 * Attributes: `on…` with a function adds an event listener, `style` and `dataset` take objects; true sets an attribute
 * without a value; false, null and undefined omit it. Children: nodes, strings, numbers and nested arrays of them;
 * null, undefined and false are skipped.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, any>} attributes
 * @param {...any} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/**
 * Create an SVG element; attributes and children as for `el`.
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, any>} attributes
 * @param {...any} children
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/**
 * Replace all children of an element.
 * @template {Element} E
 * @param {E} element
 * @param {...any} children
 * @returns {E}
 */
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

let lastNumber = 0;

/** Return an element id that is unique in the page. */
export function unique(name) {
  lastNumber += 1;
  return `${name}-${lastNumber}`;
}

/** Wrap a form control (or an array that starts with one) with a label above it. */
export function labelled(label, field, className = "") {
  const [control, ...rest] = [field].flat();
  control.id ||= unique("field");
  return el("div", { class: `field ${className}` }, el("label", { class: "label", for: control.id }, label), control, rest);
}
