// @ts-check
// The buttons of the Memory page, and what they open.
import { addLinks } from "./cover.js";
import { byId, h, icon } from "./dom.js";
import { Once } from "./once.js";

/**
 * A button that shows and hides an element. A light one goes by a click elsewhere too.
 *
 * @param {HTMLElement} button
 * @param {HTMLElement} element
 * @param {{light?: boolean, onToggle?: (shown: boolean) => void}} [options]
 * @returns {(shown: boolean) => boolean} shows or hides it; whether that changed something
 */
export function toggles(button, element, { light = false, onToggle = () => {} } = {}) {
  const set = (/** @type {boolean} */ shown) => {
    const changed = element.hidden === shown;
    element.hidden = !shown;
    button.setAttribute("aria-expanded", String(shown));
    if (changed) onToggle(shown);
    return changed;
  };
  button.setAttribute("aria-controls", element.id);
  button.setAttribute("aria-expanded", String(!element.hidden));
  button.addEventListener("click", () => set(element.hidden));
  if (light) {
    addEventListener("pointerdown", ({ target }) => {
      if (target instanceof Node && !element.contains(target) && !button.contains(target)) set(false);
    });
  }
  return set;
}

/**
 * @param {string} name of its icon
 * @param {string} word
 * @param {object} [does] attributes that say what it does
 */
function button(name, word, does = {}) {
  return h("button", { type: "button", class: `button-${name}`, title: word, ...does }, icon(name), h("span", {}, word));
}

/**
 * @param {object} hear
 * @param {() => void} hear.onFit
 * @param {(shown: boolean) => void} hear.onTable
 * @param {() => Promise<void>} hear.onRescan
 * @param {() => Promise<void>} hear.onClear
 */
export function addButtons({ onFit, onTable, onRescan, onClear }) {
  const once = new Once();
  const rescan = button("rescan", "Rescan", once.button("rescan", onRescan));
  const clear = button("clear", "Clear sharing", once.button("clear", onClear));
  const table = button("table", "Table");
  table.id = "table-button";
  const add = button("add", "Add notes");
  const menu = h("div", { id: "add-menu", class: "menu", hidden: true }, ...addLinks());
  const adder = h("div", { class: "adder" }, add, menu);
  byId("buttons").append(button("fit", "Whole map", { onclick: onFit }), table, rescan, clear, adder);
  return {
    showTable: toggles(table, byId("drawer"), { onToggle: onTable }),
    closeMenu: toggles(add, menu, { light: true }),
    /** Only an admin may change something. @param {boolean} admin */
    allow(admin) {
      rescan.hidden = clear.hidden = adder.hidden = !admin;
    },
  };
}
