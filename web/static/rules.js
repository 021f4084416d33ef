// @ts-check
// The Rules page: each rule with its hits, what notes say themselves, and the dry run.
import { get, post } from "./api.js";
import { Action } from "./components/Action.js";
import { Ago } from "./components/Ago.js";
import { Copy } from "./components/Copy.js";
import { Empty } from "./components/Empty.js";
import { NoteLink } from "./components/NoteLink.js";
import { Table } from "./components/Table.js";
import { byId, h, root } from "./dom.js";
import { frame } from "./frame.js";
import { swap } from "./setup_parts.js";
import { counted, number, typed } from "./words.js";

const BETWEEN = 5000; // ms between two looks at the hits
const PERIODS = [
  { since: "24h", word: "the last 24 hours" },
  { since: "7d", word: "the last 7 days" },
  { since: "30d", word: "the last 30 days" },
  { since: "", word: "all that is kept" },
];
const DONE = /** @type {const} */ ([
  ["block", "blocked"],
  ["hold", "held"],
  ["redirect", "redirected"],
  ["redact", "redacted"],
  ["allow", "allowed"],
]);
const EXAMPLE = `rules:
  - name: private notes never leave
    when: {tags: [private], to: cloud}
    then: block`;

/** @type {string} the rules that are shown, as the API gave them */
let shown = "";
/** @type {RuleEntry[]} */
let rules = [];

let turn = 0; // answers that come late tell of before
let loading = false;
/** @type {string | null} whom the dry run was drawn for */
let drawnFor = null;

frame(
  (kind) => {
    if (kind === "resync" || kind === "map") void load();
  },
  (status) => allow(status),
);
document.addEventListener("visibilitychange", look);
setInterval(look, BETWEEN);
void start();

async function start() {
  byId("rules").append(h("p", { class: "notice" }, "Loading…"));
  await load();
  try {
    allow(await get("status"));
  } catch (error) {
    if (drawnFor === null) byId("test").replaceChildren(h("p", { class: "rules-part faults", role: "alert" }, said(error)));
  }
  document.documentElement.dataset.rules = "ready";
}

/** Draw the dry run, once it is known who asks, and anew when that is another one. @param {SuiteStatus} status */
function allow(status) {
  const role = status.role ?? "";
  if (role === drawnFor) return;
  drawnFor = role;
  byId("test").replaceChildren(dryRun(status));
}

function look() {
  if (!document.hidden && !loading) void load();
}

async function load() {
  const mine = ++turn;
  loading = true;
  try {
    /** @type {RuleList} */
    const list = await get("rules");
    if (mine !== turn) return;
    const now = JSON.stringify(list);
    if (now === shown) return; // what a person has opened or selected stays so
    shown = now;
    rules = list.rules;
    swap(byId("rules"), ...parts(list));
  } catch (error) {
    if (mine !== turn) return;
    shown = "";
    byId("rules").replaceChildren(Empty({ icon: "warning", title: "The rules could not be loaded" }, h("p", {}, said(error))));
  } finally {
    if (mine === turn) loading = false;
  }
}

/** @param {unknown} error */
function said(error) {
  return error instanceof Error ? error.message : String(error);
}

/**
 * @param {RuleList} list
 * @returns {Node[]}
 */
function parts(list) {
  const found = [h("section", { class: "rules-part", "aria-label": "Rules" }, ...own(list))];
  if (list.notes.length) found.push(shares(list.notes));
  if (list.unscanned) found.push(unscanned(list.unscanned));
  return found;
}

/**
 * @param {RuleList} list
 * @returns {Node[]}
 */
