// @ts-check
// Buttons that change something do it once: while the answer is on its way, a second click does nothing.

/** What a page's buttons have asked for. A button that is drawn anew meanwhile, by the same key, waits as the first one does. */
export class Once {
  constructor() {
    /** @type {Set<string>} the keys whose answers are on their way */
    this.underWay = new Set();
  }

  /**
   * The attributes of such a button. Not `disabled`: it would lose the focus.
   *
   * @param {string} key what it does, and to what
   * @param {() => Promise<unknown>} action
   * @param {boolean} [busy] the suite does it already
   */
  button(key, action, busy = false) {
    return {
      type: "button",
      "data-once": !busy && key,
      "aria-disabled": (busy || this.underWay.has(key)) && "true",
      onclick: (/** @type {Event} */ event) => busy || void this.#run(key, action, /** @type {Element} */ (event.currentTarget)),
    };
  }

  /**
   * @param {string} key
   * @param {() => Promise<unknown>} action
   * @param {Element} clicked
   */
  async #run(key, action, clicked) {
    if (this.underWay.has(key)) return;
    this.underWay.add(key);
    clicked.setAttribute("aria-disabled", "true");
    try {
      await action();
    } finally {
      this.underWay.delete(key);
      const drawn = document.querySelectorAll(`[data-once="${CSS.escape(key)}"]`);
      for (const button of [clicked, ...drawn]) button.removeAttribute("aria-disabled");
    }
  }
}
