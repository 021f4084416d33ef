// @ts-check
// The clients on the Setup page: who was seen, how each is told, and the lines that point one at the proxy.
import { get } from "./api.js";
import { Ago } from "./components/Ago.js";
import { Copy } from "./components/Copy.js";
import { Table } from "./components/Table.js";
import { addressOf } from "./conversations_place.js";
import { h, icon } from "./dom.js";
import { switchMemory } from "./memory_switch.js";
import { Once } from "./once.js";
import { Mcp } from "./setup_mcp.js";
import { code, swap } from "./setup_parts.js";
import { number, typed } from "./words.js";

const SHELLS = /** @type {Record<Shell, string>} */ ({ bash: "bash", zsh: "zsh", fish: "fish", powershell: "PowerShell" });
const ANY = "Any other program";

export class Clients {
  /** @param {Element} element */
  constructor(element) {
    /** @type {ClientLines[]} */
    this.lines = [];
    /** @type {ClientState[]} */
    this.clients = [];
    /** @type {string | null} where conversations are stored */
    this.directory = null;
    this.admin = false;
    this.once = new Once();
    /** @type {Promise<number> | null} the question whose answer is on its way */
    this.asking = null;
    /** @type {Promise<number> | null} the one after it */
    this.next = null;
    /** @type {Pick<SuiteStatus, "program" | "configFlag">} how a command is typed */
    this.typing = {};
    this.hmac = code(typed(this.typing, "hmac"));
    this.problem = h("p", { class: "problem", hidden: true });
    /** @type {Table<ClientState>} */
    this.table = new Table({
      caption: "Clients",
      key: (client) => client.client,
      empty: "No client is named in mitm.yaml, and none has sent anything yet.",
      columns: [
        { label: "Client", cell: (client) => h("span", { class: "stack" }, client.client, client.name !== client.client && h("small", {}, client.name)) },
        { label: "Told by", cell: told, class: "wide" },
        { label: "Requests since the start", cell: (client) => number(client.requests), class: "number" },
        { label: "Last seen", cell: (client) => (client.lastSeen ? Ago(client.lastSeen) : "never"), class: "time" },
        { label: "Memory of conversations", cell: (client) => this.#memory(client) },
      ],
    });
    this.client = h("select", { onchange: () => this.#draw() });
    this.shell = h("select", { onchange: () => this.#draw() }, ...Object.entries(SHELLS).map(([value, word]) => h("option", { value }, word)));
    this.shell.value = /Windows/.test(navigator.userAgent) ? "powershell" : "bash";
    this.how = h("div", { class: "how" });
    this.mcp = new Mcp(() => void this.load());
    element.append(
      this.problem,
      this.table.element,
      h("p", { class: "muted" }, "A User-Agent is a hint: any program can send that of another. A listener, a proxy user and an API key tell more surely."),
      h("h3", {}, "Point a client at the proxy"),
      h("div", { class: "choices" }, h("label", {}, h("span", {}, "Client"), this.client), h("label", {}, h("span", {}, "Shell"), this.shell)),
      this.how,
      keyed(this.hmac),
      this.mcp.element,
    );
  }

  /**
   * Ask who is there. One question at a time: whoever asks while an answer is on its way gets the one after it, and so do
   * all who ask until then.
   *
   * @returns {Promise<number>} how many clients have sent something
   */
  load() {
    if (!this.asking) {
      this.asking = this.#ask().finally(() => (this.asking = null));
      return this.asking;
    }
    this.next ??= this.asking.then(() => ((this.next = null), this.load()));
    return this.next;
  }

  async #ask() {
    try {
      const { clients, lines, mcp, conversations } = /** @type {ClientStates} */ (await get("clients"));
      this.problem.hidden = true;
      this.directory = conversations;
      this.#show(clients, lines);
      this.mcp.show(mcp, this.admin);
      return clients.filter((client) => client.lastSeen !== null).length;
    } catch (error) {
      this.problem.hidden = false;
      this.problem.replaceChildren(icon("warning"), error instanceof Error ? error.message : String(error));
      return 0;
    }
  }

  /**
   * @param {ClientState[]} clients
   * @param {ClientLines[]} lines
   */
  #show(clients, lines) {
    if (JSON.stringify(clients) !== JSON.stringify(this.clients)) this.table.setRows(clients);
    this.clients = clients;
    this.lines = lines;
    const chosen = this.client.options.length ? this.client.value : null;
    const options = lines.map(({ client, name }) => h("option", { value: client ?? "" }, name ?? ANY));
    swap(this.client, ...options);
    if (chosen !== null && lines.some(({ client }) => (client ?? "") === chosen)) this.client.value = chosen;
    this.#draw();
  }

  /** @param {SuiteStatus} status */
  show({ role, program, configFlag }) {
    if (this.typing.program !== program || this.typing.configFlag !== configFlag) {
      this.typing = { program, configFlag };
      this.hmac.textContent = typed(this.typing, "hmac");
      this.#draw();
    }
    if (this.admin === (role === "admin")) return;
    this.admin = role === "admin";
    this.table.setRows(this.clients);
    this.mcp.show(this.mcp.memories, this.admin);
  }

  /** @param {ClientState} client */
  #memory({ client, configured, memoryEnabled }) {
    if (!configured) return h("span", { class: "muted" }, "off; it needs a name in mitm.yaml");
    const word = memoryEnabled ? "Switch off" : "Switch on";
    const label = `${word} the memory of ${client}`;
    const change = this.once.button(`switch ${client}`, () => this.#switch(client, !memoryEnabled));
    const state = h("a", { href: addressOf(client), "aria-label": `Conversations of ${client}: memory is ${memoryEnabled ? "on" : "off"}` }, memoryEnabled ? "on" : "off");
    return h("span", { class: "switch" }, state, this.admin && h("button", { "aria-label": label, ...change }, word));
  }

  /**
   * @param {string} client
   * @param {boolean} enabled
   */
  async #switch(client, enabled) {
    const switched = await switchMemory(client, enabled, this.directory);
    await this.load();
    if (switched?.token) this.mcp.tell(client, switched.lines);
  }

  #draw() {
    const line = this.lines.find(({ client }) => (client ?? "") === this.client.value);
    if (!line) return swap(this.how, h("p", { class: "muted" }, "The lines are known once the proxy runs."));
    const text = line.shells[/** @type {Shell} */ (this.shell.value)];
    if (line.problem || !text) return swap(this.how, h("p", { class: "problem" }, icon("warning"), line.problem ?? "There is no line for this shell."));
    const name = line.client && !line.command ? [`--client ${line.client}`] : [];
    const start = typed(this.typing, "with", ...name, "--", line.command ?? "COMMAND");
    swap(
      this.how,
      h("p", {}, "Paste these lines into the shell that starts it:"),
      Copy(text),
      h("p", { class: "muted" }, "Or leave the shell alone, and start it with ", code(start)),
    );
  }
}

/** @param {ClientState} client */
function told({ matches }) {
  if (!matches) return h("span", { class: "muted" }, "its User-Agent, by itself");
  /** @type {(Node | string)[][]} */
  const ways = [];
  if (matches.listen) ways.push(["the listener ", code(matches.listen)]);
  if (matches.proxyUser) ways.push(["the proxy user ", code(matches.proxyUser)]);
  if (matches.apiKey) ways.push(["its API key"]);
  if (matches.userAgent) ways.push(["a User-Agent like ", code(matches.userAgent)]);
  return h("span", {}, ...ways.flatMap((way, at) => (at ? [" and ", ...way] : way)));
}

/** @param {HTMLElement} hmac the command */
function keyed(hmac) {
  return h(
    "details",
    {},
    h("summary", {}, "Tell a client by its API key"),
    h(
      "ol",
      { class: "steps" },
      h("li", {}, "Run ", hmac, " and type the key. It is not shown and not stored."),
      h("li", {}, "Put what it prints under ", code("clients"), " in mitm.yaml:"),
    ),
    Copy('clients:\n  - {name: nightly, match: {api_key: "hmac:…"}}'),
  );
}
