// @ts-check
// What the Conversations page shows, as its address says it.
import { root } from "./dom.js";

/** @typedef {{query: string, after: string, before: string}} Asked */
/**
 * `client` null: one that the page chooses. `asked` null: nothing is searched.
 *
 * @typedef {{client: string | null, session: string | null, asked: Asked | null}} Place
 */

/** @returns {Place} */
export function here() {
  const address = new URLSearchParams(location.search);
  const asked = { query: address.get("query") ?? "", after: address.get("after") ?? "", before: address.get("before") ?? "" };
  return { client: address.get("client"), session: address.get("session"), asked: asked.query ? asked : null };
}

/**
 * The address of a client's memory, of a session in it, or of a search.
 *
 * @param {string} client
 * @param {{session?: string, conversation?: number | null, asked?: Asked}} [more]
 */
export function addressOf(client, { session, conversation, asked } = {}) {
  const address = new URL("conversations", root);
  address.searchParams.set("client", client);
  if (session) address.searchParams.set("session", session);
  for (const [name, value] of Object.entries(asked ?? {})) if (value) address.searchParams.set(name, value);
  if (conversation) address.hash = `conversation-${conversation}`;
  return address.href;
}

/**
 * Follow the links between places without loading the page anew.
 *
 * @param {() => void} onMove the address is another one now
 */
export function followLinks(onMove) {
  addEventListener("popstate", onMove);
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    if (link.origin !== location.origin || link.pathname !== location.pathname || link.closest("#rail")) return;
    event.preventDefault();
    go(link.href, onMove);
  });
}

/**
 * @param {string} address
 * @param {() => void} onMove
 */
export function go(address, onMove) {
  history.pushState(null, "", address);
  onMove();
}

/** Path of a client's memory in the API. @param {string} client */
export function memoryOf(client) {
  return `clients/${encodeURIComponent(client)}/memory`;
}
