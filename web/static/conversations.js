// @ts-check
// The Conversations page: what was recorded of each client whose memory is on. Its address says what is shown.
import { ApiError, get, post } from "./api.js";
import { Confirm } from "./components/Confirm.js";
import { Empty } from "./components/Empty.js";
import { Toast } from "./components/Toast.js";
import { ClientHead } from "./conversations_client.js";
import { deleted, ofConversation, ofSession, ofTurn } from "./conversations_deleting.js";
import { forReaders, noClient, nothingChosen, unnamed } from "./conversations_empty.js";
import { addressOf, followLinks, go, here, memoryOf } from "./conversations_place.js";
import { found, Search } from "./conversations_search.js";
import { drawClients, drawSessions } from "./conversations_sessions.js";
import { transcript } from "./conversations_transcript.js";
import { byId, h } from "./dom.js";
import { frame } from "./frame.js";
import { Once } from "./once.js";
import { counted, number } from "./words.js";

const BETWEEN = 5000; // ms between two looks
const BUSY = 1000; // the same while something is under way
const PAUSE = 1500; // ms from an answer until it is looked for

/** @type {ClientStates} */
let known = { clients: [], lines: [], mcp: [], conversations: null };
/** @type {ClientState | null} */
let client = null;
/** @type {ClientMemory | null} */
let memory = null;
/** @type {SessionEntry[]} */
let sessions = [];
/** @type {SessionTranscript | null} */
let session = null;
/** @type {import("./conversations_transcript.js").Kept} */
const kept = new Map();
/** @type {Set<string>} sessions that this page has asked to be summarised */
const compacting = new Set();
let turn = 0; // answers that come late are of a place that is not shown any more
let reading = -1; // the turn whose answer is on its way: one question at a time, so that an older answer does not win
let stale = false; // what is shown is to be looked at once more after that
let timer = 0;
let due = Infinity; // ms since 1970 at which it is looked next
let starting = false;
let isAdmin = false; // nobody else is shown what was recorded
let seen = ""; // what `filesOf` was when they were last listed

const clientList = h("nav", { "aria-labelledby": "clients-title" });
const sessionList = h("nav", { "aria-labelledby": "sessions-title", hidden: true });
const shown = h("div", { class: "shown" });
const status = h("p", { class: "visually-hidden", role: "status" });
const once = new Once();
const head = new ClientHead(once, { onSwitch: () => move({ anew: true }), onChange: () => move(), onCompact: (id) => compact(id, false) });
const search = new Search((asked) => client && go(addressOf(client.client, asked ? { asked } : {}), move));
const page = [
  h("div", { class: "lists" }, clientList, sessionList),
  h("section", { class: "client", "aria-labelledby": "client-title" }, head.element, search.element, status, shown),
];

frame(
  (kind, data) => {
    if (kind === "resync") readAgain(); // whoever reads or types stays where they are
    if (kind === "activity" && data.outcome && (!client || data.client === client.client)) look(PAUSE);
  },
  ({ role }) => {
    if (role === "admin" && !isAdmin) void start(); // nobody could be told before, or this browser came in by another link
  },
);
document.addEventListener("visibilitychange", () => look(0));
void start();

async function start() {
  if (starting) return;
  starting = true;
  if (!byId("conversations").children.length) byId("conversations").append(h("p", { class: "notice" }, "Loading…"));
  try {
    const { role } = /** @type {SuiteStatus} */ (await get("status"));
    known = await get("clients");
    isAdmin = role === "admin";
    if (!isAdmin) byId("conversations").replaceChildren(forReaders(known.clients));
    else {
      followLinks(() => void move());
      await move();
    }
  } catch (error) {
    byId("conversations").replaceChildren(failed("The clients could not be loaded", error));
  }
  starting = false;
  document.documentElement.dataset.conversations = "ready";
}

/** Show what the address says. @param {{anew?: boolean}} [how] `anew`: the clients may be others by now */
async function move({ anew = false } = {}) {
  const mine = (reading = ++turn);
  stopLooking();
  const place = here();
  try {
    if (anew) known = await get("clients");
    if (mine !== turn) return;
    if (!known.clients.length) {
      client = null;
      byId("conversations").replaceChildren(noClient());
      return hasRead(mine, BETWEEN);
    }
    const chosen = choose(place.client);
    if (chosen.client !== client?.client) leave(chosen);
    client = chosen;
    if (!shown.isConnected) byId("conversations").replaceChildren(...page);
    drawClients(clientList, known.clients, client.client);
    search.show(place.asked);
    await refresh(mine, true);
  } catch (error) {
    seen = ""; // so that it is read again
    if (mine === turn) say(failed("This memory could not be read", error));
  }
  hasRead(mine, BETWEEN);
}

