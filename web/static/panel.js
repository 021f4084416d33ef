// @ts-check
// The panel of one note: what it is, what it links to, where it has been.
import { get } from "./api.js";
import { Ago } from "./components/Ago.js";
import { Decision } from "./components/Decision.js";
import { Lines } from "./components/Lines.js";
import { NoteLink } from "./components/NoteLink.js";
import { Where } from "./components/Where.js";
import { byId, h, icon, root } from "./dom.js";
import { swapEach } from "./setup_parts.js";
import { counted, number, receivers, size } from "./words.js";

const REQUESTS = 20;
const DEPTHS = [0, 1, 2, 3];

/**
 * @typedef {object} Facts
 * @property {MapNode} node
 * @property {MapNode[]} out the notes it links to
 * @property {MapNode[]} into the notes that link to it
 * @property {NoteExposure | undefined} exposure
 * @property {number} depth links from it within which the map shows notes; 0: all
 */

export class Panel {
  /**
   * @param {object} hear
   * @param {() => void} hear.onClose
   * @param {(depth: number) => void} hear.onDepth
   */
  constructor({ onClose, onDepth }) {
    this.element = byId("panel");
    this.onClose = onClose;
    this.onDepth = onDepth;
    /** @type {Facts | null} */
    this.facts = null;
    this.asked = 0; // how often the requests were asked for: the last answer counts
    this.exposure = h("section", { "aria-labelledby": "panel-sent" });
    this.requests = h("section", { "aria-labelledby": "panel-requests" });
  }

  /** The id of the note that is shown; "": none. */
  get shown() {
    return this.facts?.node.id ?? "";
  }

  /** Whether it lies at the right, and not as a sheet at the bottom. */
  get beside() {
    return this.element.offsetTop === 0;
  }

  /** @param {Facts} facts */
  open(facts) {
    const { node, out, into } = facts;
    const other = node.id !== this.shown;
    this.facts = facts;
    const parts = [
      h(
        "header",
        {},
        h("h2", {}, node.title),
        h("button", { type: "button", class: "quiet", "aria-label": "Close", onclick: this.onClose }, icon("close")),
        h("p", { class: "path", title: node.id }, node.id),
      ),
      h(
        "ul",
        { class: "chips", "aria-label": "Tags" },
        ...node.tags.map((tag) => h("li", {}, `#${tag}`)),
      ),
      h("dl", {}, ...factsOf(node)),
      this.#depths(facts.depth),
      this.exposure,
      links("Links to", out),
      links("Linked from", into),
      this.requests,
    ];
    const inside = this.element.contains(document.activeElement);
    if (other) this.element.replaceChildren(...parts);
    else swapEach(this.element, ...parts);
    this.element.hidden = false;
    this.setExposure(facts.exposure);
    if (other) this.requests.replaceChildren();
    void this.loadRequests();
    if (other) this.element.scrollTop = 0;
    if (other && inside) this.element.focus(); // whoever followed a link of it is at the next one
  }

  /** How far around the note the map is shown. @param {number} chosen */
  #depths(chosen) {
    const inputs = DEPTHS.map((depth) => h("input", { type: "radio", name: "depth", value: depth, checked: depth === chosen }));
    const choices = inputs.map((input, at) => h("label", {}, input, h("span", {}, DEPTHS[at] ? counted(DEPTHS[at], "link") : "All")));
    for (const [at, input] of inputs.entries()) {
      input.addEventListener("change", () => {
        for (const one of inputs) one.toggleAttribute("checked", one === input); // as it is made the next time
        this.onDepth(DEPTHS[at]);
      });
    }
    return h("fieldset", { class: "depths" }, h("legend", {}, "Map around it"), ...choices);
  }

  close() {
    this.facts = null;
    this.element.hidden = true;
  }

  /** @param {NoteExposure | undefined} exposure */
  setExposure(exposure) {
    this.exposure.replaceChildren(h("h3", { id: "panel-sent" }, "Sent"), ...(exposure ? sent(exposure) : [neverSent()]));
  }

  /** Load the requests that carried the note. */
  async loadRequests() {
    const id = this.shown;
    const mine = ++this.asked;
    const head = h("h3", { id: "panel-requests" }, "Requests that carried it");
    try {
      const { entries, next } = await get(`activity?note=${encodeURIComponent(id)}&limit=${REQUESTS}`);
      if (mine !== this.asked) return;
      const list = h("ol", { class: "carried" }, ...entries.map((/** @type {ActivityEntry} */ entry) => carried(entry, id)));
      const all = new URL(`activity?note=${encodeURIComponent(id)}`, root).href;
      const more = next && h("p", { class: "carried-more" }, h("a", { href: all }, "All of them, on the Activity page"));
      swapEach(this.requests, head, entries.length ? list : h("p", { class: "muted" }, "None in the activity kept."), more || new Text());
    } catch (error) {
      const said = error instanceof Error ? error.message : String(error);
      if (mine === this.asked) swapEach(this.requests, head, h("p", { class: "muted" }, said), new Text());
    }
  }
}

