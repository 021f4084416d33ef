// @ts-check
// The Memory page: the map, its search and filters, its table, the panel of a note, the replay.
import { clearSharing, failed, messageOf, rescan } from "./changing.js";
import { Empty } from "./components/Empty.js";
import { noteHash } from "./components/NoteLink.js";
import { Toast } from "./components/Toast.js";
import { cover, nothing, showProgress } from "./cover.js";
import { byId, h, icon } from "./dom.js";
import { Filters } from "./filters.js";
import { frame } from "./frame.js";
import { Legend } from "./legend.js";
import { NoteGraph } from "./map.js";
import { Notes } from "./notes.js";
import { notesTable } from "./notes_table.js";
import { Panel } from "./panel.js";
import { Replay } from "./replay.js";
import { SavedLayout } from "./saving.js";
import { Search } from "./search.js";
import { say } from "./sent_list.js";
import { Sharing, loadMap } from "./sharing.js";
import { addButtons, toggles } from "./tools.js";
import { counted, number, receivers } from "./words.js";

const REMEMBERED = 2000; // exchanges; their last event comes long before so many others

const sharing = new Sharing();
const notes = new Notes();
/** @type {NoteGraph | null} null until there is something to draw, and without WebGL */
let graph = null;
let drawable = true;
/** @type {Map<string, import("./layout.js").Point> | null} null: not asked for yet */
let saved = null;
/** Links from the note in the panel within which notes are shown; 0: all. */
let depth = 0;
/** @type {Set<string>} exchanges whose notes lit up already, the newest of them */
const lit = new Set();
/** @type {ActivityEntry[] | null} events that came before the map; null: they are handled at once */
let early = [];
/** @type {ActivityEntry[]} events that came since the map was last asked for: it may not know of them */
let since = [];
let missed = ""; // the note that the address names and the map does not have, once that was said
let leaving = false; // the focus goes back to the row of a panel that was closed, and shall not open it again
let events = 0;
let loading = 0; // how often the map was asked for,
let loaded = 0; // and which of these was the last that is over

const layout = new SavedLayout(failed);
const panel = new Panel({ onClose: () => closePanel(), onDepth: (links) => showLocal(links) });
const table = notesTable({
  exposure: (id) => sharing.notes.get(id),
  onFocus: (id) => {
    if (!leaving && id !== panel.shown) openNote(id);
  },
  onEnter: (id) => {
    openNote(id); // it may have been closed
    panel.element.focus();
  },
});
/** @type {MapNode[]} what filters and the local graph leave */
let shown = [];
const search = new Search({
  onFound: (found) => {
    graph?.setFound(found && new Set(found.map((node) => node.id)));
    table.show(found ?? shown);
    byId("count").textContent = found ? `${number(found.length)} of ${counted(shown.length, "note")}` : totals();
  },
  onPick: (id, byKey) => {
    openNote(id);
    graph?.focus(id);
    if (byKey) panel.element.focus();
  },
});
const legend = new Legend({ onFound: recolour, onFailure: failed });
const filters = new Filters(() => {
  recolour();
  showChosen();
});
const showFilters = toggles(byId("filters-button"), byId("filters"));
const replay = new Replay({
  onMoment: (entry, marks) => {
    graph?.glow.setMarks(marks);
    graph?.glow.dark();
    graph?.light(entry.notes.map((one) => one.id), receivers(entry).map((one) => one.to));
  },
  onNow: () => {
    graph?.glow.dark();
    graph?.glow.setMarks(sharing.places());
  },
});
const { showTable, closeMenu, allow } = addButtons({
  onFit: () => graph?.fit(),
  onTable: (open) => {
    byId("main").classList.toggle("with-table", open);
    if (open) table.fill();
  },
  onRescan: () => rescan(load),
  onClear: () => clearSharing(load),
});
byId("drawer").append(table.element);

frame(
  (kind, data) => {
    if (kind === "activity") {
      if (loading !== loaded) since.push(data);
      if (early) early.push(data);
      else heard(data);
    }
    if (kind === "map" || kind === "resync") void load();
  },
  ({ role }) => {
    allow(role !== "read_only");
    layout.allow(role !== "read_only");
  },
);
addEventListener("hashchange", () => early || followHash()); // the first map follows it by itself
addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || document.querySelector("dialog[open]")) return;
  if (!closeMenu(false) && !search.clear() && !closeFilters()) closePanel();
});
void load();

/** Load the map and show it. What an older call brings after a newer one started is dropped. */
async function load() {
  const turn = ++loading;
  since = [];
  const stopProgress = notes.byId.size ? () => {} : showProgress();
  try {
    const [[map, entries], positions] = await Promise.all([loadMap(), saved ?? layout.load()]);
    saved = positions;
    if (turn === loading) show(map, entries);
  } catch (error) {
    if (turn !== loading) return; // a newer one says how it went
    if (notes.byId.size) failed(error);
    else cover(Empty({ icon: "warning", title: "The map could not be loaded" }, h("p", {}, messageOf(error)), h("button", { type: "button", onclick: () => void load() }, "Try again")));
  } finally {
    stopProgress();
    if (turn === loading) loaded = turn;
  }
}

/**
 * @param {MemoryMap} map
 * @param {ActivityEntry[]} entries
 */
