// @ts-check
// The Live page: requests as they happen.
import { get } from "./api.js";
import { Ago } from "./components/Ago.js";
import { Decision } from "./components/Decision.js";
import { Empty } from "./components/Empty.js";
import { Lines } from "./components/Lines.js";
import { NoteLink } from "./components/NoteLink.js";
import { ScanState } from "./components/ScanState.js";
import { Table } from "./components/Table.js";
import { Where } from "./components/Where.js";
import { byId, h } from "./dom.js";
import { frame } from "./frame.js";
import { counted, receivers, size } from "./words.js";

const FIRST = 100;
const MOST = 500;
const NOTES_SHOWN = 3;
const OUTCOMES = { answered: "Answered", blocked: "Blocked", failed: "Failed", aborted: "Client left" };

/** @type {Table<ActivityEntry>} */
const table = new Table({
  caption: "Requests, newest first",
  key: (entry) => entry.id,
  empty: "No request went through the proxy yet. Point a client at it: the lines to paste stand in the terminal that mitmemory was started in.",
  columns: [
    { label: "Time", cell: (entry) => Ago(entry.startedAt), class: "time" },
    { label: "Client", cell: (entry) => entry.client, class: "client" },
    { label: "Model", cell: model },
    { label: "Notes", cell: notes, class: "wide" },
    { label: "Decision", cell: (entry) => Decision(entry.decision) },
    { label: "Scan", cell: (entry) => ScanState(entry.scan) },
    { label: "Outcome", cell: outcome },
    { label: "Bytes", cell: bytes, class: "number" },
  ],
});

/** @type {ActivityEntry[] | null} events that came before the list; null: they are shown at once */
let early = [];
frame((kind, data) => {
  if (kind === "activity") {
    if (early) early.push(data);
    else table.upsert(data, MOST);
  }
  if (kind === "resync") void load();
});
void load();

async function load() {
  early ??= [];
  try {
    const { entries } = await get(`activity?limit=${FIRST}`);
    table.setRows(entries);
    byId("requests").replaceChildren(table.element);
  } catch (error) {
    const said = error instanceof Error ? error.message : String(error);
    byId("requests").replaceChildren(Empty({ icon: "warning", title: "The requests could not be loaded" }, h("p", {}, said)));
  }
  // An event that is older than the list's entry cannot harm: a finished entry stays finished.
  const waiting = early ?? [];
  early = null;
  for (const entry of waiting) {
    if (entry.finishedAt || !table.lines.get(entry.id)?.row.finishedAt) table.upsert(entry, MOST);
  }
  document.documentElement.dataset.live = "ready";
}

/** @param {ActivityEntry} entry */
function model(entry) {
  const to = receivers(entry);
  const shown = to.length ? to : [{ model: entry.model, to: entry.to }];
  return h(
    "span",
    { class: "stack" },
    ...shown.flatMap((one, at) => {
      const more = at ? [] : [entry.provider, ...(entry.sideRequest ? ["side request"] : [])];
      return [Where(one.to, one.model), h("small", {}, [one.to, ...more].join(", "))];
    }),
  );
}

/** @param {ActivityEntry} entry */
function notes(entry) {
  const items = entry.notes.map((sighting) =>
    h("li", {}, NoteLink(sighting), Lines(sighting), h("span", { class: "muted" }, sighting.resent ? "again" : "first")),
  );
  if (!items.length) return h("span", { class: "muted" }, entry.scan.state === "unscanned" ? "not looked at" : "none");
  const list = h("ul", { class: "sightings" }, ...items.slice(0, NOTES_SHOWN));
  const rest = items.slice(NOTES_SHOWN);
  if (!rest.length) return list;
  return h("div", {}, list, h("details", {}, h("summary", {}, counted(rest.length, "more note")), h("ul", { class: "sightings" }, ...rest)));
}

/** @param {ActivityEntry} entry */
function outcome({ outcome: end, status, decision }) {
  if (!end) return h("span", { class: "outcome running" }, decision.action === "hold" ? "Waiting" : "Under way");
  return h("span", { class: `stack outcome ${end}` }, OUTCOMES[end], status !== null && h("small", {}, `status ${status}`));
}

/** @param {ActivityEntry} entry */
function bytes(entry) {
  const back = entry.finishedAt !== null && h("small", {}, `${size(entry.bytes.response)} back`);
  return h("span", { class: "stack" }, size(entry.bytes.request), back);
}
