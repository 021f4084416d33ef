// @ts-check
// What the Setup page says of the authority, of what is not seen, and of the suite itself.
import { NoteLink } from "./components/NoteLink.js";
import { h, icon } from "./dom.js";
import { code, facts, some } from "./setup_parts.js";
import { counted, number, typed } from "./words.js";

const SHOWN = 10;

/**
 * @param {AuthorityState | null} state
 * @param {SuiteStatus} status
 */
export function authority(state, status) {
  if (!state) return h("p", { class: "muted" }, "There is none yet: it is made when the proxy starts.");
  const system = typed(status, "env", "--system");
  const trusted = {
    true: "yes, so that programs that use the system's roots need no variable",
    false: `no: start programs with the lines above, or see what ${system} prints`,
    null: `this cannot be told from here; ${system} prints how to make it so`,
  };
  return h(
    "div",
    { class: "block" },
    h("p", {}, "Programs must trust the authority that this installation made for itself, or nothing of them is seen or sent. Its key never leaves this machine."),
    state.problem && h("p", { class: "problem" }, icon("warning"), state.problem),
    facts(
      ["Made", state.made ? "yes" : "not yet"],
      ["Certificate", code(state.certificate)],
      ["With the public roots", code(state.bundle)],
      ["Valid until", state.validUntil && new Date(state.validUntil).toLocaleDateString(undefined, { dateStyle: "long" })],
      state.made && ["Trusted by the system", trusted[/** @type {"true" | "false" | "null"} */ (String(state.systemTrusts))]],
    ),
  );
}

/** @param {SuiteStatus} status */
export function unseen({ notSeen, requests }) {
  const { complete = 0, partial = 0, unscanned = 0 } = requests ?? {};
  const reasons = Object.entries(notSeen?.reasons ?? {}).sort(([, a], [, b]) => b - a);
  const untrusting = notSeen?.untrustingHosts ?? [];
  const passed = notSeen?.passedThroughHosts ?? [];
  return h(
    "div",
    { class: "block" },
    facts(
      ["Requests since the start", `${number(complete)} scanned, ${number(partial)} partly, ${number(unscanned)} not`],
      reasons.length > 0 && ["Why not, or not wholly", some(reasons, SHOWN, ([reason, count]) => `${reason}: ${counted(count, "request")}`)],
      untrusting.length > 0 && [
        "Not trusted by a client",
        h("div", {}, some(untrusting, SHOWN, String), h("small", {}, "Nothing of it is seen or sent: start the client with the lines above.")),
      ],
      passed.length > 0 && [
        "Passed through unseen",
        h("div", {}, some(passed, SHOWN, String), h("small", {}, "They look like model providers: name those that are under providers in mitm.yaml.")),
      ],
    ),
    h("p", { class: "muted" }, "Never seen are programs that do not use the proxy (many leave it out for localhost) or accept only certificates of their own, and what hosts are told that serve no model: they pass as closed tunnels."),
  );
}

/**
 * @param {MapNode[]} nodes
 * @param {SourceState[]} sources
 */
export function undetected(nodes, sources) {
  const named = nodes.filter((node) => node.detectable === "mention");
  const skipped = sources.filter((source) => source.skipped > 0);
  return h(
    "div",
    { class: "block" },
    named.length
      ? h(
          "div",
          {},
          h("p", {}, `${counted(named.length, "note")} of ${number(nodes.length)} can only be recognised by name or by quotes: no line is long enough, or theirs are in other notes too.`),
          some(named, SHOWN, (note) => NoteLink(note, { caption: true })),
        )
      : h("p", {}, nodes.length ? `Each of ${counted(nodes.length, "note")} has lines that it can be recognised by.` : "There is no note yet."),
    skipped.length > 0 &&
      h("div", {}, h("p", {}, "Skipped, since they are too large or too many:"), some(skipped, SHOWN, ({ name, skipped: count }) => `${name}: ${counted(count, "file")}`)),
    h("p", { class: "muted" }, "Paraphrases, summaries and translations of a note are not recognised, nor is text in images. Memory that a provider keeps for your account lies with them: there is no file to map."),
  );
}

/** @param {SuiteStatus} status */
export function versions({ versions: of, proxy, inspector, dashboard, configuration, warnings = [] }) {
  return h(
    "div",
    { class: "block" },
    facts(
      ["Versions", Object.entries(of ?? {}).map(([name, version]) => `${name} ${version}`).join(", ") || null],
      ["Configuration", configuration ? code(configuration) : "none: this suite was started without a file"],
      ["Proxy", proxy ? code(proxy) : null],
      ["Inspector", inspector ? code(inspector) : "off"],
      ["Dashboard", dashboard ? code(dashboard) : null],
    ),
    warnings.length
      ? h("ul", { class: "problems" }, ...warnings.map((warning) => h("li", { class: "problem" }, icon("warning"), warning)))
      : h("p", { class: "muted" }, "There is no warning."),
  );
}
