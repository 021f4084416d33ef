// @ts-check
// The Setup page: where the notes are, who sends, what is not seen.
import { get } from "./api.js";
import { byId, h } from "./dom.js";
import { frame } from "./frame.js";
import { counted } from "./words.js";
import { Clients } from "./setup_clients.js";
import { authority, undetected, unseen, versions } from "./setup_facts.js";
import { Sources } from "./setup_sources.js";
import { swap } from "./setup_parts.js";

const PAUSE = 2000; // ms between two looks while requests come in

const sources = new Sources(byId("sources"), () => void load());
const clients = new Clients(byId("clients"));
const facts = {
  begin: byId("begin"),
  authority: byId("authority").appendChild(h("div")),
  unseen: byId("unseen").appendChild(h("div")),
  undetected: byId("undetected").appendChild(h("div")),
  warnings: byId("warnings").appendChild(h("div")),
};

/** @type {SuiteStatus | null} */
let status = null;
/** @type {MapNode[] | null} null: they are not known */
let notes = null;
let listed = ""; // of what the list of notes that cannot be recognised was made
let seen = 0; // clients that sent something
let waiting = false;

frame(
  (kind) => {
    if (kind === "map" || kind === "resync") void load();
    if (kind === "activity" && !waiting) {
      waiting = true;
      setTimeout(() => ((waiting = false), void loadClients()), PAUSE);
    }
  },
  (now) => {
    status = now;
    showStatus(now);
    void loadClients(); // mitm.yaml may name others by now, of which no event tells
  },
);
void load();

async function load() {
  await Promise.all([sources.load(), loadClients(), loadMap()]);
  document.documentElement.dataset.setup = "ready";
  if (location.hash && !document.documentElement.dataset.moved) {
    document.documentElement.dataset.moved = ""; // the sections had no height before
    document.getElementById(location.hash.slice(1))?.scrollIntoView();
  }
}

async function loadClients() {
  seen = await clients.load();
  if (status) begin(status);
}

async function loadMap() {
  try {
    notes = /** @type {MemoryMap} */ (await get("memory")).nodes;
    listed = "";
    listUndetected();
  } catch (error) {
    notes = null;
    swap(facts.undetected, h("p", { class: "problem" }, error instanceof Error ? error.message : String(error)));
  }
}

/** Only when it may be another list: of many thousand notes it takes a while. */
function listUndetected() {
  const sources = status?.sources ?? [];
  const now = JSON.stringify(sources.map(({ name, skipped }) => [name, skipped]));
  if (!notes || now === listed) return;
  listed = now;
  swap(facts.undetected, undetected(notes, sources));
}

/** @param {SuiteStatus} now */
function showStatus(now) {
  sources.show(now);
  clients.show(now);
  begin(now);
  swap(facts.authority, authority(now.authority ?? null, now));
  swap(facts.unseen, unseen(now));
  listUndetected();
  swap(facts.warnings, versions(now));
}

/** The three steps of a first visit, until all are done. @param {SuiteStatus} now */
function begin(now) {
  const found = now.notes ?? 0;
  const requests = Object.values(now.requests ?? {}).reduce((sum, count) => sum + count, 0);
  const steps = [
    { done: found > 0, word: "Say where your notes are", to: "sources", said: `${counted(found, "note")} on the map` },
    { done: seen > 0, word: "Point a program at the proxy", to: "clients", said: `${counted(seen, "client")} seen` },
    { done: requests > 0, word: "Ask it something, and watch the map", to: null, said: `${counted(requests, "request")} went through` },
  ];
  if (steps.every((step) => step.done)) return swap(facts.begin);
  swap(
    facts.begin,
    h(
      "section",
      { class: "begin", "aria-labelledby": "begin-title" },
      h("h2", { id: "begin-title" }, "How to begin"),
      h("p", {}, "mitmemory sits between your AI tools and the models they ask. It finds your own notes in what they send, shows on the map which went where, and keeps at home what your rules say."),
      h(
        "ol",
        {},
        ...steps.map(({ done, word, to, said }) =>
          h("li", { class: done ? "done" : "" }, done ? `${word}: ` : to ? h("a", { href: `#${to}` }, word) : word, done && h("b", {}, said)),
        ),
      ),
    ),
  );
}
