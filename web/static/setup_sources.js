// @ts-check
// The sources of notes on the Setup page: what was found in each, switching, removing, adding.
import { get, put, ApiError } from "./api.js";
import { Ago } from "./components/Ago.js";
import { Confirm } from "./components/Confirm.js";
import { Toast } from "./components/Toast.js";
import { h, icon } from "./dom.js";
import { Adding } from "./setup_adding.js";
import { code, some, swap } from "./setup_parts.js";
import { counted } from "./words.js";

const KINDS = /** @type {Record<string, string>} */ ({
  markdown: "Markdown folder",
  claude_code: "Claude Code's memory",
  knowledge_graph: "MCP memory graph",
  conversations: "Conversations",
});
const WARNINGS = 5;

export class Sources {
  /**
   * @param {Element} element
   * @param {() => void} onChange
   */
  constructor(element, onChange) {
    this.onChange = onChange;
    /** @type {SourceSettings | null} */
    this.settings = null;
    /** @type {SourceState[]} */
    this.states = [];
    this.admin = false;
    this.saving = false;
    this.turn = 0; // answers that come late tell of before
    this.problem = h("p", { class: "problem", hidden: true });
    this.list = h("ul", { class: "sources" });
    this.adding = new Adding((source, said) => this.#save([...this.#all(), source], said));
    this.reader = h("p", { class: "muted", hidden: true }, "You look with the read-only token: changes need the link that mitmemory prints.");
    element.append(this.problem, this.list, this.adding.element, this.reader);
  }

  async load() {
    const mine = ++this.turn;
    try {
      const settings = await get("memory/sources");
      if (mine !== this.turn) return;
      this.settings = settings;
      this.problem.hidden = true;
    } catch (error) {
      if (mine !== this.turn) return;
      this.settings = null;
      this.problem.hidden = false;
      this.problem.replaceChildren(icon("warning"), error instanceof Error ? error.message : String(error));
    }
    this.#draw();
  }

  /** @param {SuiteStatus} status */
  show({ sources = [], role }) {
    this.states = sources;
    this.admin = role === "admin";
    this.#draw();
  }

  #all() {
    return this.settings?.sources ?? [];
  }

  #draw() {
    const states = new Map(this.states.map((state) => [state.name, state]));
    const lines = this.#all().map((source) => this.#line(source, states.get(source.name) ?? null));
    const named = new Set(this.#all().map((source) => source.name));
    const others = this.states.filter((state) => !named.has(state.name)).map((state) => this.#other(state));
    const none = h("li", { class: "muted" }, "No source yet. Add one: your notes stay where they are, and are only read.");
    swap(this.list, ...(lines.length + others.length ? [...lines, ...others] : [none]));
    const mayChange = this.admin && this.settings !== null && this.settings.file !== null;
    this.adding.show(mayChange ? this.settings : null);
    this.reader.hidden = this.admin;
  }

  /**
   * @param {SourceSetting} source
   * @param {SourceState | null} state
   */
  #line(source, state) {
    const { name, enabled } = source;
    const buttons =
      this.admin &&
      h(
        "span",
        { class: "buttons" },
        h("button", { type: "button", "data-key": `switch ${name}`, "aria-label": `Switch ${name} ${enabled ? "off" : "on"}`, onclick: () => this.#switch(name) }, enabled ? "Switch off" : "Switch on"),
        h("button", { type: "button", "data-key": `remove ${name}`, "aria-label": `Remove ${name}`, onclick: () => this.#remove(name) }, "Remove"),
      );
    const less = [
      source.exclude.length > 0 && `without ${source.exclude.join(", ")}`,
      source.extensions.length > 0 && `with ${source.extensions.join(", ")} files`,
    ].filter(Boolean);
    return h(
      "li",
      { class: enabled ? "source" : "source off" },
      h("div", { class: "source-head" }, h("b", {}, name), h("small", {}, KINDS[source.kind] ?? `class ${source.kind}`), buttons),
      h("p", {}, code(source.path ?? ""), less.length > 0 && h("small", {}, ` ${less.join("; ")}`)),
      ...this.#found(enabled, state),
    );
  }

  /** One that was added in code, or is no longer in the file. @param {SourceState} state */
  #other(state) {
    return h(
      "li",
      { class: "source" },
      h("div", { class: "source-head" }, h("b", {}, state.name), h("small", {}, KINDS[state.kind] ?? state.kind)),
      h("p", {}, code(state.location), this.settings && h("small", {}, " not in mitm.yaml")),
      ...this.#found(state.enabled, state),
    );
  }

  /**
   * @param {boolean} enabled
   * @param {SourceState | null} state
   */
  #found(enabled, state) {
    if (!enabled) return [h("p", { class: "muted" }, "Switched off: its notes are not on the map, and not looked for.")];
    if (state?.error) return [h("p", { class: "problem" }, icon("warning"), state.error)];
    if (!state?.scannedAt) return [h("p", { class: "muted" }, "Being read…")];
    const { notes, skipped, warnings, scannedAt } = state;
    const said = [counted(notes, "note"), skipped > 0 && `${counted(skipped, "file")} skipped`].filter(Boolean).join(", ");
    return [
      h("p", { class: "muted" }, `${said}, read `, Ago(scannedAt)),
      warnings.length > 0 &&
        h(
          "details",
          {},
          h("summary", {}, counted(warnings.length, "warning")),
          some(warnings, WARNINGS, ({ path, reason }) => `${path}: ${reason}`),
        ),
    ].filter((part) => part instanceof Node);
  }

  /** @param {string} name */
  async #switch(name) {
    const { enabled } = this.#all().find((source) => source.name === name) ?? { enabled: false };
    const changed = this.#all().map((source) => (source.name === name ? { ...source, enabled: !enabled } : source));
    await this.#save(changed, enabled ? `${name} is switched off.` : `${name} is switched on, and being read.`);
  }

  /** @param {string} name */
  async #remove(name) {
    const back = this.settings?.allowProcessSettings ? "" : " To have it back, edit mitm.yaml: this page may not add places of your choice.";
    const yes = await Confirm({
      title: `Remove ${name}?`,
      text: `Its notes leave the map and are no longer recognised in requests, and rules no longer keep them at home. The files themselves stay as they are.${back}`,
      action: "Remove",
    });
    if (yes) await this.#save(this.#all().filter((source) => source.name !== name), `${name} is removed.`);
  }

  /**
   * @param {SourceSetting[]} sources
   * @param {string} said when it worked
   * @returns {Promise<string | null>} why it did not work
   */
  async #save(sources, said) {
    if (this.saving) return ""; // the second click of somebody's double-click: the first one is on its way
    this.saving = true;
    try {
      this.settings = await put("memory/sources", { sources, version: this.settings?.version });
      this.turn++; // what was asked for before may be what was there before
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      Toast(message, { failed: true });
      if (error instanceof ApiError && error.status === 409) await this.load();
      return message;
    } finally {
      this.saving = false;
    }
    Toast(said);
    this.#draw();
    this.onChange();
    return null;
  }
}
