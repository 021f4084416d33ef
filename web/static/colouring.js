// @ts-check
// What the colours of the dots say: the folder, the source, the community, or where a note went.
import { groups, hues } from "./palette.js";
import { places } from "./sharing.js";

/**
 * @typedef {"folder" | "source" | "community" | "exposure"} ColourBy
 * @typedef {{hue: string, name: string}} Swatch `hue` is a token without `--`
 * @typedef {{hues: Map<string, string>, title: string, swatches: Swatch[]}} Colouring note -> token, and what it means
 */

const WENT = /** @type {const} */ ([
  ["cloud", "to a cloud model"],
  ["local", "to local models only"],
  ["hue-rest", "never sent"],
]);

/**
 * @param {ColourBy} by
 * @param {MapNode[]} notes
 * @param {ReadonlyMap<string, NoteExposure>} exposure
 * @param {string[][]} communities the largest first; empty as long as they are not known
 * @returns {Colouring}
 */
export function colouring(by, notes, exposure, communities) {
  if (by === "exposure") return byExposure(notes, exposure);
  if (by === "community") return byCommunity(notes, communities);
  if (by === "source") return byGroup("Sources", new Map(notes.map(({ id, source }) => [id, source])), (name) => name);
  const several = new Set(notes.map((note) => note.source)).size > 1;
  return byGroup("Folders", groups(notes), (name) => (several ? name : name.slice(name.indexOf("/") + 1)));
}

/**
 * @param {string} title
 * @param {Map<string, string>} grouped note -> group
 * @param {(group: string) => string} named
 * @returns {Colouring}
 */
function byGroup(title, grouped, named) {
  const hueOf = hues(grouped);
  const swatches = [...hueOf].filter(([, hue]) => hue !== "hue-rest").map(([group, hue]) => ({ hue, name: named(group) }));
  const rest = hueOf.size - swatches.length;
  if (rest) swatches.push({ hue: "hue-rest", name: `${rest} more` });
  return { hues: new Map([...grouped].map(([id, group]) => [id, hueOf.get(group) ?? "hue-rest"])), title, swatches };
}

/**
 * A community has no name of its own: it is called by its note with the most links.
 *
 * @param {MapNode[]} notes
 * @param {string[][]} communities
 * @returns {Colouring}
 */
function byCommunity(notes, communities) {
  const byId = new Map(notes.map((note) => [note.id, note]));
  /** @type {Map<string, string>} */
  const grouped = new Map();
  /** @type {Map<string, string>} */
  const names = new Map();
  for (const ids of communities) {
    const members = ids.flatMap((id) => byId.get(id) ?? []);
    if (!members.length) continue;
    const hub = members.reduce((most, one) => (one.degree > most.degree ? one : most));
    names.set(hub.id, hub.title);
    for (const { id } of members) grouped.set(id, hub.id);
  }
  const found = byGroup("Communities, by their hub", grouped, (group) => names.get(group) ?? group);
  for (const { id } of notes) if (!grouped.has(id)) found.hues.set(id, "hue-rest");
  if (notes.length > grouped.size && names.size) {
    const rest = found.swatches.find(({ hue }) => hue === "hue-rest");
    if (rest) rest.name += ", or none";
    else found.swatches.push({ hue: "hue-rest", name: "in none" });
  }
  return found;
}

/**
 * @param {MapNode[]} notes
 * @param {ReadonlyMap<string, NoteExposure>} exposure
 * @returns {Colouring}
 */
function byExposure(notes, exposure) {
  const hueOf = (/** @type {string} */ id) => {
    const note = exposure.get(id);
    const went = note && places(note);
    return went?.has("cloud") ? "cloud" : went?.has("local") ? "local" : "hue-rest";
  };
  return {
    hues: new Map(notes.map(({ id }) => [id, hueOf(id)])),
    title: "Where notes went",
    swatches: WENT.map(([hue, name]) => ({ hue, name })),
  };
}
