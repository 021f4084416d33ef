// @ts-check
// The Memory page: the map, its search, its table, the panel of a note.
import { ApiError, get, post } from "./api.js";
import { Confirm } from "./components/Confirm.js";
import { Copy } from "./components/Copy.js";
import { Empty } from "./components/Empty.js";
import { noteHash } from "./components/NoteLink.js";
import { Toast } from "./components/Toast.js";
import { Where } from "./components/Where.js";
import { byId, h, icon } from "./dom.js";
import { frame } from "./frame.js";
import { NoteGraph } from "./map.js";
import { notesTable } from "./notes_table.js";
import { Panel } from "./panel.js";
import { Search } from "./search.js";
import { Sharing, loadMap } from "./sharing.js";
import { counted, number, receivers, sentence } from "./words.js";

const SENT_SHOWN = 3;
const SENT_FOR = 12_000; // ms
const REMEMBERED = 2000; // exchanges; their last event comes long before so many others
const EXAMPLE = `memory:
  sources:
    - {name: vault, type: markdown, path: "~/Documents/Obsidian Vault"}
`;

const sharing = new Sharing();
/** @type {Map<string, MapNode>} */
const nodes = new Map();
/** @type {Map<string, Set<string>>} */
const outgoing = new Map();
/** @type {Map<string, Set<string>>} */
const incoming = new Map();
/** @type {NoteGraph | null} null until there is something to draw, and without WebGL */
let graph = null;
let drawable = true;
/** @type {Set<string>} exchanges whose notes lit up already, the newest of them */
const lit = new Set();
/** @type {ActivityEntry[] | null} events that came before the map; null: they are handled at once */
let early = [];
let events = 0;
let loading = 0;

const panel = new Panel({ onClose: () => closePanel() });
const table = notesTable({
  exposure: (id) => sharing.notes.get(id),
  onFocus: (id) => openNote(id),
  onEnter: () => panel.element.focus(),
});
const search = new Search({
  onFound: (found) => {
    graph?.setFound(found && new Set(found.map((node) => node.id)));
    table.show(found ?? [...nodes.values()]);
    byId("count").textContent = found ? `${number(found.length)} of ${counted(nodes.size, "note")}` : totals();
  },
  onPick: (id) => {
    openNote(id);
    graph?.focus(id);
  },
});
byId("drawer").append(table.element);

frame((kind, data) => {
  if (kind === "activity") {
    if (early) early.push(data);
    else heard(data);
  }
  if (kind === "map" || kind === "resync") void load();
});
addEventListener("hashchange", () => followHash());
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !document.querySelector("dialog[open]") && !search.clear()) closePanel();
});
addButtons();
void load();

/** Load the map and show it. What an older call brings after a newer one started is dropped. */
async function load() {
  const turn = ++loading;
  const stopProgress = nodes.size ? () => {} : showProgress();
  try {
    const [map, entries] = await loadMap();
    if (turn === loading) show(map, entries);
  } catch (error) {
    if (nodes.size) failed(error);
    else cover(Empty({ icon: "warning", title: "The map could not be loaded" }, h("p", {}, messageOf(error))));
  } finally {
    stopProgress();
  }
}

/**
 * @param {MemoryMap} map
 * @param {ActivityEntry[]} entries
 */
function show(map, entries) {
  const links = readLinks(map);
  sharing.load(map.exposure, entries);
  const empty = map.nodes.length === 0;
  byId("tools").hidden = empty;
  byId("legend").hidden = empty;
  if (empty) {
    graph?.setData([], []);
    byId("drawer").hidden = true;
    cover(nothing(map.sources));
  } else {
    cover(null);
    draw(map.nodes, links);
    search.setNodes(map.nodes);
    marksChanged();
    followHash();
  }
  document.documentElement.dataset.map = empty ? "empty" : graph ? "ready" : "table";
  if (!early) return;
  for (const entry of entries) lit.add(entry.id); // what went before the page was open does not light up
  for (const entry of early) lit.delete(entry.id);
  early.splice(0).forEach(heard);
  early = null;
}

/** Fill the indexes of the page. @param {MemoryMap} map @returns {[string, string][]} links between notes that are there */
function readLinks(map) {
  nodes.clear();
  outgoing.clear();
  incoming.clear();
  for (const node of map.nodes) nodes.set(node.id, node);
  const links = map.links.filter(([from, to]) => nodes.has(from) && nodes.has(to));
  for (const [from, to] of links) {
    outgoing.set(from, (outgoing.get(from) ?? new Set()).add(to));
    incoming.set(to, (incoming.get(to) ?? new Set()).add(from));
  }
  return links;
}

/**
 * @param {MapNode[]} all
 * @param {[string, string][]} links
 */
