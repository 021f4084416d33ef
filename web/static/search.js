// @ts-check
// The search box of the Memory page: finds notes by title, alias, path and #tag.
import { byId, h } from "./dom.js";

const SHOWN = 8;

export class Search {
  /**
   * @param {object} hear
   * @param {(found: MapNode[] | null) => void} hear.onFound null: nothing is asked for
   * @param {(id: string, byKey: boolean) => void} hear.onPick
   */
  constructor({ onFound, onPick }) {
    /** @type {MapNode[]} */
    this.nodes = [];
    this.onFound = onFound;
    this.onPick = onPick;
    this.input = /** @type {HTMLInputElement} */ (byId("query"));
    this.list = byId("results");
    /** @type {MapNode[]} */
    this.found = [];
    this.at = -1;
    this.input.addEventListener("input", () => this.run());
    this.input.addEventListener("keydown", (event) => this.#key(event));
    this.input.addEventListener("blur", () => this.#show(false));
    this.input.addEventListener("focus", () => this.#show(this.input.value !== ""));
    byId("search").addEventListener("submit", (event) => event.preventDefault());
    addEventListener("keydown", (event) => {
      const typing = event.target instanceof HTMLInputElement || document.querySelector("dialog[open]");
      if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      this.input.focus();
      this.input.select();
    });
  }

  /** @param {MapNode[]} nodes */
  setNodes(nodes) {
    this.nodes = nodes;
    this.run();
  }

  /** Whether there was something to clear. */
  clear() {
    if (!this.input.value) return false;
    this.input.value = "";
    this.run();
    return true;
  }

  run() {
    const asked = this.input.value.trim().toLowerCase();
    this.found = asked ? this.nodes.filter((node) => matches(node, asked)) : [];
    this.found.sort((a, b) => rank(a, asked) - rank(b, asked) || b.degree - a.degree);
    this.at = -1;
    this.list.replaceChildren(
      ...this.found.slice(0, SHOWN).map((node, at) =>
        h(
          "li",
          // Not click: the input would lose the focus, and the list would be gone before.
          { id: `result-${at}`, role: "option", "aria-selected": "false", onmousedown: () => this.onPick(node.id, false) },
          h("span", { title: node.path }, node.title),
          h("small", {}, node.folder),
        ),
      ),
    );
    this.#show(this.found.length > 0 && document.activeElement === this.input);
    this.onFound(asked ? this.found : null);
  }

  /** @param {boolean} shown */
  #show(shown) {
    this.list.hidden = !shown || !this.list.children.length;
    this.input.setAttribute("aria-expanded", String(!this.list.hidden));
    if (this.list.hidden || this.at < 0) this.input.removeAttribute("aria-activedescendant");
    else this.input.setAttribute("aria-activedescendant", `result-${this.at}`);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const shown = this.list.children.length;
    if (event.key === "Enter" && this.found.length) {
      this.onPick(this.found[Math.max(this.at, 0)].id, true);
      this.#show(false);
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && shown) {
      event.preventDefault();
      this.at = (this.at + (event.key === "ArrowDown" ? 1 : this.at < 0 ? 0 : -1) + shown) % shown;
      for (const [at, option] of [...this.list.children].entries()) {
        option.setAttribute("aria-selected", String(at === this.at));
      }
      this.#show(true);
    }
  }
}

/**
 * @param {MapNode} node
 * @param {string} asked in lower case
 */
function matches(node, asked) {
  if (asked.startsWith("#")) return node.tags.some((tag) => `#${tag}`.toLowerCase().startsWith(asked));
  return [node.title, node.path, ...node.aliases].some((text) => text.toLowerCase().includes(asked));
}

/**
 * Titles that start with what was asked come first, then titles, then the rest.
 *
 * @param {MapNode} node
 * @param {string} asked
 */
function rank(node, asked) {
  const at = node.title.toLowerCase().indexOf(asked);
  return at === 0 ? 0 : at > 0 ? 1 : 2;
}
