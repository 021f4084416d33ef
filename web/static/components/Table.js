// @ts-check
import { h, keepOpen } from "../dom.js";

const CHUNK = 200; // rows that are made at once; the rest follow while one scrolls or walks down
const INSIDE = "a, button, summary"; // what in a row can have the focus

/**
 * @template Row
 * @typedef {{label: string, cell: (row: Row) => Node | string, class?: string}} Column
 */

/**
 * A table whose rows are walked with the arrow keys (one of them is in the tab order), whose head stays in sight, and
 * which says why it is empty.
 *
 * @template Row
 */
export class Table {
  /**
   * @param {object} options
   * @param {string} options.caption for screen readers
   * @param {Column<Row>[]} options.columns
   * @param {(row: Row) => string} options.key
   * @param {string} options.empty what the one row of an empty table says
   * @param {(row: Row) => void} [options.onFocus] a row came into focus
   * @param {(row: Row) => void} [options.onEnter] Enter on a row
   */
  constructor({ caption, columns, key, empty, onFocus, onEnter }) {
    this.columns = columns;
    this.key = key;
    this.empty = empty;
    this.onFocus = onFocus;
    this.onEnter = onEnter;
    /** @type {Map<string, {row: Row, line: HTMLTableRowElement}>} */
    this.lines = new Map();
    /** @type {Row[]} */
    this.waiting = [];
    this.body = h("tbody", { onkeydown: (/** @type {KeyboardEvent} */ event) => this.#key(event) });
    this.more = h("div", { class: "table-more" });
    const head = columns.map((column) => h("th", { scope: "col", class: column.class }, column.label));
    this.element = h(
      "div",
      { class: "table" },
      h("table", {}, h("caption", { class: "visually-hidden" }, caption), h("thead", {}, h("tr", {}, ...head)), this.body),
      this.more,
    );
    new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && this.#fill()).observe(this.more);
    this.setRows([]);
  }

  /**
   * Whoever is on a row that is there again stays on it, and whoever has scrolled down stays there.
   *
   * @param {Row[]} rows in the order in which they are shown
   */
  setRows(rows) {
    const focus = this.#focus();
    const made = this.lines.size;
    this.lines.clear();
    this.waiting = rows;
    this.body.replaceChildren();
    do this.#fill();
    while (this.waiting.length && this.lines.size < made);
    this.#sayIfEmpty();
    if (focus) this.#refocus(focus);
  }

  /**
   * Bring a row up to date, or put it first; beyond `most` rows the last ones go. What was opened in the row stays open.
   *
   * @param {Row} row
   * @param {number} most
   */
  upsert(row, most) {
    const old = this.lines.get(this.key(row));
    if (!this.lines.size) this.body.replaceChildren(); // the row that says why it is empty
    const line = this.#line(row, old?.line.tabIndex === 0);
    if (old) {
      const focus = this.#focus();
      keepOpen(old.line, line);
      old.line.replaceWith(line);
      if (focus?.key === this.key(row)) this.#refocus(focus);
    } else {
      this.body.prepend(line);
    }
    for (const last of [...this.body.rows].slice(most)) {
      this.lines.delete(last.dataset.key ?? "");
      last.remove();
    }
    this.#sayIfEmpty();
  }

  /** Put the focus on the row that is in the tab order. */
  focus() {
    /** @type {HTMLElement | null} */ (this.body.querySelector("tr[tabindex='0']"))?.focus();
  }

  /** Which row has the focus, and which of what is in it; -1: the row itself. null: none has. */
  #focus() {
    const at = document.activeElement;
    const line = at && this.body.contains(at) && at.closest("tr");
    return line ? { key: line.dataset.key ?? "", at: [...line.querySelectorAll(INSIDE)].indexOf(at) } : null;
  }

  /** @param {{key: string, at: number}} focus */
  #refocus({ key, at }) {
    const line = this.lines.get(key)?.line;
    const part = /** @type {HTMLElement | undefined} */ (line?.querySelectorAll(INSIDE)[at]);
    (part ?? line)?.focus({ preventScroll: true });
  }

  #fill() {
    for (const row of this.waiting.slice(0, CHUNK)) this.body.append(this.#line(row, false));
    this.waiting = this.waiting.slice(CHUNK);
    this.more.hidden = !this.waiting.length;
  }

  #sayIfEmpty() {
    if (!this.lines.size) {
      this.body.replaceChildren(h("tr", {}, h("td", { colspan: this.columns.length, class: "none" }, this.empty)));
    } else if (!this.body.querySelector("tr[tabindex='0']")) {
      this.body.rows[0].tabIndex = 0;
    }
  }

  /**
   * @param {Row} row
   * @param {boolean} inTabOrder
   */
  #line(row, inTabOrder) {
    const cells = this.columns.map((column) => h("td", { class: column.class }, column.cell(row)));
    const line = h("tr", { tabindex: inTabOrder ? "0" : "-1", "data-key": this.key(row) }, ...cells);
    line.addEventListener("focus", () => {
      for (const other of this.body.querySelectorAll("tr[tabindex='0']")) other.setAttribute("tabindex", "-1");
      line.tabIndex = 0;
      this.onFocus?.(row);
    });
    this.lines.set(this.key(row), { row, line });
    return line;
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const line = event.target;
    if (!(line instanceof HTMLTableRowElement)) return; // a link inside a row has its own keys
    if (event.key === "ArrowDown" && !line.nextElementSibling) this.#fill();
    const next = {
      ArrowDown: line.nextElementSibling,
      ArrowUp: line.previousElementSibling,
      Home: this.body.firstElementChild,
      End: this.body.lastElementChild,
    }[event.key];
    const entry = this.lines.get(line.dataset.key ?? "");
    if (next instanceof HTMLElement) next.focus();
    else if (event.key === "Enter" && entry && this.onEnter) this.onEnter(entry.row);
    else return;
    event.preventDefault();
  }
}
