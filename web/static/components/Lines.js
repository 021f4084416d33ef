// @ts-check
import { h } from "../dom.js";
import { lines } from "../words.js";

/**
 * How much of a note was in a request: "2/3 lines" with a bar, "quote", "by name only".
 *
 * @param {SightingEntry} sighting
 */
export function Lines(sighting) {
  const bar =
    sighting.grade === "line" &&
    h("meter", { max: sighting.distinctive, value: sighting.matched, "aria-hidden": "true", tabindex: "-1" });
  return h("span", { class: "lines" }, bar, lines(sighting));
}
