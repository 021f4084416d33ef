// @ts-check
// Small parts of the Setup page.
import { h, keepOpen } from "./dom.js";

/**
 * Put these in the place of what the element holds, unless they say the same: whoever is on one of them stays there, and
 * what was opened stays open.
 *
 * @param {Element} element
 * @param {...Node} parts
 */
export function swap(element, ...parts) {
  const old = [...element.childNodes];
  opened(old, parts);
  if (parts.length === old.length && parts.every((part, at) => part.isEqualNode(old[at]))) return;
  const focused = element.contains(document.activeElement) && /** @type {HTMLElement} */ (document.activeElement).dataset.key;
  element.replaceChildren(...parts);
  if (focused) /** @type {HTMLElement | null} */ (element.querySelector(`[data-key="${CSS.escape(focused)}"]`))?.focus();
}

/**
 * The same part by part, where as many are held: one that says the same stays, and whoever is on it.
 *
 * @param {Element} element
 * @param {...Node} parts
 */
export function swapEach(element, ...parts) {
  const old = [...element.childNodes];
  opened(old, parts);
  if (parts.length !== old.length) return element.replaceChildren(...parts);
  for (const [at, part] of parts.entries()) if (!part.isEqualNode(old[at])) old[at].replaceWith(part);
}

/**
 * @param {Node[]} old
 * @param {Node[]} parts
 */
function opened(old, parts) {
  for (const [at, part] of parts.entries()) {
    const before = old[at];
    if (before instanceof Element && part instanceof Element) keepOpen(before, part);
  }
}

/**
 * Names with what belongs to them.
 *
 * @param {...([string, Node | string | null] | false)} pairs
 */
export function facts(...pairs) {
  const rows = pairs.filter((pair) => pair !== false && pair[1] !== null);
  return h("dl", { class: "pairs" }, .../** @type {[string, Node | string][]} */ (rows).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

/** @param {string} text */
export function code(text) {
  return h("code", {}, text);
}

/**
 * The first so many of a list, the others behind a line that opens.
 *
 * @template Item
 * @param {Item[]} items
 * @param {number} most
 * @param {(item: Item) => Node | string} say
 */
export function some(items, most, say) {
  const list = (/** @type {Item[]} */ part) => h("ul", { class: "plain" }, ...part.map((item) => h("li", {}, say(item))));
  if (items.length <= most) return list(items);
  return h("div", {}, list(items.slice(0, most)), h("details", {}, h("summary", {}, `${items.length - most} more`), list(items.slice(most))));
}
