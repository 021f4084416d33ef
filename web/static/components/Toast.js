// @ts-check
import { h } from "../dom.js";

const SHOWN = 8000; // ms

/**
 * Say something once, at the bottom of the page. A failure stays until it is closed or 8 s have passed.
 *
 * @param {string} text
 * @param {{failed?: boolean}} [options]
 */
export function Toast(text, { failed = false } = {}) {
  let region = document.querySelector(".toasts");
  if (!region) {
    region = h("div", { class: "toasts", role: "status" });
    document.body.append(region);
  }
  const toast = h("p", { class: failed ? "toast failed" : "toast" }, text);
  toast.append(h("button", { type: "button", class: "quiet", onclick: () => toast.remove() }, "Close"));
  region.append(toast);
  setTimeout(() => toast.remove(), SHOWN);
}
