// @ts-check
import { h, root } from "../dom.js";

/** @param {string} id */
export function noteHash(id) {
  return `#note=${encodeURIComponent(id)}`;
}

/**
 * A note's title that opens its panel on the Memory page; its path is the tooltip, its source a caption.
 *
 * @param {{id: string, title: string}} note
 * @param {{caption?: boolean}} [options]
 */
export function NoteLink({ id, title }, { caption = false } = {}) {
  const [source] = id.split("/", 1);
  const here = document.body.dataset.page === "memory";
  const href = here ? noteHash(id) : new URL(noteHash(id), root).href;
  return h("span", { class: "note-link" }, h("a", { href, title: id }, title), caption && h("small", {}, source));
}