/** What is known of the client that was shown is not that of this one. @param {ClientState} next */
function leave(next) {
  memory = null;
  showSessions(next.client, []);
  head.show(next, null, known.conversations);
  search.element.hidden = true;
}

/** @param {string | null} name */
function choose(name) {
  const { clients } = known;
  const named = clients.find((one) => one.client === name);
  return named ?? clients.find((one) => one.memoryEnabled) ?? clients.find((one) => one.configured) ?? clients[0];
}

/** Look again in so many ms, or when it was to be looked at all the same, where that is earlier. @param {number} ms */
function look(ms) {
  if (document.hidden || !isAdmin) return stopLooking(); // it is looked at when somebody comes back
  if (Date.now() + ms >= due) return;
  stopLooking();
  due = Date.now() + ms;
  timer = setTimeout(async () => {
    due = Infinity;
    if (reading === turn) {
      stale = true;
      return;
    }
    const mine = (reading = turn);
    try {
      await lookAgain(mine);
    } catch (error) {
      if (mine === turn) status.textContent = message(error);
    }
    hasRead(mine, isBusy() ? BUSY : BETWEEN);
  }, ms);
}

/**
 * The next look comes in so many ms, or at once where one was due meanwhile.
 *
 * @param {number} mine
 * @param {number} ms
 */
function hasRead(mine, ms) {
  if (mine !== turn) return; // a later one says when
  reading = -1;
  look(stale ? 0 : ms);
  stale = false;
}

/** Read anew what is shown, and leave it where it is. */
function readAgain() {
  seen = "";
  look(0);
}

function stopLooking() {
  clearTimeout(timer);
  due = Infinity;
}

/** The clients and their memory may be others by now. @param {number} mine */
async function lookAgain(mine) {
  /** @type {ClientStates} */
  const now = await get("clients");
  if (mine !== turn) return;
  const changed = JSON.stringify(now.clients.map(settings)) !== JSON.stringify(known.clients.map(settings));
  known = now;
  const same = now.clients.find((one) => one.client === client?.client);
  if (!same && !client && !now.clients.length) return; // there is none as before
  if (!same) return move();
  client = same;
  if (changed) drawClients(clientList, now.clients, same.client);
  await refresh(mine, false);
}

/** What this page shows of a client. @param {ClientState} client */
function settings({ client, name, configured, mode, memoryEnabled }) {
  return [client, name, configured, mode, memoryEnabled];
}

function isBusy() {
  return Boolean(memory?.rebuilding || memory?.index?.pending || memory?.compaction?.working);
}

/**
 * @param {number} mine
 * @param {boolean} anew another place is shown than before
 */
async function refresh(mine, anew) {
  const place = here();
  const { client: name, configured } = /** @type {ClientState} */ (client);
  const now = configured ? /** @type {ClientMemory} */ (await get(memoryOf(name))) : null;
  if (mine !== turn) return;
  const files = JSON.stringify(filesOf(now));
  memory = now;
  head.show(/** @type {ClientState} */ (client), memory, known.conversations);
  search.element.hidden = !client?.memoryEnabled || !memory?.folder;
  if (!anew && files === seen) return;
  const list = memory?.folder ? (await get(`${memoryOf(name)}/sessions`)).sessions : [];
  if (mine !== turn) return;
  seen = files;
  showSessions(name, list);
  if (!configured) say(unnamed(/** @type {ClientState} */ (client)));
  else if (place.asked && !search.element.hidden) {
    if (anew) await showFound(mine, name, place.asked);
  } else if (place.session) await showSession(mine, name, place.session, anew);
  else say(nothingChosen(/** @type {ClientState} */ (client), sessions.length, known.conversations));
}

/**
 * @param {string} name
 * @param {SessionEntry[]} list
 */
function showSessions(name, list) {
  sessions = list;
  sessionList.hidden = !sessions.length;
  drawSessions(sessionList, name, sessions, here().session);
}

/** What of a memory says that its files are others by now. @param {ClientMemory | null} now */
function filesOf(now) {
  return now && [now.client, now.folder, now.memoryEnabled, now.sessions, now.bytes.sessions, now.bytes.archive, now.compaction?.working, [...compacting]];
}

/**
 * @param {number} mine
 * @param {string} name
 * @param {import("./conversations_place.js").Asked} asked
 */
