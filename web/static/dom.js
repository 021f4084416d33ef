// @ts-check
// Making elements without markup in strings: nothing here can turn a note's title into HTML.

const SVG = "http://www.w3.org/2000/svg";

/** The dashboard's own root: `/`, or the prefix it is served under. */
export const root = new URL("../", import.meta.url);

/**
 * An element with attributes and children. Attributes named `on…` are listeners, `true` sets an empty attribute,
 * `false`, `null` and `undefined` set none; children that are null or false are left out.
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, any>} [attributes]
 * @param {...(Node | string | number | null | false | undefined)} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) {
    if (child !== null && child !== false && child !== undefined) element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

/**
 * An icon of static/icons/all.svg, in the colour of the text around it. The word stands beside it, so it is hidden from
 * screen readers.
 *
 * @param {string} name
 */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", new URL(`static/icons/all.svg#${name}`, root).href);
  svg.append(use);
  return svg;
}

/**
 * What was opened in one element is open in the other, which takes its place.
 *
 * @param {Element} from
 * @param {Element} to
 */
export function keepOpen(from, to) {
  const before = from.querySelectorAll("details");
  for (const [at, details] of to.querySelectorAll("details").entries()) details.open = before[at]?.open ?? details.open;
}

/**
 * The element with this id; it must be in the page.
 *
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no #${id}`);
  return element;
}

/** Whether the person asked for less motion. Asked each time: it can change while the page is open. */
export function calm() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

/**
 * The value of a design token, such as `--local`.
 *
 * @param {string} name
 */
export function token(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
