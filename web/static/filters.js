// @ts-check
// Which notes the map and the table show, and what the colours say. Remembered in this browser.
import { places } from "./sharing.js";
import { byId, h, icon, root } from "./dom.js";

/**
 * @typedef {object} Choice what is chosen; "" everywhere: all notes
 * @property {string} source
 * @property {string} folder
 * @property {string} tag
 * @property {string} links "linked", "orphans"
 * @property {string} sent "ever", "cloud", "local", "never"
 * @property {string} colour a ColourBy
 */

const KEY = `mitmemory map ${root.pathname}`;
/** @type {Choice} */
const ALL = { source: "", folder: "", tag: "", links: "", sent: "", colour: "folder" };
const LINKS = [["", "All notes"], ["linked", "With links"], ["orphans", "Orphans only"]];
const SENT = [["", "All notes"], ["ever", "Ever sent"], ["cloud", "To a cloud model"], ["local", "To a local model"], ["never", "Never sent"]];
const COLOURS = [["folder", "Folder"], ["source", "Source"], ["community", "Community"], ["exposure", "Where it went"]];

export class Filters {
  /** @param {() => void} onChange */
  constructor(onChange) {
    this.choice = remembered();
    this.onChange = onChange;
    this.form = byId("filters");
    this.button = byId("filters-button");
    this.word = h("span", {}, "Filters");
    this.button.append(icon("filter"), this.word);
    /** @type {Record<string, HTMLSelectElement>} */
    this.selects = {};
    const select = (/** @type {keyof Choice} */ name, /** @type {string} */ word, /** @type {string[][]} */ options) => {
      const element = h("select", { id: `filter-${name}`, onchange: () => this.#chosen(name, element.value) });
      this.selects[name] = element;
      fill(element, options, this.choice[name]);
      return h("div", {}, h("label", { for: `filter-${name}` }, word), element);
    };
    this.reset = h("button", { type: "button", class: "quiet", onclick: () => this.#reset() }, "Show all notes");
    this.form.append(
      select("source", "Source", []),
      select("folder", "Folder", []),
      select("tag", "Tag", []),
      select("links", "Links", LINKS),
      select("sent", "Sent", SENT),
      select("colour", "Colour by", COLOURS),
      this.reset,
    );
    this.#say();
  }

  /** How many filters hide something. */
  get active() {
    const { source, folder, tag, links, sent } = this.choice;
    return [source, folder, tag, links, sent].filter(Boolean).length;
  }

  /** Offer what these notes have. A remembered choice that none of them fits any more is dropped. @param {MapNode[]} notes */
  setNodes(notes) {
    /** @type {Set<string>} */
    const folders = new Set();
    for (const { folder } of notes) {
      for (let at = folder.length; at > 0; at = folder.lastIndexOf("/", at - 1)) folders.add(folder.slice(0, at));
    }
    this.#offer("source", "All sources", notes.map((note) => note.source));
    this.#offer("folder", "All folders", folders);
    this.#offer("tag", "All tags", notes.flatMap((note) => note.tags), "#");
    this.#say();
  }

  /**
   * @param {MapNode} note
   * @param {NoteExposure | undefined} exposure
   */
  passes(note, exposure) {
    const { source, folder, tag, links, sent } = this.choice;
    if (source && note.source !== source) return false;
    if (folder && note.folder !== folder && !note.folder.startsWith(`${folder}/`)) return false;
    if (tag && !note.tags.some((one) => one === tag || one.startsWith(`${tag}/`))) return false;
    if (links && (note.degree === 0) !== (links === "orphans")) return false;
    if (!sent) return true;
    const went = exposure ? places(exposure) : new Set();
    if (sent === "ever" || sent === "never") return went.size > 0 === (sent === "ever");
    return went.has(sent);
  }

  /**
   * @param {keyof Choice} name
   * @param {string} all
   * @param {Iterable<string>} values
   * @param {string} [sign] stands before each
   */
  #offer(name, all, values, sign = "") {
    const options = [...new Set(values)].sort().map((value) => [value, sign + value]);
    if (!options.some(([value]) => value === this.choice[name])) this.choice[name] = "";
    fill(this.selects[name], [["", all], ...options], this.choice[name]);
    this.selects[name].disabled = options.length < 1;
  }

  /**
   * @param {keyof Choice} name
   * @param {string} value
   */
  #chosen(name, value) {
    this.choice[name] = value;
    this.#changed();
  }

  #reset() {
    this.choice = { ...ALL, colour: this.choice.colour };
    for (const [name, element] of Object.entries(this.selects)) element.value = this.choice[/** @type {keyof Choice} */ (name)];
    this.#changed();
  }

  #changed() {
    try {
      localStorage.setItem(KEY, JSON.stringify(this.choice));
    } catch {
      // the browser keeps nothing for this page: the choice holds until it is closed
    }
    this.#say();
    this.onChange();
  }

  #say() {
    this.word.textContent = this.active ? `Filters (${this.active})` : "Filters";
    this.reset.hidden = !this.active;
  }
}

/** @returns {Choice} */
function remembered() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    const known = Object.entries(ALL).map(([name, all]) => [name, typeof kept[name] === "string" ? kept[name] : all]);
    const choice = Object.fromEntries(known);
    const fits = (/** @type {string} */ name, /** @type {string[][]} */ options) => options.some(([value]) => value === choice[name]);
    return fits("links", LINKS) && fits("sent", SENT) && fits("colour", COLOURS) ? choice : { ...ALL };
  } catch {
    return { ...ALL }; // nothing can be read, or somebody wrote something else there
  }
}

/**
 * @param {HTMLSelectElement} element
 * @param {string[][]} options value and word
 * @param {string} value
 */
function fill(element, options, value) {
  element.replaceChildren(...options.map(([one, word]) => h("option", { value: one }, word)));
  element.value = value;
}
