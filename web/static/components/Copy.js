// @ts-check
import { h, icon } from "../dom.js";

/**
 * Lines to paste, with a button that copies them.
 *
 * @param {string} text
 */
export function Copy(text) {
  const said = h("span", {}, "Copy");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      said.textContent = "Copied";
    } catch {
      said.textContent = "Select and copy by hand"; // the browser may refuse the clipboard
    }
  };
  return h(
    "div",
    { class: "copy" },
    h("pre", { tabindex: "0", "aria-label": "Lines to paste" }, text),
    h("button", { type: "button", onclick: copy }, icon("copy"), said),
  );
}