function draw(all, links) {
  if (!graph && drawable) {
    try {
      graph = new NoteGraph(byId("map"), { onOpen: openNote, onLeave: closePanel, onLayout: laidOut });
    } catch {
      drawable = false; // sigma throws where there is no WebGL
      byId("map").replaceChildren();
      showTable(true);
      byId("drawer").prepend(
        h("p", { class: "notice" }, icon("warning"), "This browser has no WebGL, so the map cannot be drawn. The table says the same."),
      );
    }
  }
  byId("main").classList.toggle("no-map", !graph);
  graph?.setData(all, links);
  if (graph) byId("legend").replaceChildren(...legend(graph.hues));
  else byId("legend").hidden = true;
}

/** @param {number} share */
function laidOut(share) {
  document.documentElement.dataset.layout = share < 1 ? "running" : "done";
}

/** What an event says about a request. @param {ActivityEntry} entry */
function heard(entry) {
  events++;
  sharing.add(entry);
  marksChanged();
  if (entry.notes.some((one) => one.id === panel.shown)) void panel.loadRequests();
  if (!entry.notes.length) return;
  const to = receivers(entry);
  if (lit.has(entry.id)) {
    if (!to.length && entry.finishedAt) say(entry, undefined); // it was on its way, and did not arrive
    return;
  }
  if (to.length) {
    lit.add(entry.id);
    if (lit.size > REMEMBERED) lit.delete([...lit][0]);
    graph?.light(entry.notes.map((one) => one.id), to.map((one) => one.to));
  } else if (!entry.finishedAt) return; // it is still held: it may go out yet
  say(entry, to[0]?.to);
}

/**
 * @param {ActivityEntry} entry
 * @param {Place | undefined} place
 */
function say(entry, place) {
  const [first, ...others] = [...entry.notes].sort((a, b) => b.matched - a.matched);
  const more = others.length ? `; and ${counted(others.length, "more note")}` : "";
  const item = h("li", { class: place ?? "kept" }, icon(place ?? "block"), h("span", {}, sentence(entry, first) + more));
  const list = byId("sent");
  list.prepend(item);
  while (list.children.length > SENT_SHOWN) list.lastElementChild?.remove();
  setTimeout(() => item.remove(), SENT_FOR);
}

function marksChanged() {
  graph?.glow.setMarks(sharing.places());
  table.refresh();
  if (!panel.shown) return;
  panel.setExposure(sharing.notes.get(panel.shown));
}

/** @param {string} id */
function openNote(id) {
  if (location.hash !== noteHash(id)) history.replaceState(null, "", noteHash(id));
  followHash();
}

function closePanel() {
  if (!panel.shown) return;
  const inside = panel.element.contains(document.activeElement);
  history.replaceState(null, "", location.pathname);
  followHash();
  if (inside && !byId("drawer").hidden) table.focus();
}

