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
  { page: "activity", path: "activity", word: "Activity" },
  { page: "conversations", path: "conversations", word: "Conversations" },
  { page: "rules", path: "rules", word: "Rules" },
  { page: "setup", path: "setup", word: "Setup" },
];
const BETWEEN = 5000; // ms between two looks at the status

/**
 * Build the frame of the page that the body names in `data-page`, and hear its events.
 *
 * @param {import("./events.js").Listener} listener
 * @param {(status: SuiteStatus) => void} [onStatus] told each time that the status was asked for
 */
export function frame(listener, onStatus) {
  const current = document.body.dataset.page;
  const waiting = h("b", { class: "badge", hidden: true });
  document.getElementById("needs")?.remove(); // what a page says where no module runs
  byId("rail").append(
    h("span", { class: "brand" }, icon("mitmemory"), h("span", {}, "mitmemory")),
    ...PAGES.map(({ page, path, word }) =>
      h(
        "a",
        { href: new URL(path, root).href, title: word, "aria-current": page === current && "page" },
        icon(page),
        h("span", {}, word),
        page === "live" && waiting,
      ),
    ),
  );
  const line = byId("status");
  const connection = h("span", { class: "attention", hidden: true }, icon("warning"), "Live events are interrupted");
  const facts = h("span", { class: "facts" });
  line.append(facts, connection);

  /** Whoever is on one of its links stays there while nothing changes. @param {...Node} parts */
  const show = (...parts) => {
    const same = parts.length === facts.childNodes.length && parts.every((part, at) => part.isEqualNode(facts.childNodes[at]));
    if (!same) facts.replaceChildren(...parts);
  };
  let asking = false;
  let again = false; // something changed while the answer was on its way
  /** One question at a time: a suite that is slow to answer has the connections of this browser for other things. */
  const look = async () => {
    again = asking;
    if (document.hidden || asking) return;
    asking = true;
    try {
      const status = /** @type {SuiteStatus} */ (await get("status"));
      show(...said(status));
      waiting.hidden = !status.held;
      waiting.replaceChildren(...(status.held ? [String(status.held), h("span", { class: "visually-hidden" }, " on hold")] : []));
      onStatus?.(status);
    } catch (error) {
      show(attention(error instanceof Error ? error.message : String(error)));
    }
    asking = false;
    if (again) void look();
  };
  listen((kind, data) => {
    const isBack = kind === "open" && !connection.hidden;
    if (kind === "open" || kind === "lost") connection.hidden = kind === "open";
    if (kind === "held" || kind === "map" || kind === "resync" || isBack) void look();
    listener(kind, data);
  });
  document.addEventListener("visibilitychange", look);
  setInterval(look, BETWEEN);
  void look();
  keepTime();
}

/**
 * What needs a person, and where it is seen to.
 *
 * @param {string} text
 * @param {string | null} [path]
 */
function attention(text, path = null) {
  const parts = [icon("warning"), text];
  if (path === null) return h("span", { class: "attention" }, ...parts);
  return h("a", { class: "attention", href: new URL(path, root).href }, ...parts);
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
  if (status.clients) add(counted(status.clients.length, "client"), status.clients.join(", ") || "None was seen yet", "setup#clients");
  if (status.requests) {
    const { complete, partial, unscanned } = status.requests;
    const all = complete + partial + unscanned;
    const title = `${complete} scanned, ${partial} partly, ${unscanned} not`;
    if (all) add(`${Math.floor((100 * complete) / all)} % of ${counted(all, "request")} scanned`, title, "live");
    else add("no request yet", "Nothing went through the proxy yet", "live");
  }
  for (const source of status.sources ?? []) {
    if (source.error) parts.push(attention(`Source ${source.name}: ${source.error}`, "setup#sources"));
  }
  if (status.held) parts.push(attention(`${counted(status.held, "request")} on hold`, "live"));
  if (status.trackSharing === false) parts.push(attention("Requests are not scanned: memory.track_sharing is false"));
  for (const warning of status.warnings ?? []) parts.push(attention(warning, "setup#warnings"));
  return parts;
}
