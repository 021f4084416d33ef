// @ts-check
// The Activity page: past requests, newest first, with filters, pages, and all that is known of each.
import { get } from "./api.js";
import { Ago } from "./components/Ago.js";
import { Decision } from "./components/Decision.js";
import { Empty } from "./components/Empty.js";
import { ScanState } from "./components/ScanState.js";
import { Table } from "./components/Table.js";
import { detail } from "./detail.js";
import { byId, h, icon, root } from "./dom.js";
import { bytes, client, models, notes, outcome } from "./entry.js";
import { frame } from "./frame.js";
import { swapEach } from "./setup_parts.js";
import { counted } from "./words.js";

const PAGE = 100;
const FILTERS = /** @type {const} */ (["client", "model", "note"]);
const PERIODS = [
  { since: "", word: "all that is kept" },
  { since: "24h", word: "the last 24 hours" },
  { since: "7d", word: "the last 7 days" },
  { since: "30d", word: "the last 30 days" },
];

/** @type {string[]} the `before` of each page on the way to this one; "" is that of the first */
let way = [""];
/** @type {string | null} the `before` of the next page */
let next = null;
let turn = 0; // answers that come late are of a page that is not shown any more
/** @type {Set<string>} requests that came since the list was loaded */
const waiting = new Set();
/** @type {Map<string, ActivityEntry> | null} what was told since the list was asked for; null: it is there */
let early = null;

/** @type {Table<ActivityEntry>} */
const table = new Table({
  caption: "Past requests, newest first",
  key: (entry) => entry.id,
  empty: "No request fits these filters.",
  onEnter: open,
  columns: [
    { label: "Time", cell: time, class: "time" },
    { label: "Client", cell: client },
    { label: "Model", cell: models },
    { label: "Notes", cell: notes, class: "wide" },
    { label: "Decision", cell: (entry) => Decision(entry.decision) },
    { label: "Scan", cell: (entry) => ScanState(entry.scan) },
    { label: "Outcome", cell: outcome },
    { label: "Bytes", cell: bytes, class: "number" },
  ],
});
const panel = h("aside", { class: "panel", id: "detail", hidden: true, "aria-labelledby": "detail-title" });
const older = h("button", { type: "button", onclick: () => next !== null && go([...way, next]) }, "Older");
const newer = h("button", { type: "button", onclick: () => go(way.length > 1 ? way.slice(0, -1) : [""]) }, "Newer");
const count = h("span", { class: "count", role: "status" });
const fresh = h("button", { type: "button", hidden: true, onclick: () => go([""]) });
const pager = h("div", { class: "pager" }, count, fresh, newer, older);

const asked = new URLSearchParams(location.search);
const fields = Object.fromEntries(FILTERS.map((name) => [name, field(name)]));
const only = h("input", { type: "checkbox", id: "only", checked: asked.get("notes") === "only" });
byId("filters").replaceChildren(tools());
byId("entries").replaceChildren(h("p", { class: "notice" }, "Loading…"));

table.body.addEventListener("click", (event) => {
  const at = event.target instanceof Element ? event.target : null;
  if (!at || at.closest("a, summary, button")) return; // these have something of their own to do
  const line = table.lines.get(at.closest("tr")?.dataset.key ?? "");
  if (line) open(line.row);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !panel.hidden) close();
});
frame((kind, data) => {
  if (kind === "activity" && early) early.set(data.id, data);
  else if (kind === "activity") told(data);
  if (kind === "resync") void load({ again: true });
});
void first();

async function first() {
  const entry = asked.get("entry");
  if (entry) way = ["", `${entry}0`]; // ids sort by time, and this one comes right after it
  await load();
  const line = entry && table.lines.get(entry);
  if (line) open(line.row);
  else if (entry) count.textContent = `The request ${entry} is not kept any more. ${count.textContent}`;
  document.documentElement.dataset.activity = "ready";
}

/** @param {string[]} to */
function go(to) {
  way = to;
  next = null; // until it is known what comes after that page: a second click would go there twice
  void load();
}

/** @param {{again?: boolean}} [how] `again`: it is the page that was shown before */
async function load({ again = false } = {}) {
  const mine = ++turn;
  early ??= new Map();
  const query = filtered();
  history.replaceState(null, "", `${location.pathname}${query.size ? `?${query}` : ""}`);
  const before = way[way.length - 1];
  if (before) query.set("before", before);
  query.set("limit", String(PAGE));
  try {
    const page = await get(`activity?${query}`);
    if (mine === turn) show(page.entries, page.next, again);
  } catch (error) {
    if (mine !== turn) return;
    const said = error instanceof Error ? error.message : String(error);
    byId("entries").replaceChildren(Empty({ icon: "warning", title: "The requests could not be loaded" }, h("p", {}, said)));
    early = null;
  }
}

/**
 * @param {ActivityEntry[]} entries
 * @param {string | null} following
 * @param {boolean} again
 */
