// @ts-check
// What every page has around it: the rail at the left, the status line at the top.
import { get } from "./api.js";
import { keepTime } from "./components/Ago.js";
import { byId, h, icon, root } from "./dom.js";
import { listen } from "./events.js";
import { counted } from "./words.js";

const PAGES = [
  { page: "memory", path: "", word: "Memory" },
  { page: "live", path: "live", word: "Live" },
];
const BETWEEN = 5000; // ms between two looks at the status

/**
 * Build the frame of the page that the body names in `data-page`, and hear its events.
 *
 * @param {import("./events.js").Listener} listener
 */
export function frame(listener) {
  const current = document.body.dataset.page;
  byId("rail").append(
    h("span", { class: "brand" }, icon("mitmemory"), h("span", {}, "mitmemory")),
    ...PAGES.map(({ page, path, word }) =>
      h(
        "a",
        { href: new URL(path, root).href, "aria-current": page === current && "page" },
        icon(page),
        h("span", {}, word),
      ),
    ),
  );
  const line = byId("status");
  const connection = h("span", { class: "attention", hidden: true }, icon("warning"), "Live events are interrupted");
  const facts = h("span", { class: "facts" });
  line.append(facts, connection);

  const look = async () => {
    if (document.hidden) return;
    try {
      facts.replaceChildren(...said(await get("status")));
    } catch (error) {
      facts.replaceChildren(attention(error instanceof Error ? error.message : String(error)));
    }
  };
  listen((kind, data) => {
    if (kind === "open" || kind === "lost") connection.hidden = kind === "open";
    if (kind === "map" || kind === "resync" || kind === "open") void look();
    listener(kind, data);
  });
  document.addEventListener("visibilitychange", look);
  setInterval(look, BETWEEN);
  void look();
  keepTime();
}

/** @param {string} text */
function attention(text) {
  return h("span", { class: "attention" }, icon("warning"), text);
}

/**
 * @param {SuiteStatus} status
 * @returns {Node[]}
 */
function said(status) {
  /** @type {Node[]} */
  const parts = [];
  const add = (/** @type {string} */ text, /** @type {string} */ title, /** @type {string | null} */ path = null) =>
    parts.push(path === null ? h("span", { title }, text) : h("a", { href: new URL(path, root).href, title }, text));
  if (status.proxy) add(status.proxy, "The proxy listens here");
  if (status.mode === "dispatch") add("dispatch", "Mode: rules are applied and sharing is recorded");
  if (status.mode === "annotate") add("annotate", "Mode: requests are marked and nothing is changed");
  if (status.notes !== undefined) add(counted(status.notes, "note"), "Notes on the map", "");
  if (status.clients) add(counted(status.clients.length, "client"), status.clients.join(", ") || "None was seen yet", "live");
  if (status.requests) {
    const { complete, partial, unscanned } = status.requests;
    const all = complete + partial + unscanned;
    const title = `${complete} scanned, ${partial} partly, ${unscanned} not`;
    if (all) add(`${Math.floor((100 * complete) / all)} % of ${counted(all, "request")} scanned`, title, "live");
    else add("no request yet", "Nothing went through the proxy yet", "live");
  }
  for (const source of status.sources ?? []) {
    if (source.error) parts.push(attention(`Source ${source.name}: ${source.error}`));
  }
  if (status.trackSharing === false) parts.push(attention("Requests are not scanned: memory.track_sharing is false"));
  for (const warning of status.warnings ?? []) parts.push(attention(warning));
  return parts;
}