function own(list) {
  if (!list.rules.length) {
    const text = "A rule says which notes may go where. Without one, everything is sent as it is. Write one into mitm.yaml; it counts from the next request on.";
    return [Empty({ icon: "rules", title: "No rules yet" }, h("p", {}, text), Copy(EXAMPLE))];
  }
  /** @type {Table<RuleEntry>} */
  const table = new Table({
    caption: "Rules in their order",
    key: (rule) => rule.name,
    empty: "",
    columns: [
      { label: "Rule", cell: (rule) => rule.name, class: "rule-name" },
      { label: "When", cell: (rule) => conditions(rule.when) },
      { label: "Then", cell: then, class: "rule-then" },
      { label: "Hits", cell: (rule) => number(rule.hits), class: "number" },
    ],
  });
  table.setRows(list.rules);
  const notice = "These rules are not applied: the suite's mode is annotate. They can be tried below.";
  return [
    ...(list.mode === "annotate" ? [h("p", { class: "muted" }, notice)] : []),
    ...(list.countedSince ? [h("p", { class: "muted" }, "Hits: requests that a rule had a part in, counted since ", Ago(list.countedSince), ".")] : []),
    table.element,
  ];
}

/** @param {Record<string, string | string[]>} when */
function conditions(when) {
  const every = Object.entries(when);
  if (!every.length) return h("span", { class: "muted" }, "every request");
  return h(
    "ul",
    { class: "conditions" },
    ...every.map(([name, value]) => h("li", {}, `${name}: `, h("b", {}, [value].flat().join(" or ")))),
  );
}

/** @param {RuleEntry} rule */
function then(rule) {
  const more = [
    rule.targets?.length && `to ${rule.targets.join(", then ")}`,
    rule.placeholder && `as ${rule.placeholder}`,
    rule.hold_for && `for ${rule.hold_for} s`,
    rule.otherwise && `otherwise ${rule.otherwise}`,
  ];
  return h("span", {}, Action(rule.then), ...more.filter(Boolean).map((one) => h("small", {}, one)));
}

/** @param {RuleList["notes"]} every */
function shares(every) {
  /** @type {Table<RuleList["notes"][number]>} */
  const table = new Table({
    caption: "What notes say of sharing",
    key: (rule) => rule.name,
    empty: "",
    columns: [
      { label: "Frontmatter", cell: (rule) => rule.name, class: "rule-name" },
      { label: "Notes", cell: carriers },
      { label: "Then", cell: then, class: "rule-then" },
      { label: "Hits", cell: (rule) => number(rule.hits), class: "number" },
    ],
  });
  table.setRows(every);
  return h(
    "section",
    { class: "rules-part", "aria-labelledby": "shares" },
    h("h2", { id: "shares" }, "In the notes themselves"),
    h("p", { class: "muted" }, "A note's own share comes before the rules, and wins over them."),
    table.element,
  );
}

/** @param {RuleList["notes"][number]} rule */
function carriers({ name, count, notes }) {
  const rest = count - notes.length;
  return h(
    "details",
    {},
    h("summary", { "data-key": `notes of ${name}` }, counted(count, "note")),
    h("ul", {}, ...notes.map((note) => h("li", {}, NoteLink(note, { caption: true }))), rest > 0 && h("li", { class: "muted" }, `and ${number(rest)} more`)),
  );
}

/** @param {NonNullable<RuleList["unscanned"]>} found */
function unscanned(found) {
  const word = { block: "blocked", allow: "sent" };
  const why = {
    block: "mitm.yaml says unscanned: block",
    allow: "mitm.yaml says unscanned: allow",
    null: found.cloud === "block" ? "something restricts what goes to cloud models" : "nothing restricts what goes to cloud models",
  }[String(found.setting)];
  return h(
    "section",
    { class: "rules-part", "aria-labelledby": "unscanned" },
    h("h2", { id: "unscanned" }, "What could not be looked at"),
    h("p", {}, `To a cloud model it is ${word[found.cloud]}, to a local one ${word[found.local]}: ${why}. `, h("span", { class: "muted" }, counted(found.hits, "hit"))),
  );
}

