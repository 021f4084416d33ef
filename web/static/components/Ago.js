// @ts-check
import { h } from "../dom.js";

const STEPS = /** @type {const} */ ([
  [60, 1, "s"],
  [3600, 60, "min"],
  [86_400, 3600, "h"],
  [Infinity, 86_400, "d"],
]);

/** @param {string} time ISO 8601 */
function relative(time) {
  const seconds = Math.max(0, (Date.now() - Date.parse(time)) / 1000);
  if (seconds < 5) return "now";
  const step = STEPS.find(([below]) => seconds < below) ?? STEPS[3];
  return `${Math.floor(seconds / step[1])} ${step[2]} ago`;
}

/**
 * A moment as "4 min ago"; the local time with its zone is in the tooltip.
 *
 * @param {string} time ISO 8601
 */
export function Ago(time) {
  const title = new Date(time).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" });
  return h("time", { class: "ago", datetime: time, title }, relative(time));
}

/** Keep every Ago of the page right. Called once per page. */
export function keepTime() {
  setInterval(() => {
    for (const element of /** @type {NodeListOf<HTMLTimeElement>} */ (document.querySelectorAll("time.ago"))) {
      const now = relative(element.dateTime);
      if (element.textContent !== now) element.textContent = now;
    }
  }, 5000);
}
