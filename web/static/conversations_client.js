// @ts-check
// The head of a client's memory: whether it is on, how large it is, what is under way or failed, and what can be done.
import { post, remove } from "./api.js";
import { Confirm } from "./components/Confirm.js";
import { Copy } from "./components/Copy.js";
import { Toast } from "./components/Toast.js";
import { addressOf, memoryOf } from "./conversations_place.js";
import { h, icon } from "./dom.js";
import { switchMemory } from "./memory_switch.js";
import { code, swap } from "./setup_parts.js";
import { counted, number, size } from "./words.js";

export class ClientHead {
  /**
   * @param {import("./once.js").Once} once
   * @param {object} does
   * @param {() => Promise<void>} does.onSwitch the memory was switched on or off
   * @param {() => Promise<void>} does.onChange something was begun, or everything was deleted
   * @param {(session: string) => Promise<void>} does.onCompact a summary that failed is to be tried again
   */
  constructor(once, { onSwitch, onChange, onCompact }) {
    this.once = once;
    this.does = { onSwitch, onChange, onCompact };
    this.title = h("h2", { id: "client-title", tabindex: "-1" });
    this.line = h("div", { class: "client-line" });
    this.facts = h("p", { class: "facts muted" });
    this.notices = h("div", { class: "notices", "aria-live": "polite" });
    this.opened = h("div", { class: "opened", "aria-live": "polite" });
    this.element = h("div", { class: "client-head" }, this.line, this.facts, this.notices, this.opened);
    /** @type {ClientState | null} */
    this.client = null;
    /** @type {string | null} */
    this.directory = null;
    /** @type {ClientMemory | null} */
    this.memory = null;
  }

  /**
   * @param {ClientState} client
   * @param {ClientMemory | null} memory null: it is not known
   * @param {string | null} directory where conversations are stored
   */
  show(client, memory, directory) {
    if (client.client !== this.client?.client) this.opened.replaceChildren();
    this.client = client;
    this.memory = memory;
    this.directory = directory;
    if (this.title.textContent !== client.name) this.title.textContent = client.name;
    if (!this.title.isConnected) this.line.append(this.title);
    this.#buttons(client, memory);
    swap(this.facts, ...(memory && memory.folder ? facts(memory) : []));
    swap(this.notices, ...(memory ? this.#said(memory) : []));
  }

  /**
   * @param {ClientState} client
   * @param {ClientMemory | null} memory
   */
  #buttons({ client, configured, memoryEnabled }, memory) {
    const button = (/** @type {string} */ key, /** @type {string} */ word, /** @type {string} */ label, /** @type {() => Promise<void>} */ action, { busy = false, danger = false } = {}) =>
      h("button", { "data-key": key, "aria-label": label, class: danger && "danger", ...this.once.button(`${key} ${client}`, action, busy) }, word);
    const word = memoryEnabled ? "Switch off" : "Switch on";
    const parts = [
      h("span", { class: memoryEnabled ? "memory-state on" : "memory-state" }, `Memory is ${memoryEnabled ? "on" : "off"}`),
      configured && button("switch", word, `${word} the memory of ${client}`, () => this.#switch(!memoryEnabled)),
    ];
    if (memory?.folder) {
      parts.push(
        h(
          "span",
          { class: "buttons" },
          memoryEnabled && button("rebuild", "Rebuild index", `Rebuild index of ${client}`, () => this.#rebuild(), { busy: memory.rebuilding !== null }),
          button("open", "Open folder", `Open folder of ${client}`, () => this.#open()),
          button("delete", "Delete everything", `Delete everything of ${client}`, () => this.#deleteAll(), { danger: true }),
        ),
      );
    }
    const rest = /** @type {HTMLElement} */ (this.line.querySelector(".client-does") ?? this.line.appendChild(h("div", { class: "client-does" })));
    swap(rest, .../** @type {Node[]} */ (parts.filter(Boolean)));
  }

  /** @param {ClientMemory} memory */
  #said(memory) {
    /** @type {Node[]} */
    const parts = [];
    const problem = (/** @type {(Node | string | false)[]} */ ...said) => parts.push(h("p", { class: "problem" }, icon("warning"), h("span", {}, ...said)));
    if (memory.problem) problem(memory.problem);
    if (memory.rebuilding) {
      const { done, total } = memory.rebuilding;
      parts.push(
        h(
          "p",
          { class: "under-way" },
          h("progress", total ? { value: done, max: total, "aria-label": "Rebuilding the index" } : { "aria-label": "Rebuilding the index" }),
          total ? `The index is being made anew: ${number(done)} of ${counted(total, "file")}` : "The index is being made anew",
        ),
      );
    } else if (memory.index?.pending) {
      parts.push(h("p", { class: "under-way" }, `${counted(memory.index.pending, "file")} still to be indexed: what is new there is not found yet.`));
    }
    if (memory.index?.failed) problem(`${counted(memory.index.failed, "file")} could not be indexed. The terminal says why; Rebuild index tries again.`);
    const compaction = memory.compaction;
    if (compaction?.working) parts.push(h("p", { class: "under-way" }, h("progress", { "aria-label": "Summarising" }), "The session ", linkTo(memory.client, compaction.working), " is being summarised"));
    const waiting = (compaction?.pending ?? 0) - (compaction?.working ? 1 : 0) - (compaction?.failures.length ?? 0);
    if (compaction?.enabled && waiting > 0) parts.push(h("p", { class: "muted" }, `${counted(waiting, "session")} waiting to be summarised`));
    for (const { session, message, tries, nextAt } of compaction?.failures ?? []) {
      const compact = this.once.button(`compact ${memory.client} ${session}`, () => this.does.onCompact(session));
      const again = h("button", { "data-key": `again ${session}`, "aria-label": `Try again to compact ${session}`, ...compact }, "Try again");
      const next = compaction?.enabled ? ` It is tried again at ${new Date(nextAt).toLocaleTimeString(undefined, { timeStyle: "short" })}.` : "";
      const tried = tries > 1 ? `, tried ${tries} times` : "";
      problem("The session ", linkTo(memory.client, session), ` could not be summarised${tried}: ${message}. Its transcript is searched as before.${next} `, again);
    }
    return parts;
  }

  /** @param {boolean} enabled */
  async #switch(enabled) {
    if (this.client && (await switchMemory(this.client.client, enabled, this.directory))) await this.does.onSwitch();
  }

  async #rebuild() {
    await this.#do(async (client) => {
      await post(`clients/${encodeURIComponent(client)}/rebuild`);
      await this.does.onChange();
    });
  }

