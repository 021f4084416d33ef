// @ts-check
// What lies over the map while there is none: that it loads, that it could not be loaded, how to begin.
import { get } from "./api.js";
import { Copy } from "./components/Copy.js";
import { Empty } from "./components/Empty.js";
import { byId, h, icon, root } from "./dom.js";

const EXAMPLE = `memory:
  sources:
    - {name: vault, type: markdown, path: "~/Documents/Obsidian Vault"}
`;

/** Where notes are added: forms of the Setup page. */
const SOURCES = new URL("setup#sources", root).href;
const KINDS = ["Add Claude Code", "Add folder", "Add MCP graph"];

/** Lay something over the page; null: nothing. @param {Node | null} element */
export function cover(element) {
  byId("cover").replaceChildren(...(element ? [element] : []));
}

/** Links to where notes are added, one for each kind of source. */
export function addLinks() {
  return KINDS.map((word) => h("a", { class: "button", href: SOURCES }, icon("add"), word));
}

/** @returns {() => void} ends it */
export function showProgress() {
  const said = h("p", { role: "status" }, "Reading your notes…");
  cover(Empty({ icon: "memory", title: "Drawing the map" }, h("progress", { "aria-label": "Reading your notes" }), said));
  const started = performance.now();
  const timer = setInterval(() => {
    said.textContent = `Reading your notes: ${Math.round((performance.now() - started) / 1000)} s`;
  }, 1000);
  get("status").then(
    (/** @type {SuiteStatus} */ { sources }) => {
      const names = (sources ?? []).filter((source) => source.enabled).map((source) => source.name);
      if (names.length) said.textContent = `Reading the notes of ${names.join(", ")}…`;
    },
    () => {}, // the status line says it
  );
  return () => clearInterval(timer);
}

/** What the page says without a note. @param {SourceState[]} sources */
export function nothing(sources) {
  const known = sources.map(({ name, location, error, enabled }) =>
    h("li", {}, `${name}: ${enabled ? (error ?? `no note in ${location}`) : "switched off"}`),
  );
  return Empty(
    { icon: "memory", title: "Your notes will be here" },
    h("p", {}, "Each note becomes a dot and each link a line. When a request carries a note to a model, it lights up."),
    known.length ? h("ul", { class: "known" }, ...known) : "",
    h("p", { class: "choices" }, ...addLinks()),
    h("p", {}, "Or name a folder of notes in mitm.yaml, which is read again when it is saved:"),
    Copy(EXAMPLE),
  );
}
