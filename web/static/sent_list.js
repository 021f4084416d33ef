// @ts-check
// The lines at the foot of the map that say what was just sent, and what was kept.
import { byId, h, icon } from "./dom.js";
import { counted, sentence } from "./words.js";

const SHOWN = 3;
const SHOWN_FOR = 12_000; // ms

/**
 * @param {ActivityEntry} entry
 * @param {Place | undefined} place where it went; undefined: nowhere
 */
export function say(entry, place) {
  const [first, ...others] = [...entry.notes].sort((a, b) => b.matched - a.matched);
  const more = others.length ? `; and ${counted(others.length, "more note")}` : "";
  const item = h("li", { class: place ?? "kept" }, icon(place ?? "block"), h("span", {}, sentence(entry, first) + more));
  const list = byId("sent");
  list.prepend(item);
  while (list.children.length > SHOWN) list.lastElementChild?.remove();
  setTimeout(() => item.remove(), SHOWN_FOR);
}
