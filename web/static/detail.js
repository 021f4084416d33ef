// @ts-check
// The panel of one past request: everything that the activity knows of it.
import { Ago } from "./components/Ago.js";
import { Decision } from "./components/Decision.js";
import { Lines } from "./components/Lines.js";
import { NoteLink } from "./components/NoteLink.js";
import { ScanState } from "./components/ScanState.js";
import { Where } from "./components/Where.js";
import { h, icon } from "./dom.js";
import { outcome, recalled } from "./entry.js";
import { counted, number, size } from "./words.js";

const NOT_SENT = {
  blocked: "To no model: it was blocked.",
  failed: "To no model that is known of.",
  aborted: "To no model that is known of: the client left.",
  answered: "In mode annotate it is not recorded who received a body.",
};

/**
 * @param {ActivityEntry} entry
 * @param {object} hear
 * @param {() => void} hear.onClose
 * @param {(note: string) => void} hear.onNote show only requests with this note
 * @returns {Node[]}
 */
export function detail(entry, { onClose, onNote }) {
  const titles = new Map(entry.notes.map((note) => [note.id, note.title]));
  return [
    h(
      "header",
      {},
      h("h2", { id: "detail-title", tabindex: "-1" }, `${entry.client} to ${entry.model || entry.provider}`),
      h("button", { type: "button", class: "quiet", "aria-label": "Close", onclick: onClose }, icon("close")),
      h("p", { class: "path" }, entry.id),
    ),
    facts(entry),
    part("Received by", ...receivers(entry)),
    part(entry.notes.length ? `${counted(entry.notes.length, "note")} in it` : "Notes in it", ...carried(entry, onNote)),
    part("Decision", Decision(entry.decision), ...rules(entry, titles)),
    part("Scan", ScanState(entry.scan)),
    part("Tokens", ...usage(entry.usage)),
  ];
}

/**
 * @param {string} title
 * @param {...Node} children
 */
function part(title, ...children) {
  return h("section", {}, h("h3", {}, title), ...children);
}

/** @param {[string, Node | string | null][]} pairs */
function list(pairs) {
  return h("dl", {}, ...pairs.flatMap(([name, value]) => (value === null ? [] : [h("dt", {}, name), h("dd", {}, value)])));
}

/** @param {ActivityEntry} entry */
function facts(entry) {
  const { startedAt, finishedAt, recalls } = entry;
  const taken = finishedAt && (Date.parse(finishedAt) - Date.parse(startedAt)) / 1000;
  return list([
    ["Began", Ago(startedAt)],
    ["Took", typeof taken === "number" ? `${taken < 10 ? taken.toFixed(1) : number(Math.round(taken))} s` : null],
    ["Outcome", outcome(entry)],
    ["Memory", recalls?.searches ? `${counted(recalls.searches, "search", "searches")}, ${recalled(recalls)}` : null],
    ["Provider", `${entry.provider} (${entry.protocol})`],
    ["Conversation", entry.conversation],
    ["Bytes", `${size(entry.bytes.request)} there, ${size(entry.bytes.response)} back`],
    ["Kind", entry.sideRequest ? "side request, as for a title or a token count" : null],
  ]);
}

/** @param {ActivityEntry} entry */
function receivers({ sentTo, outcome: end }) {
  if (!sentTo.length) return [h("p", { class: "muted" }, end ? NOT_SENT[end] : "To none so far.")];
  return [
    h("ul", { class: "receivers" }, ...sentTo.map(({ model, to, upstream }) => h("li", {}, Where(to, model), h("small", {}, `${to}, ${upstream}`)))),
  ];
}

/**
 * @param {ActivityEntry} entry
 * @param {(note: string) => void} onNote
 */
function carried(entry, onNote) {
  if (!entry.notes.length) return [h("p", { class: "muted" }, entry.scan.state === "unscanned" ? "It was not looked at." : "None.")];
  return [h("ul", { class: "carried" }, ...entry.notes.map((note) => sighting(note, onNote)))];
}

/**
 * @param {SightingEntry} note
 * @param {(note: string) => void} onNote
 */
function sighting(note, onNote) {
  const evidence = note.evidence ?? [];
  return h(
    "li",
    {},
    NoteLink(note, { caption: true }),
    h("span", { class: "carried-facts" }, Lines(note), h("span", {}, note.resent ? "again in this conversation" : "first time in this conversation")),
    evidence.length > 0 &&
      h(
        "details",
        {},
        h("summary", {}, `Found at ${counted(evidence.length, "place")}`),
        h("ul", { class: "pointers" }, ...evidence.map(({ pointer, lines }) => h("li", {}, h("code", {}, pointer || "/"), lines > 0 && h("small", {}, counted(lines, "line"))))),
      ),
    h("button", { type: "button", class: "quiet", onclick: () => onNote(note.id) }, "Only requests with it"),
  );
}

/**
 * @param {ActivityEntry} entry
 * @param {Map<string, string>} titles
 * @returns {Node[]}
 */
function rules({ decision }, titles) {
  const parts = decision.rules ?? [];
  if (!parts.length) return [h("p", { class: "muted" }, "No rule had a part in it.")];
  return [
    h(
      "ul",
      { class: "rule-parts" },
      ...parts.map(({ name, action, notes }) =>
        h("li", {}, h("b", {}, name), h("small", {}, `${action}: ${notes.length ? notes.map((id) => titles.get(id) ?? id).join(", ") : "the request itself"}`)),
      ),
    ),
  ];
}

/** @param {ActivityEntry["usage"]} usage */
function usage({ input, output, cacheRead, cacheWrite }) {
  const said = /** @type {[string, number | null][]} */ ([
    ["In", input],
    ["Out", output],
    ["Cache read", cacheRead],
    ["Cache written", cacheWrite],
  ]).filter(([, count]) => count !== null);
  if (!said.length) return [h("p", { class: "muted" }, "The provider did not say.")];
  return [list(said.map(([name, count]) => [name, number(count ?? 0)]))];
}