function show(map, entries) {
  notes.read(map);
  sharing.load(map.exposure, entries, since);
  legend.forget();
  const empty = map.nodes.length === 0;
  byId("tools").hidden = empty;
  byId("legend").hidden = empty;
  if (empty) {
    graph?.setData([], [], new Map(), new Map());
    showTable(false);
    showFilters(false);
    cover(nothing(map.sources));
    followHash();
  } else {
    cover(null);
    filters.setNodes(map.nodes);
    draw();
    replay.setEntries(entries);
    marksChanged();
    followHash();
    showChosen();
  }
  document.documentElement.dataset.map = empty ? "empty" : graph ? "ready" : "table";
  if (!early) return;
  for (const entry of entries) lit.add(entry.id); // what went before the page was open does not light up
  for (const entry of early) lit.delete(entry.id);
  early.splice(0).forEach(heard);
  early = null;
}

/** Draw the map, or say why it cannot be. */
function draw() {
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
  graph?.setData([...notes.byId.values()], notes.links, recolour(), saved ?? new Map());
  if (!graph) byId("legend").hidden = true;
}

/**
 * @param {number} share
 * @param {boolean} arranged
 */
function laidOut(share, arranged) {
  document.documentElement.dataset.layout = share < 1 ? "running" : "done";
  if (share === 1 && arranged && graph) layout.save(graph.positions());
}

/** Colour the map by what is chosen, and say in the legend what that means. @returns {Map<string, string>} note -> token */
function recolour() {
  const by = /** @type {import("./colouring.js").ColourBy} */ (filters.choice.colour);
  const hues = legend.explain(by, [...notes.byId.values()], sharing.notes);
  graph?.setHues(hues);
  return hues;
}

/** Show what the filters and the local graph leave. */
function showChosen() {
  const near = depth && panel.shown ? notes.within(panel.shown, depth) : null;
  shown = [...notes.byId.values()].filter((node) => {
    return (!near || near.has(node.id)) && (!filters.active || filters.passes(node, sharing.notes.get(node.id)));
  });
  graph?.setShown(shown.length < notes.byId.size ? new Set(shown.map((node) => node.id)) : null);
  search.setNodes(shown);
}

/** Show only the notes within so many links of the one in the panel; 0: all. @param {number} links */
function showLocal(links) {
  depth = links;
  showChosen();
  if (depth) graph?.frame([panel.shown, ...shown.map((node) => node.id)]);
  else graph?.fit();
}

/** What an event says about a request. @param {ActivityEntry} entry */
function heard(entry) {
  events++;
  sharing.add(entry);
  replay.add(entry);
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
    if (replay.now) graph?.light(entry.notes.map((one) => one.id), to.map((one) => one.to));
  } else if (!entry.finishedAt) return; // it is still held: it may go out yet
  say(entry, to[0]?.to);
}

function marksChanged() {
  if (replay.now) graph?.glow.setMarks(sharing.places());
  table.refresh();
  if (panel.shown) panel.setExposure(sharing.notes.get(panel.shown));
  if (filters.choice.colour === "exposure") recolour();
  if (filters.choice.sent) showChosen();
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
  leaving = true;
  if (inside && byId("drawer").hidden) byId("query").focus();
  else if (inside) table.focus();
  leaving = false;
}

/** Whether there was something to close. The focus goes back to the button. */
function closeFilters() {
  const inside = byId("filters").contains(document.activeElement);
  const closed = showFilters(false);
  if (closed && inside) byId("filters-button").focus();
  return closed;
}

/** The id of the note that the address names; "": of none. */
function named() {
  try {
    return location.hash.startsWith("#note=") ? decodeURIComponent(location.hash.slice("#note=".length)) : "";
  } catch {
    return ""; // somebody typed it, with a % that stands for nothing
  }
}

/** Show the note that the address names. */
function followHash() {
  const id = named();
  const node = notes.byId.get(id);
  if (id && !node && id !== missed) Toast(`${id} is not on the map: it was moved or deleted, or its source is switched off.`, { failed: true });
  missed = node ? "" : id;
  const before = panel.shown;
  byId("main").classList.toggle("with-panel", node !== undefined);
  if (node) {
    panel.open({ node, out: notes.from(id), into: notes.to(id), exposure: sharing.notes.get(id), depth });
  } else panel.close();
  if (graph) graph.covered = node && panel.beside ? panel.element.offsetWidth : 0;
  graph?.select(node ? id : "");
  if (depth && before !== panel.shown) showLocal(node ? depth : 0);
}

function totals() {
  if (shown.length < notes.byId.size) return `${number(shown.length)} of ${counted(notes.byId.size, "note")}`;
  return `${counted(notes.byId.size, "note")}, ${counted(notes.links.length, "link")}`;
}

// For the browser tests only: where a note is drawn and what is lit, since a canvas cannot be asked.
window.__mitmemory = {
  spot: (/** @type {string} */ id) => graph?.spot(id) ?? null, // {x, y, radius} in CSS pixels of #map
  hovered: () => graph?.hovered ?? "",
  meant: () => [...(graph?.look.meant ?? [])], // the notes that are not dimmed
  shown: () => shown.map((node) => node.id).sort(), // those that filters and the local graph leave
  drawn: () => graph?.drawn() ?? [], // those that the map draws
  hue: (/** @type {string} */ id) => graph?.graph.getNodeAttribute(id, "hue") ?? "",
  lit: () => Object.fromEntries([...(graph?.glow.lights ?? [])].map(([id, light]) => [id, [...light.places]])),
  marks: () => Object.fromEntries([...(graph?.glow.marks ?? [])].map(([id, places]) => [id, [...places]])),
  notes: () => graph?.graph.order ?? 0,
  links: () => graph?.graph.size ?? 0,
  events: () => events, // activity events handled
  saves: () => layout.saves, // layouts that the server kept
};
