// @ts-check
// The Live page: requests as they happen, and those that wait for a person.
import { get } from "./api.js";
import { Ago } from "./components/Ago.js";
import { Decision } from "./components/Decision.js";
import { Empty } from "./components/Empty.js";
import { ScanState } from "./components/ScanState.js";
import { Table } from "./components/Table.js";
import { byId, h } from "./dom.js";
import { bytes, client, models, notes, outcome } from "./entry.js";
import { frame } from "./frame.js";
import { Held } from "./live_held.js";

const FIRST = 100;
const MOST = 500;

/** @type {Table<ActivityEntry>} */
const table = new Table({
  caption: "Requests, newest first",
  key: (entry) => entry.id,
  empty: "No request went through the proxy yet. Point a client at it: the lines to paste stand in the terminal that mitmemory was started in.",
  columns: [
    { label: "Time", cell: (entry) => Ago(entry.startedAt), class: "time" },
    { label: "Client", cell: client },
    { label: "Model", cell: models },
    { label: "Notes", cell: notes, class: "wide" },
    { label: "Decision", cell: (entry) => Decision(entry.decision) },
    { label: "Scan", cell: (entry) => ScanState(entry.scan) },
    { label: "Outcome", cell: outcome },
    { label: "Bytes", cell: bytes, class: "number" },
  ],
});
const held = new Held();
byId("held").append(held.element);
byId("requests").append(h("p", { class: "notice" }, "Loading…"));

/** @type {ActivityEntry[] | null} events that came before the list; null: they are shown at once */
let early = [];
let turn = 0; // the list is asked for anew while an answer is on its way: the last one counts
frame(
  (kind, data) => {
    if (kind === "activity") {
      if (early) early.push(data);
      else if (table.element.isConnected) table.upsert(data, MOST);
      else void load(); // the list could not be loaded before
    }
    if (kind === "held") held.told(data);
    if (kind === "resync") void load();
  },
  ({ role, held: count = 0 }) => {
    held.allow(role === "admin");
    if (count !== held.cards.size) void held.load(); // the last answer did not arrive
  },
);
void load();

async function load() {
  const mine = ++turn;
  early ??= [];
  const asked = held.load();
  try {
    const { entries } = await get(`activity?limit=${FIRST}`);
    if (mine !== turn) return;
    table.setRows(entries);
    if (!table.element.isConnected) byId("requests").replaceChildren(table.element);
  } catch (error) {
    if (mine !== turn) return;
    const said = error instanceof Error ? error.message : String(error);
    byId("requests").replaceChildren(Empty({ icon: "warning", title: "The requests could not be loaded" }, h("p", {}, said)));
  }
  // An event that is older than the list's entry cannot harm: a finished entry stays finished.
  const waiting = early ?? [];
  early = null;
  for (const entry of waiting) {
    if (entry.finishedAt || !table.lines.get(entry.id)?.row.finishedAt) table.upsert(entry, MOST);
  }
  await asked;
  document.documentElement.dataset.live = "ready";
}