/** Show the note that the address names. */
function followHash() {
  const id = decodeURIComponent(location.hash.replace(/^#note=/, ""));
  const node = nodes.get(id);
  byId("main").classList.toggle("with-panel", node !== undefined);
  graph?.select(node ? id : "");
  if (!node) {
    panel.close();
    return;
  }
  const named = (/** @type {Set<string> | undefined} */ ids) => [...(ids ?? [])].flatMap((one) => nodes.get(one) ?? []);
  panel.open({ node, out: named(outgoing.get(id)), into: named(incoming.get(id)), exposure: sharing.notes.get(id) });
}

function totals() {
  const links = [...outgoing.values()].reduce((sum, some) => sum + some.size, 0);
  return `${counted(nodes.size, "note")}, ${counted(links, "link")}`;
}

/** @param {Map<string, string>} hues */
function legend(hues) {
  const named = [...hues].filter(([, hue]) => hue !== "hue-rest");
  const rest = hues.size - named.length;
  const sources = new Set([...nodes.values()].map((node) => node.source));
  const short = (/** @type {string} */ name) => (sources.size > 1 ? name : name.slice(name.indexOf("/") + 1));
  const swatch = (/** @type {string} */ hue, /** @type {string} */ name) => h("li", {}, h("i", { class: `swatch ${hue}` }), name);
  return [
    h("h2", {}, "Sent"),
    h("ul", {}, h("li", {}, Where("local", "to a local model")), h("li", {}, Where("cloud", "to a cloud model"))),
    h("p", {}, "A ring stays on what was ever sent."),
    h("h2", { class: "folders" }, "Folders"),
    h("ul", { class: "folders" }, ...named.map(([name, hue]) => swatch(hue, short(name))), rest ? swatch("hue-rest", `${rest} more`) : ""),
  ];
}

function addButtons() {
  const button = (/** @type {string} */ name, /** @type {string} */ word, /** @type {() => void} */ onclick) =>
    h("button", { type: "button", class: `button-${name}`, title: word, onclick }, icon(name), h("span", {}, word));
  const rescanButton = button("rescan", "Rescan", () => void rescan(rescanButton));
  const clearButton = button("clear", "Clear sharing", () => void clearSharing());
  const tableButton = button("table", "Table", () => showTable(byId("drawer").hidden));
  tableButton.id = "table-button";
  tableButton.setAttribute("aria-expanded", "false");
  tableButton.setAttribute("aria-controls", "drawer");
  byId("buttons").append(button("fit", "Whole map", () => graph?.fit()), tableButton, rescanButton, clearButton);
  get("status").then(
    (/** @type {SuiteStatus} */ { role }) => {
      rescanButton.hidden = clearButton.hidden = role === "read_only";
    },
    () => {}, // the status line says it
  );
}

/** @param {boolean} shown */
function showTable(shown) {
  byId("drawer").hidden = !shown;
  if (shown) table.refresh();
  byId("main").classList.toggle("with-table", shown);
  byId("table-button").setAttribute("aria-expanded", String(shown));
}

/** @param {HTMLButtonElement} button */
async function rescan(button) {
  button.disabled = true;
  try {
    /** @type {MemoryMap} */
    const map = await post("memory/refresh");
    await load();
    Toast(`Rescanned: ${counted(map.nodes.length, "note")} in ${counted(map.sources.length, "source")}.`);
  } catch (error) {
    failed(error);
  } finally {
    button.disabled = false;
  }
}

async function clearSharing() {
  const sure = await Confirm({
    title: "Clear sharing?",
    text: "The counts of what was sent where, and the rings on the map, will be forgotten for all notes. The list of requests stays.",
    action: "Clear sharing",
  });
  if (!sure) return;
  try {
    await post("memory/exposure/reset");
    await load();
    Toast("Sharing was cleared.");
  } catch (error) {
    failed(error);
  }
}

/** @param {unknown} error */
function failed(error) {
  const why = error instanceof ApiError && error.status === 403 ? "Not allowed: " : "";
  Toast(why + messageOf(error), { failed: true });
}

/** @param {unknown} error */
function messageOf(error) {
  return error instanceof Error ? error.message : String(error);
}

/** Lay something over the page; null: nothing. @param {Node | null} element */
function cover(element) {
  byId("cover").replaceChildren(...(element ? [element] : []));
}

/** @returns {() => void} ends it */
function showProgress() {
  const said = h("p", { role: "status" }, "Reading your notes…");
  cover(Empty({ icon: "memory", title: "Drawing the map" }, h("progress", { "aria-label": "Reading your notes" }), said));
  const started = performance.now();
  const timer = setInterval(() => {
    said.textContent = `Reading your notes: ${Math.round((performance.now() - started) / 1000)} s`;
  }, 1000);
  get("status").then(
    (/** @type {SuiteStatus} */ { sources }) => {
      const names = (sources ?? []).filter((source) => source.enabled).map((source) => source.name);
      if (names.length) said.textContent = `Reading the notes of ${names.join(", ")}…`;
    },
    () => {}, // the status line says it
  );
  return () => clearInterval(timer);
}

/** What the page says without a note. @param {SourceState[]} sources */
function nothing(sources) {
  const known = sources.map(({ name, location, error, enabled }) =>
    h("li", {}, `${name}: ${enabled ? (error ?? `no note in ${location}`) : "switched off"}`),
  );
  return Empty(
    { icon: "memory", title: "Your notes will be here" },
    h("p", {}, "Each note becomes a dot and each link a line. When a request carries a note to a model, it lights up."),
    known.length ? h("ul", { class: "known" }, ...known) : "",
    h("p", {}, "Name a folder of notes in mitm.yaml, then start mitmemory again:"),
    Copy(EXAMPLE),
  );
}

// For the browser tests only: where a note is drawn and what is lit, since a canvas cannot be asked.
window.__mitmemory = {
  spot: (/** @type {string} */ id) => graph?.spot(id) ?? null, // {x, y, radius} in CSS pixels of #map
  hovered: () => graph?.hovered ?? "",
  meant: () => [...(graph?.meant ?? [])], // the notes that are not dimmed
  lit: () => Object.fromEntries([...(graph?.glow.lights ?? [])].map(([id, light]) => [id, [...light.places]])),
  marks: () => Object.fromEntries([...(graph?.glow.marks ?? [])].map(([id, places]) => [id, [...places]])),
  notes: () => graph?.graph.order ?? 0,
  links: () => graph?.graph.size ?? 0,
  events: () => events, // activity events handled
};