  async #open() {
    await this.#do(async (client) => {
      const { path, opened } = await post("conversations/open", { client });
      if (client !== this.client?.client) return; // another one is shown by now
      const said = opened ? "The folder is opened on this machine:" : "The folder could not be opened from here. It is:";
      this.opened.replaceChildren(h("p", { class: "muted" }, said), Copy(path));
    });
  }

  async #deleteAll() {
    await this.#do(async (client) => {
      const { folder, sessions } = /** @type {ClientMemory} */ (this.memory);
      const yes = await Confirm({
        title: `Delete everything of ${client}?`,
        text: `${counted(sessions, "session")} with all conversations, transcripts, summaries and the archive, and the index: the folder ${folder} is deleted. Nothing of it can be brought back. Whether memory is on does not change.`,
        action: "Delete everything",
        typed: client,
      });
      if (!yes) return;
      await remove(memoryOf(client));
      Toast(`Everything that was kept of ${client} is deleted.`);
      if (client === this.client?.client) {
        this.opened.replaceChildren();
        this.title.focus();
      }
      await this.does.onChange();
    });
  }

  /** @param {(client: string) => Promise<void>} action */
  async #do(action) {
    try {
      if (this.client) await action(this.client.client);
    } catch (error) {
      Toast(error instanceof Error ? error.message : String(error), { failed: true });
    }
  }
}

/**
 * @param {string} client
 * @param {string} session
 */
function linkTo(client, session) {
  return h("a", { href: addressOf(client, { session }) }, session);
}

/**
 * @param {ClientMemory} memory
 * @returns {Node[]}
 */
function facts({ sessions, bytes, index, folder }) {
  const said = [
    counted(sessions, "session"),
    `${size(bytes.sessions)} of transcripts and summaries`,
    bytes.archive > 0 && `${size(bytes.archive)} in the archive`,
    `${size(bytes.index)} of index${index ? ` (${counted(index.chunks, "piece")} of ${counted(index.files, "file")})` : ""}`,
  ];
  return [h("span", {}, said.filter(Boolean).join(" · ")), code(folder ?? "")];
}
