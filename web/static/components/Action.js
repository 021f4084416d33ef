// @ts-check
import { h, icon } from "../dom.js";

const WORDS = { allow: "Allow", block: "Block", redact: "Redact", redirect: "Redirect", hold: "Hold" };

/** What a rule tells to do. What was done with a request is a Decision. @param {keyof typeof WORDS} action */
export function Action(action) {
  return h("span", { class: `decision ${action}` }, icon(action), WORDS[action]);
}