function show(entries, following, again) {
  next = following;
  const since = [...(early?.values() ?? [])];
  early = null;
  waiting.clear();
  fresh.hidden = true;
  if (!again) close();
  if (!entries.length && way.length === 1 && !filtered().size) {
    const text = "Each request to a model is written down here: who sent it, to which model, which notes were in it, and what was decided. Nothing went through the proxy yet.";
    byId("entries").replaceChildren(Empty({ icon: "activity", title: "No activity yet" }, h("p", {}, text), h("a", { class: "button", href: new URL("setup", root).href }, "Point a client at the proxy")));
    if (since.length) void load();
    return;
  }
  table.setRows(entries);
  if (!panel.hidden) {
    const line = table.lines.get(panel.dataset.entry ?? "");
    if (line) fill(line.row);
    else close();
  }
  newer.disabled = way.length === 1;
  older.disabled = next === null;
  const carried = entries.filter((entry) => entry.notes.length).length;
  count.textContent = `${counted(entries.length, "request")} on this page, ${carried} with notes`;
  suggest(entries);
  if (!table.element.isConnected) byId("entries").replaceChildren(h("div", { class: "beside" }, table.element, panel), pager);
  if (!again) table.element.scrollTop = 0;
  since.forEach(told);
}

/** What an event says: of a row that is shown, or of a new request. @param {ActivityEntry} entry */
function told(entry) {
  const row = table.element.isConnected && table.lines.get(entry.id);
  if (!row) return arrived(entry);
  if (row.row.finishedAt && !entry.finishedAt) return; // the list knows more already
  table.upsert(entry, Infinity);
  if (!panel.hidden && panel.dataset.entry === entry.id) fill(entry);
}

/** What came in since is shown when somebody asks for it: rows do not move under a reader. @param {ActivityEntry} entry */
function arrived(entry) {
  if (way.length > 1 || !fits(entry)) return;
  if (!table.element.isConnected) {
    void load();
    return;
  }
  waiting.add(entry.id);
  fresh.textContent = `Show ${counted(waiting.size, "new request")}`;
  fresh.hidden = false;
}

/** @param {ActivityEntry} entry */
function fits(entry) {
  const { client, model, note } = fields;
  return (
    (!client.value || client.value === entry.client) &&
    (!model.value || model.value === entry.model) &&
    (!note.value || entry.notes.some((one) => one.id === note.value)) &&
    (!only.checked || entry.notes.length > 0)
  );
}

/** The filters as the API takes them. */
function filtered() {
  const query = new URLSearchParams();
  for (const name of FILTERS) if (fields[name].value) query.set(name, fields[name].value);
  if (only.checked) query.set("notes", "only");
  return query;
}

/** @param {typeof FILTERS[number]} name */
function field(name) {
  const label = { client: "Client", model: "Model", note: "Note, like vault/Plan.md" }[name];
  return h("input", { type: "search", name, list: `${name}s`, placeholder: label, "aria-label": label, value: asked.get(name) ?? "", autocomplete: "off", spellcheck: "false" });
}

function tools() {
  const change = () => go([""]);
  for (const one of [...Object.values(fields), only]) one.addEventListener("change", change);
  const period = h("select", { id: "period", "aria-label": "What is exported" }, ...PERIODS.map(({ since, word }) => h("option", { value: since }, word)));
  const links = /** @type {const} */ (["csv", "jsonl"]).map((format) => ({ format, link: h("a", { class: "button", download: true }, format === "csv" ? "CSV" : "JSONL") }));
  const lead = () => {
    for (const { format, link } of links) {
      const address = new URL("api/activity/export", root);
      address.searchParams.set("format", format);
      if (period.value) address.searchParams.set("since", period.value);
      link.href = address.href;
    }
  };
  period.addEventListener("change", lead);
  lead();
  return h(
    "form",
    { class: "activity-tools", role: "search", "aria-label": "Filters", onsubmit: (/** @type {Event} */ event) => event.preventDefault() },
    ...FILTERS.flatMap((name) => [fields[name], h("datalist", { id: `${name}s` })]),
    h("label", { for: "only" }, only, "Only with notes"),
    h("span", { class: "export" }, h("label", { for: "period" }, "Export"), period, ...links.map(({ link }) => link)),
  );
}

/** Offer what the page holds. @param {ActivityEntry[]} entries */
function suggest(entries) {
  const known = {
    client: entries.map((entry) => entry.client),
    model: entries.map((entry) => entry.model),
    note: entries.flatMap((entry) => entry.notes.map((one) => one.id)),
  };
  for (const name of FILTERS) {
    byId(`${name}s`).replaceChildren(...[...new Set(known[name])].sort().map((value) => h("option", { value })));
  }
}

/** When it began, with a mark where it carried notes. @param {ActivityEntry} entry */
function time(entry) {
  const mark = entry.notes.length > 0 && h("span", { class: "marked" }, icon("memory"), h("span", { class: "visually-hidden" }, "carried notes"));
  return h("span", { class: "began" }, mark, Ago(entry.startedAt));
}

/** @param {ActivityEntry} entry */
function open(entry) {
  close();
  panel.dataset.entry = entry.id;
  fill(entry);
  panel.hidden = false;
  panel.scrollTop = 0;
  document.body.classList.add("with-detail");
  /** @type {HTMLElement | null} */ (panel.querySelector("h2"))?.focus();
}

/** Say in the panel what is known of a request, and mark its row; whoever is on a part of it stays there. @param {ActivityEntry} entry */
function fill(entry) {
  table.lines.get(entry.id)?.line.classList.add("open");
  swapEach(panel, ...detail(entry, { onClose: close, onNote: (note) => ((fields.note.value = note), go([""])) }));
}

/** Close the panel; the focus goes back to the row that it was of. */
function close() {
  if (panel.hidden) return;
  const { line } = table.lines.get(panel.dataset.entry ?? "") ?? {};
  line?.classList.remove("open");
  const focused = panel.contains(document.activeElement);
  panel.hidden = true;
  document.body.classList.remove("with-detail");
  if (focused) line?.focus();
}
