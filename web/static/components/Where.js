// @ts-check
import { h, icon } from "../dom.js";

/**
 * Local (a disc) or cloud (a double ring), with its word.
 *
 * @param {Place} place
 * @param {string} [word] said instead of the place's own word
 */
export function Where(place, word = place) {
  return h("span", { class: `where ${place}` }, icon(place), word);
}
