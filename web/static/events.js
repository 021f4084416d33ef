// @ts-check
// Server-sent events, one connection per browser. A browser opens at most six connections to one server, so the
// tabs share: whoever holds the lock has the EventSource and passes each event on to the others.
import { root } from "./dom.js";

/**
 * @typedef {"activity" | "held" | "map" | "resync" | "open" | "lost"} Kind `open` and `lost` are about the connection itself
 * @typedef {(kind: Kind, data: any) => void} Listener
 */

const KINDS = /** @type {const} */ (["activity", "held", "map", "resync"]);
const UNKNOWN = "unknown"; // an id that the server does not know: it answers with resync
const RETRY = 4000; // ms, where the browser gave up by itself (an answer that is no event stream)

/**
 * Hear every event from now on. `resync` says that some may have been missed: load what you show again.
 *
 * @param {Listener} listener
 */
export function listen(listener) {
  const name = `mitmemory events ${root.pathname}`;
  if (!navigator.locks) {
    connect(listener, ""); // not a secure context: locks are missing, so each tab has its own connection
    return;
  }
  const channel = new BroadcastChannel(name);
  let last = ""; // id of the newest event any tab saw
  channel.onmessage = ({ data }) => {
    last = data.id || last;
    listener(data.kind, data.data);
  };
  /** @param {string} after the event after which to go on; "": from now on */
  const lead = (after) => {
    connect((kind, data, id) => {
      last = id || last;
      listener(kind, data);
      channel.postMessage({ kind, data, id });
    }, after);
    return new Promise(() => undefined); // until this tab is closed
  };
  void navigator.locks.request(name, { ifAvailable: true }, (lock) => {
    if (lock) return lead("");
    // Another tab leads. Whoever follows it and saw no event cannot say what was told in between: it asks for a resync.
    void navigator.locks.request(name, () => lead(last || UNKNOWN));
    return undefined;
  });
}

/**
 * @param {(kind: Kind, data: any, id: string) => void} tell
 * @param {string} last the event after which to go on; "": from now on
 */
function connect(tell, last) {
  const address = new URL("api/events", root);
  if (last) address.searchParams.set("lastEventId", last);
  const source = new EventSource(address);
  source.onopen = () => tell("open", null, "");
  source.onerror = () => {
    tell("lost", null, "");
    if (source.readyState === EventSource.CLOSED) setTimeout(() => connect(tell, last || UNKNOWN), RETRY);
  };
  for (const kind of KINDS) {
    source.addEventListener(kind, (event) => {
      last = event.lastEventId;
      tell(kind, JSON.parse(event.data), last);
    });
  }
}
