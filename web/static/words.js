// @ts-check
// How numbers, sizes and what happened are said.

/**
 * 12345 as "12 345", with narrow spaces that do not break.
 *
 * @param {number} value
 */
export function number(value) {
  return String(value).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/**
 * "1 note", "2 notes".
 *
 * @param {number} value
 * @param {string} one
 * @param {string} [many]
 */
export function counted(value, one, many = `${one}s`) {
  return `${number(value)} ${value === 1 ? one : many}`;
}

/**
 * What a person types for a command of mitmemory.
 *
 * @param {Pick<SuiteStatus, "program" | "configFlag">} status
 * @param {string} command
 * @param {...string} more
 */
export function typed({ program = "mitmemory", configFlag }, command, ...more) {
  return [program, command, configFlag, ...more].filter(Boolean).join(" ");
}

/**
 * Bytes in steps of 1,000: "812 B", "3.4 kB", "12 MB".
 *
 * @param {number} bytes
 */
export function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  const [value, unit] = bytes < 999_500 ? [bytes / 1000, "kB"] : [bytes / 1_000_000, "MB"];
  return `${value < 10 ? value.toFixed(1) : number(Math.round(value))} ${unit}`;
}

/**
 * How much of a note was there: "2/3 lines", "quote", "by name only", "in a listing".
 *
 * @param {SightingEntry} sighting
 */
export function lines({ grade, matched, distinctive }) {
  if (grade === "line") return `${matched}/${distinctive} lines`;
  if (grade === "quote") return "quote";
  return grade === "listing" ? "in a file listing" : "by name only";
}

/**
 * The models a request went to; before that is known, the one it is for. Empty when it reached none.
 *
 * @param {ActivityEntry} entry
 * @returns {{model: string, to: Place}[]}
 */
export function receivers(entry) {
  if (entry.sentTo.length) return entry.sentTo;
  const kept = entry.decision.action === "block" || entry.decision.action === "hold";
  // In annotate mode `sentTo` is empty; a status says that there was an answer.
  const unreached = entry.outcome === "failed" && entry.status === null;
  return kept || entry.outcome === "blocked" || unreached ? [] : [{ model: entry.model, to: entry.to }];
}

/**
 * A name within a sentence. One that is written from right to left, or turns the direction, would take what stands after
 * it along; isolates (Unicode Bidirectional Algorithm, 2.4.2) hold it together.
 *
 * @param {string} name
 */
function apart(name) {
  return /[\u0590-\u08ff\u200e\u200f\u202a-\u202e\u2066-\u2069\ufb1d-\ufdff\ufe70-\ufeff]/.test(name) ? `\u2068${name}\u2069` : name;
}

/**
 * What happened to one note in one request, in a sentence without a stop.
 *
 * @param {ActivityEntry} entry
 * @param {SightingEntry} sighting
 */
export function sentence(entry, sighting) {
  const to = receivers(entry);
  const title = apart(sighting.title);
  if (!to.length && entry.outcome === "failed") return `${entry.model} was not reached: ${title}`;
  if (!to.length) {
    const done = entry.decision.action === "hold" && !entry.outcome ? "Held" : "Blocked";
    return `${done}${entry.decision.rule ? ` by ${apart(entry.decision.rule)}` : ""}: ${title}`;
  }
  const models = to.map((one) => `${one.model} (${one.to})`).join(" and ");
  return `${title} went to ${models}, ${lines(sighting)}, ${sighting.resent ? "again" : "first time"}`;
}
