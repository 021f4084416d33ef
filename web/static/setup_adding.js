// @ts-check
// Adding a source on the Setup page. What the page may not add becomes a line for mitm.yaml.
import { Copy } from "./components/Copy.js";
import { h, icon } from "./dom.js";
import { code } from "./setup_parts.js";

/** @typedef {{word: string, name: string, kind: string, label: string, path: string, about: string}} Choice */

/** @type {Choice[]} */
const PLACES = [
  {
    word: "Add folder",
    name: "vault",
    kind: "markdown",
    label: "Folder",
    path: "~/Documents/Obsidian Vault",
    about: "A folder of Markdown files: an Obsidian vault, Logseq, Dendron, Foam, or your own.",
  },
  {
    word: "Add MCP graph",
    name: "mcp-memory",
    kind: "knowledge_graph",
    label: "File",
    path: "~/.mcp/memory.jsonl",
    about: "The file of the MCP memory server: what its MEMORY_FILE_PATH names.",
  },
];

export class Adding {
  /** @param {(source: SourceSetting, said: string) => Promise<string | null>} onAdd gives why it did not work, or null */
  constructor(onAdd) {
    this.onAdd = onAdd;
    /** @type {SourceSettings | null} */
    this.settings = null;
    this.form = h("div", { class: "adding" });
    this.buttons = [
      this.#button("Add Claude Code", () => this.#claudeCode()),
      ...PLACES.map((choice) => this.#button(choice.word, () => this.#place(choice))),
    ];
    this.element = h("div", { class: "add", hidden: true }, h("div", { class: "choices" }, ...this.buttons), this.form);
  }

  /** @param {SourceSettings | null} settings null: nothing may be added */
  show(settings) {
    this.settings = settings;
    this.element.hidden = settings === null;
  }

  /**
   * @param {string} word
   * @param {() => Node} make
   */
  #button(word, make) {
    const button = h("button", { type: "button", "aria-expanded": "false" }, icon("add"), word);
    button.addEventListener("click", () => {
      const open = button.getAttribute("aria-expanded") === "false";
      this.#close();
      if (!open) return;
      button.setAttribute("aria-expanded", "true");
      this.form.append(make());
      /** @type {HTMLElement | null} */ (this.form.querySelector("input, button"))?.focus();
    });
    return button;
  }

  #close() {
    for (const button of this.buttons) button.setAttribute("aria-expanded", "false");
    this.form.replaceChildren();
  }

  #claudeCode() {
    const { claudeCode, sources } = /** @type {SourceSettings} */ (this.settings);
    if (sources.some((source) => source.kind === "claude_code" && source.path === claudeCode)) {
      return h("p", { class: "muted", tabindex: "-1" }, "Claude Code's memory is among the sources already.");
    }
    const add = () => this.#add({ ...empty(this.#free("claude-code")), kind: "claude_code", path: null });
    return form(
      "Add Claude Code",
      add,
      h("p", {}, "Claude Code keeps what it remembers in ", code(claudeCode ?? "~/.claude"), ": CLAUDE.md and the memory folders of its projects. Nothing else there is opened."),
      h("button", { type: "submit" }, "Add Claude Code"),
    );
  }

  /** @param {Choice} choice */
  #place(choice) {
    const name = field("Name", this.#free(choice.name));
    const path = field(choice.label, "", choice.path);
    const exclude = field("Leave out", "", "Templates/*, Archive/*");
    const source = () => ({
      ...empty(name.input.value.trim()),
      kind: choice.kind,
      path: path.input.value.trim() || choice.path,
      exclude: exclude.input.value.split(",").map((one) => one.trim()).filter(Boolean),
    });
    const fields = [name.label, path.label, choice.kind === "markdown" && exclude.label];
    const { allowProcessSettings, file } = /** @type {SourceSettings} */ (this.settings);
    if (allowProcessSettings) {
      return form(choice.word, () => this.#add(source()), h("p", {}, choice.about), ...fields, h("button", { type: "submit" }, choice.word));
    }
    const line = h("div", {}, Copy(entry(source())));
    const update = () => line.replaceChildren(Copy(entry(source())));
    const made = form(
      choice.word,
      update,
      h("p", {}, choice.about),
      ...fields,
      h(
        "p",
        { class: "refused" },
        icon("block"),
        h(
          "span",
          {},
          "This page may not add a place of your choice: whoever got hold of its link could have mitmemory read any file of yours. Put this line below ",
          code("sources:"),
          " in ",
          code(file ?? "mitm.yaml"),
          " (in the place of ",
          code("[]"),
          ", where nothing is there yet). It counts as soon as the file is saved. To allow it here, set ",
          code("dashboard.allow_process_settings: true"),
          " there and restart mitmemory.",
        ),
      ),
      line,
    );
    made.addEventListener("input", update);
    return made;
  }

  /** @param {SourceSetting} source */
  async #add(source) {
    const problem = await this.onAdd(source, `${source.name} is added, and being read.`);
    if (problem === null) this.#close();
  }

  /** @param {string} name */
  #free(name) {
    const taken = new Set(this.settings?.sources.map((source) => source.name.toLowerCase()));
    let free = name;
    for (let number = 2; taken.has(free); number++) free = `${name}-${number}`;
    return free;
  }
}

/** @param {string} name */
function empty(name) {
  return { name, exclude: /** @type {string[]} */ ([]), extensions: /** @type {string[]} */ ([]), enabled: true };
}

/**
 * @param {string} title
 * @param {() => void} onsubmit
 * @param {...(Node | false)} children
 */
function form(title, onsubmit, ...children) {
  const submit = (/** @type {Event} */ event) => (event.preventDefault(), onsubmit());
  return h("form", { class: "source-form", "aria-label": title, onsubmit: submit }, ...children);
}

/**
 * @param {string} word
 * @param {string} value
 * @param {string} [placeholder]
 */
function field(word, value, placeholder) {
  const input = h("input", { type: "text", value, placeholder, autocomplete: "off", spellcheck: "false" });
  return { input, label: h("label", {}, h("span", {}, word), input) };
}

/** A line of mitm.yaml; text in quotes is written as in JSON. @param {SourceSetting} source */
function entry({ name, kind, path, exclude }) {
  const word = /^[a-z][\w-]*$/i.test(name) && !/^(y|n|yes|no|on|off|true|false|null)$/i.test(name) ? name : JSON.stringify(name);
  const out = exclude.length ? `, exclude: ${JSON.stringify(exclude)}` : "";
  return `    - {name: ${word}, type: ${kind}, path: ${JSON.stringify(path)}${out}}`;
}
