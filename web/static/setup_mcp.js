// @ts-check
// How a client meets its memory, on the Setup page: the lines that set it up in each program, and a token, shown once.
import { post } from "./api.js";
import { Confirm } from "./components/Confirm.js";
import { Copy } from "./components/Copy.js";
import { Toast } from "./components/Toast.js";
import { h } from "./dom.js";
import { Once } from "./once.js";
import { code, swap } from "./setup_parts.js";

export class Mcp {
  /** @param {() => void} onToken called when a token was made */
  constructor(onToken) {
    this.onToken = onToken;
    /** @type {McpMemory[]} */
    this.memories = [];
    this.admin = false;
    /** @type {{client: string, lines: McpLines[]} | null} what was just made; nobody can ask for it again */
    this.made = null;
    this.once = new Once(); // a second token would make the first one worthless
    /** @type {string | null} the client whose program is chosen */
    this.drawn = null;
    this.memory = h("select", { onchange: () => this.#draw() });
    this.program = h("select", { onchange: () => this.#draw() });
    this.lines = h("div", { class: "add" });
    this.element = h(
      "div",
      { class: "add", id: "mcp", hidden: true },
      h("h3", {}, "Let it search its memory"),
      h("div", { class: "choices" }, h("label", {}, h("span", {}, "Memory of"), this.memory), h("label", {}, h("span", {}, "Program"), this.program)),
      this.lines,
    );
  }

  /**
   * @param {McpMemory[]} memories
   * @param {boolean} admin
   */
  show(memories, admin) {
    this.memories = memories;
    this.admin = admin;
    this.element.hidden = !memories.length;
    choose(this.memory, memories.map(({ client }) => client));
    this.#draw();
  }

  /**
   * A token was made: its lines are shown until the page is left.
   *
   * @param {string} client
   * @param {McpLines[]} lines
   */
  tell(client, lines) {
    this.made = { client, lines };
    if (this.memories.some((one) => one.client === client)) this.memory.value = client;
    this.#draw();
  }

  #draw() {
    const memory = this.memories.find(({ client }) => client === this.memory.value);
    if (!memory) return swap(this.lines);
    this.program.disabled = memory.inside;
    choose(this.program, [...new Set(memory.lines.map(({ program }) => program))]);
    if (this.drawn !== memory.client && memory.program) this.program.value = memory.program;
    this.drawn = memory.client;
    if (memory.inside) return swap(this.lines, h("p", {}, `Nothing need be set up: what ${memory.client} remembers comes inside its conversations (mode `, code("mcp_via_llm"), ")."));
    const made = this.made?.client === memory.client ? this.made.lines : null;
    swap(
      this.lines,
      ...(made ? [h("p", {}, h("b", {}, "These lines hold the token, which is shown this once."), " The program asks the suite:"), ...this.#of(made)] : []),
      h("p", {}, made ? "Or without a token: the program starts the server itself:" : "Paste this, and the program starts an MCP server that asks the suite:"),
      ...this.#of(memory.lines),
      ...(this.admin ? [this.#button(memory)] : []),
    );
  }

  /**
   * Those of the program that is chosen.
   *
   * @param {McpLines[]} lines
   */
  #of(lines) {
    const mine = lines.filter(({ program }) => program === this.program.value);
    if (!mine.length) return [h("p", { class: "muted" }, `${this.program.value} takes no server of this kind.`)];
    return mine.flatMap(({ where, text }) => [h("p", { class: "muted" }, where), Copy(text)]);
  }

  /** @param {McpMemory} memory */
  #button({ client, hasToken }) {
    const make = async () => {
      const text = "The one that it has opens nothing from then on.";
      if (hasToken && !(await Confirm({ title: `Make a new token for ${client}?`, text, action: "Make a new token" }))) return;
      try {
        const { lines } = /** @type {TokenMade} */ (await post(`clients/${encodeURIComponent(client)}/token`));
        this.tell(client, lines);
        this.onToken();
      } catch (error) {
        Toast(error instanceof Error ? error.message : String(error), { failed: true });
      }
    };
    const attributes = { "data-key": "token", ...this.once.button(`token ${client}`, make) };
    return h("p", {}, "A program can ask the suite over HTTP instead, by a token: ", h("button", attributes, hasToken ? "Make a new token" : "Make a token"));
  }
}

/**
 * Give it these options; what is chosen stays so.
 *
 * @param {HTMLSelectElement} select
 * @param {string[]} values
 */
function choose(select, values) {
  const chosen = select.value;
  swap(select, ...values.map((value) => h("option", { value }, value)));
  if (values.includes(chosen)) select.value = chosen;
}
