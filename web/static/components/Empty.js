// @ts-check
import { h, icon } from "../dom.js";

/**
 * What a page shows while there is nothing to show: what will be here, and the one thing to do.
 *
 * @param {{icon: string, title: string}} options
 * @param {...(Node | string)} children
 */
export function Empty({ icon: name, title }, ...children) {
  return h("section", { class: "empty" }, icon(name), h("h2", {}, title), ...children);
}
