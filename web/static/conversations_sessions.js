// @ts-check
// The lists at the left of the Conversations page: the clients, and the sessions of the one that is chosen.
import { Ago } from "./components/Ago.js";
import { addressOf } from "./conversations_place.js";
import { h } from "./dom.js";
import { swap } from "./setup_parts.js";
import { counted, size } from "./words.js";

const STATES = { current: "goes on", closed: "closed", archived: "summarised, in the archive" };

/**
 * @param {Element} element
 * @param {ClientState[]} clients
 * @param {string | null} chosen
 */
export function drawClients(element, clients, chosen) {
  swap(
    element,
    h("h2", { id: "clients-title" }, "Clients"),
    h(
      "ul",
      { class: "choose" },
      ...clients.map(({ client, name, memoryEnabled }) =>
        h(
          "li",
          {},
          h(
            "a",
            { href: addressOf(client), "data-key": `client ${client}`, "aria-current": client === chosen && "true" },
            h("span", {}, name),
            h("small", {}, `memory ${memoryEnabled ? "on" : "off"}`),
          ),
        ),
      ),
    ),
  );
}

/**
 * @param {Element} element
 * @param {string} client
 * @param {SessionEntry[]} sessions
 * @param {string | null} chosen
 */
export function drawSessions(element, client, sessions, chosen) {
  if (!sessions.length) return swap(element);
  swap(
    element,
    h("h2", { id: "sessions-title" }, "Sessions"),
    h(
      "ul",
      { class: "choose" },
      ...sessions.map((entry) =>
        h(
          "li",
          {},
          h(
            "a",
            { href: addressOf(client, { session: entry.session }), "data-key": `session ${entry.session}`, "aria-current": entry.session === chosen && "true" },
            h("span", { class: "session-title" }, entry.title ?? "Without words"),
            h("small", {}, Ago(entry.startedAt), `, ${counted(entry.conversations, "conversation")}, ${size(entry.bytes)}, ${told(entry)}`),
          ),
        ),
      ),
    ),
  );
}

/** What has become of a session. @param {Pick<SessionEntry, "state" | "summarised">} entry */
export function told({ state, summarised }) {
  return state !== "archived" && summarised ? `${STATES[state]}, summarised` : STATES[state];
}

/**
 * A moment in full, in local time; its zone is in the tooltip.
 *
 * @param {string} time ISO 8601
 * @param {"time" | "day"} [shown] with the day, or the time alone
 */
export function Moment(time, shown = "day") {
  const at = new Date(time);
  const title = at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" });
  const text = shown === "time" ? at.toLocaleTimeString(undefined, { timeStyle: "medium" }) : at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
  return h("time", { datetime: time, title }, text);
}
