// @ts-check
import { h, icon } from "../dom.js";

const WORDS = { allow: "Allowed", block: "Blocked", redact: "Redacted", redirect: "Redirected", hold: "Held" };

/**
 * What was done with a request, and by which rule.
 *
 * @param {ActivityEntry["decision"]} decision
 */
export function Decision({ action, rule }) {
  const said = h("span", { class: "stack" }, WORDS[action], rule && h("small", {}, `by ${rule}`));
  return h("span", { class: `decision ${action}` }, icon(action), said);
}
