// @ts-check
// The map's colours, read from tokens.css, and the folders they stand for.
import { token } from "./dom.js";

const HUES = 8;
const LARGEST = 0.3; // share of the notes that one folder may hold before it is taken apart

/**
 * The folder that each note is coloured and placed by: the first one below its source (the source itself for a note at
 * its root). A folder that holds most of the notes would say nothing, so it is taken apart, level by level.
 *
 * @param {{id: string, source: string, folder: string}[]} notes
 * @returns {Map<string, string>} note -> folder
 */
export function groups(notes) {
  /** @type {Map<string, string[]>} folder -> notes */
  const members = new Map();
  const folders = new Map(notes.map(({ id, folder }) => [id, folder]));
  const put = (/** @type {string} */ id, /** @type {number} */ depth) => {
    const name = (folders.get(id) ?? "").split("/").slice(0, depth).join("/");
    const known = members.get(name);
    if (known) known.push(id);
    else members.set(name, [id]);
  };
  for (const { id, source } of notes) put(id, source.split("/").length + 1);
  for (;;) {
    const largest = [...members].reduce((most, one) => (one[1].length > most[1].length ? one : most), ["", []]);
    const [name, ids] = largest;
    const deeper = ids.filter((id) => folders.get(id) !== name);
    if (ids.length <= notes.length * LARGEST || !deeper.length) break;
    members.set(name, ids.filter((id) => folders.get(id) === name));
    if (!members.get(name)?.length) members.delete(name);
    for (const id of deeper) put(id, name.split("/").length + 1);
  }
  return new Map([...members].flatMap(([name, ids]) => ids.map((id) => [id, name])));
}

/**
 * Which hue each folder has: the eight with the most notes have one of their own, the rest are grey.
 *
 * @param {Map<string, string>} grouped note -> folder
 * @returns {Map<string, string>} folder -> token without `--`, in order of size
 */
export function hues(grouped) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const name of grouped.values()) counts.set(name, (counts.get(name) ?? 0) + 1);
  const order = [...counts].sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1));
  return new Map(order.map(([name], at) => [name, at < HUES ? `hue-${at + 1}` : "hue-rest"]));
}

/** The colours as they are now, dark or light. */
export function readPalette() {
  const names = ["page", "text", "muted", "edge", "edge-near", "local", "cloud", "hue-rest"];
  for (let hue = 1; hue <= HUES; hue++) names.push(`hue-${hue}`);
  return new Map(names.map((name) => [name, token(`--${name}`)]));
}

/**
 * A colour on the way to another one; both as `#rrggbb`.
 *
 * @param {string} from
 * @param {string} to
 * @param {number} share 0 is `from`, 1 is `to`
 */
export function mix(from, to, share) {
  let mixed = "#";
  for (const at of [1, 3, 5]) {
    const [a, b] = [parseInt(from.slice(at, at + 2), 16), parseInt(to.slice(at, at + 2), 16)];
    mixed += Math.round(a + (b - a) * share).toString(16).padStart(2, "0");
  }
  return mixed;
}