async function showFound(mine, name, asked) {
  say(h("p", { class: "notice" }, "Searching…"));
  let parts;
  try {
    parts = await found(name, asked);
  } catch (error) {
    parts = [failed("This could not be searched", error)];
  }
  if (mine !== turn) return;
  say(...parts);
  status.textContent = shown.querySelector("h2")?.textContent ?? "";
}

/**
 * @param {number} mine
 * @param {string} name
 * @param {string} id
 * @param {boolean} anew
 */
async function showSession(mine, name, id, anew) {
  /** @type {SessionTranscript} */
  let read;
  try {
    read = await get(`${memoryOf(name)}/sessions/${encodeURIComponent(id)}`);
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 404)) seen = ""; // it may be read the next time
    if (mine === turn) say(failed("This session could not be read", error));
    return;
  }
  if (mine !== turn) return;
  if (session?.session !== read.session || session.client !== read.client) kept.clear();
  session = read;
  const entry = sessions.find((one) => one.session === id) ?? null;
  const does = {
    once,
    deleteSession: () => take(read, ofSession(read)),
    deleteConversation: (/** @type {TranscriptConversation} */ one) => take(read, ofConversation(read, one)),
    deleteTurn: (/** @type {number} */ conversation, /** @type {number} */ number) => take(read, ofTurn(read, conversation, number)),
    compact: () => compact(id, read.summary !== null),
  };
  const compaction = memory?.compaction ?? null;
  say(...transcript(read, entry, { compaction, compacting: compacting.has(id) || compaction?.working === id }, does, kept));
  if (!anew) return;
  const target = location.hash && document.getElementById(`${location.hash.slice(1)}-title`);
  const heading = target || byId("session-title");
  heading.focus({ preventScroll: true });
  if (target) target.scrollIntoView();
  else shown.scrollTop = 0;
}

/** Put this in the place of what is shown; whoever is on a part that stays remains there. @param {...Node} parts */
function say(...parts) {
  const at = /** @type {HTMLElement | null} */ (shown.contains(document.activeElement) ? document.activeElement : null);
  const keys = [at?.dataset.key, at?.closest(".conversation")?.id].filter((key) => key !== undefined);
  shown.replaceChildren(...parts);
  if (at?.isConnected) return at.focus({ preventScroll: true }); // in a turn that is as before
  if (!keys.length) return;
  const there = keys.map((key) => shown.querySelector(`[data-key="${CSS.escape(key)}"]`)).find((one) => one !== null);
  const next = /** @type {HTMLElement} */ (there ?? shown.querySelector("h2[tabindex]") ?? head.title); // what was deleted has none
  next.focus({ preventScroll: true });
}

/**
 * @param {SessionTranscript} from
 * @param {import("./conversations_deleting.js").Deletion} deletion
 */
async function take(from, deletion) {
  if (!(await deleted(deletion))) return;
  /** @type {SessionEntry[]} */
  const left = (await get(`${memoryOf(from.client)}/sessions`).catch(() => ({ sessions }))).sessions;
  turn++; // what is under way tells of before
  if (here().session !== from.session || left.some((one) => one.session === from.session)) readAgain();
  else go(addressOf(from.client), move); // the last turn took the session with it
}

/**
 * @param {string} id
 * @param {boolean} again
 */
async function compact(id, again) {
  if (!client) return;
  const name = client.client;
  const { provider, model, upstream } = memory?.compaction ?? {};
  const to = [model ?? provider, upstream].filter(Boolean).join(" at ");
  const text = `What was said in it is sent to ${to || "the model that mitm.yaml names"}, but for turns that rules keep from there. The summary is searched in place of the transcript${again ? "; the earlier one goes to the archive" : ", which goes to the archive and can still be read here"}.`;
  if (!(await Confirm({ title: again ? "Summarise this session again?" : "Summarise this session?", text, action: again ? "Compact again" : "Compact" }))) return;
  compacting.add(id);
  look(0);
  try {
    const done = (await post(`clients/${encodeURIComponent(name)}/compact`, { session: id, again })).compacted[0];
    Toast(`${counted(done.turns, "turn")} summarised${done.leftOut ? `, ${number(done.leftOut)} left out: rules keep them from the model` : ""}.`);
  } catch (error) {
    Toast(message(error), { failed: true });
  }
  compacting.delete(id);
  if (client?.client === name) look(0);
}

/** @param {unknown} error */
function message(error) {
  return error instanceof Error ? error.message : String(error);
}

/**
 * @param {string} title
 * @param {unknown} error
 */
function failed(title, error) {
  return Empty({ icon: "warning", title }, h("p", {}, message(error)));
}