/** @param {MapNode} node */
function factsOf(node) {
  const recognised =
    node.detectable === "text"
      ? counted(node.distinctiveLines, "distinctive line")
      : "by mention only: no line is long and distinctive enough";
  /** @type {[string, string][]} */
  const facts = [["Recognised", recognised]];
  if (node.aliases.length) facts.push(["Also called", node.aliases.join(", ")]);
  facts.push(["Size", `${size(node.size)}, ${counted(node.lines, "line")}`]);
  if (node.unresolved) facts.push(["Unresolved", `${counted(node.unresolved, "link")} to no note`]);
  return facts.flatMap(([term, fact]) => [h("dt", {}, term), h("dd", {}, fact)]);
}

function neverSent() {
  return h("p", { class: "muted" }, "Not since mitmemory was started or sharing was cleared.");
}

/** @param {NoteExposure} exposure */
function sent(exposure) {
  const row = (/** @type {Place} */ place) => {
    const [content, reference] = [exposure[`${place}Content`], exposure[`${place}Reference`]];
    if (!content && !reference) return false;
    const parts = [content && `${number(content)}× its text`, reference && `${number(reference)}× its name only`];
    return h("li", {}, Where(place), h("span", {}, parts.filter(Boolean).join(", ")));
  };
  const models = Object.entries(exposure.models).sort(([, a], [, b]) => b - a);
  const once = exposure.firstShared === exposure.lastShared;
  return [
    h("ul", { class: "places" }, row("cloud"), row("local")),
    h("dl", {},
      h("dt", {}, "Models"),
      h("dd", {}, models.map(([model, count]) => `${model} ${number(count)}×`).join(", ")),
      h("dt", {}, once ? "Sent" : "Last"),
      h("dd", {}, Ago(exposure.lastShared)),
      ...(once ? [] : [h("dt", {}, "First"), h("dd", {}, Ago(exposure.firstShared))]),
    ),
  ];
}

/**
 * @param {string} title
 * @param {MapNode[]} nodes
 */
function links(title, nodes) {
  if (!nodes.length) return new Text();
  const items = [...nodes].sort((a, b) => (a.title < b.title ? -1 : 1)).map((node) => h("li", {}, NoteLink(node)));
  return h("section", {}, h("h3", {}, title, h("small", {}, number(nodes.length))), h("ul", { class: "links" }, ...items));
}

/**
 * @param {ActivityEntry} entry
 * @param {string} id
 */
function carried(entry, id) {
  const sighting = entry.notes.find((one) => one.id === id);
  return h(
    "li",
    {},
    h("div", { class: "carried-head" }, h("b", {}, entry.client), Ago(entry.startedAt)),
    ...receivers(entry).map(({ model, to }) => h("div", {}, Where(to, `${model} (${to})`))),
    h(
      "div",
      { class: "carried-facts" },
      sighting && Lines(sighting),
      sighting && h("span", {}, sighting.resent ? "again" : "first time"),
      entry.decision.action !== "allow" && Decision(entry.decision),
    ),
  );
}