/** @param {SuiteStatus} status */
function dryRun(status) {
  const head = [
    h("h2", { id: "dry-run" }, "Try them on past requests"),
    h("p", { class: "muted" }, "Judges the requests of the activity anew, with today's rules and tags. Nothing is sent and nothing is changed."),
  ];
  if (status.role !== "admin") {
    head.push(h("p", {}, `Only an admin can do this: open the link that mitmemory printed, or run ${typed(status, "rules", "test")}.`));
    return h("section", { class: "rules-part", "aria-labelledby": "dry-run" }, ...head);
  }
  const period = h("select", { id: "period" }, ...PERIODS.map(({ since, word }) => h("option", { value: since, selected: since === "30d" }, word)));
  const others = h("textarea", { id: "others", spellcheck: "false", "aria-describedby": "others-help" });
  const other = h(
    "details",
    { class: "other-rules", ontoggle: () => others.value || (others.value = written()) },
    h("summary", {}, "Try other rules"),
    h("p", { id: "others-help" }, "JSON in the words of mitm.yaml. Empty: the rules as they are."),
    h("label", { class: "visually-hidden", for: "others" }, "Other rules as JSON"),
    others,
  );
  const button = h("button", { type: "submit" }, "Test");
  const result = h("div", { "aria-live": "polite" });
  const form = h(
    "form",
    { class: "test-tools", onsubmit: (/** @type {Event} */ event) => (event.preventDefault(), void run()) },
    h("label", { for: "period" }, "Over"),
    period,
    button,
  );
  const run = async () => {
    button.disabled = true;
    result.replaceChildren(h("p", { class: "muted" }, "Judging…"));
    try {
      const asked = { since: period.value || null, ...(other.open && others.value.trim() ? { rules: parsed(others.value) } : {}) };
      result.replaceChildren(outcome(await post("rules/test", asked), period.selectedOptions[0].label));
    } catch (error) {
      result.replaceChildren(h("p", { class: "faults", role: "alert" }, said(error)));
    } finally {
      button.disabled = false;
    }
  };
  return h("section", { class: "rules-part", "aria-labelledby": "dry-run" }, ...head, form, other, result);
}

/** The rules as JSON, one on each line, without what only the API adds. */
function written() {
  const lines = rules.map(({ hits: _, ...rule }) => `  ${JSON.stringify(rule)}`);
  return lines.length ? `[\n${lines.join(",\n")}\n]` : '[\n  {"name": "private stays", "when": {"tags": "private", "to": "cloud"}, "then": "block"}\n]';
}

/** @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`This is not JSON: ${said(error)}`, { cause: error });
  }
}

/**
 * @param {RuleTest} found
 * @param {string} period
 */
function outcome(found, period) {
  if (!found.tested) return h("p", {}, `No request was recorded in ${period}.`);
  const done = DONE.filter(([action]) => found.actions[action]).map(
    ([action, word], at) => `${number(found.actions[action] ?? 0)} ${at ? "" : "would have been "}${word}`,
  );
  /** @type {Table<RuleTest["rules"][number]>} */
  const table = new Table({
    caption: "What each rule would have done",
    key: (rule) => rule.name,
    empty: "There are no rules: every request would have been sent.",
    columns: [
      { label: "Rule", cell: (rule) => rule.name, class: "rule-name" },
      { label: "Then", cell: (rule) => Action(rule.action) },
      { label: "Hits", cell: (rule) => number(rule.hits), class: "number" },
      { label: "For example", cell: examples },
    ],
  });
  table.setRows(found.rules);
  return h("div", {}, h("p", {}, `Of ${counted(found.tested, "request")} in ${period}, ${done.join(", ")}.`), table.element);
}

/** @param {RuleTest["rules"][number]} rule */
function examples({ examples: ids }) {
  if (!ids.length) return h("span", { class: "muted" }, "none");
  return h(
    "ul",
    { class: "examples" },
    ...ids.map((id) => h("li", {}, h("a", { href: new URL(`activity?entry=${encodeURIComponent(id)}`, root).href }, moment(id)))),
  );
}

/** When a request began: its id counts microseconds since 1970. @param {string} id */
function moment(id) {
  const at = new Date(parseInt(id.slice(0, 14), 16) / 1000);
  return at.toLocaleString(undefined, { dateStyle: "short", timeStyle: "medium" });
}
