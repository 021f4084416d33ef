// @ts-check
// How often each note was sent, as the page knows it: what the API said, and what events added since.
import { get } from "./api.js";

const REMEMBERED = 2000; // exchanges; their last event comes long before so many others

export class Sharing {
  constructor() {
    /** @type {Map<string, NoteExposure>} */
    this.notes = new Map();
    /** @type {Map<string, number>} how many of an exchange's `sentTo` are in the counts already */
    this.counted = new Map();
  }

  /**
   * Start from what the API says. `entries` are the exchanges whose `sentTo` its counts hold; of those in `since`, what
   * events told while it was asked, it may know nothing.
   *
   * @param {Record<string, NoteExposure>} exposure
   * @param {ActivityEntry[]} entries
   * @param {ActivityEntry[]} since
   */
  load(exposure, entries, since) {
    this.notes = new Map(Object.entries(exposure));
    for (const entry of since) this.counted.delete(entry.id);
    for (const entry of entries) this.counted.set(entry.id, entry.sentTo.length);
    for (const entry of since) this.add(entry);
  }

  /**
   * Count what an event adds, by the rule of the API: once per model that received the body, listings not at all.
   *
   * @param {ActivityEntry} entry
   */
  add(entry) {
    const known = this.counted.get(entry.id) ?? 0;
    if (!entry.notes.length || entry.sentTo.length <= known) return;
    this.counted.set(entry.id, entry.sentTo.length);
    if (this.counted.size > REMEMBERED) this.counted.delete([...this.counted.keys()][0]);
    for (const { model, to } of entry.sentTo.slice(known)) {
      for (const sighting of entry.notes) {
        if (sighting.grade === "listing") continue;
        const note = this.notes.get(sighting.id) ?? none(entry.startedAt);
        const key = /** @type {const} */ (`${to}${sighting.by === "content" ? "Content" : "Reference"}`);
        this.notes.set(sighting.id, {
          ...note,
          [key]: note[key] + 1,
          lastShared: note.lastShared > entry.startedAt ? note.lastShared : entry.startedAt,
          models: { ...note.models, [model]: (note.models[model] ?? 0) + 1 },
        });
      }
    }
  }

  /** Where each note that was ever sent went. @returns {Map<string, Set<Place>>} */
  places() {
    return new Map([...this.notes].map(([id, note]) => [id, places(note)]));
  }
}

/**
 * @param {NoteExposure} note
 * @returns {Set<Place>}
 */
export function places(note) {
  /** @type {Set<Place>} */
  const found = new Set();
  if (note.localContent + note.localReference) found.add("local");
  if (note.cloudContent + note.cloudReference) found.add("cloud");
  return found;
}

/**
 * @param {string} moment
 * @returns {NoteExposure}
 */
function none(moment) {
  const counts = { localContent: 0, localReference: 0, cloudContent: 0, cloudReference: 0 };
  return { ...counts, firstShared: moment, lastShared: moment, models: {} };
}

/**
 * The map with its counts, and the newest exchanges. These are asked for first: of what is sent in between the counts know,
 * so that no note is left without its ring.
 *
 * @returns {Promise<[MemoryMap, ActivityEntry[]]>}
 */
export async function loadMap() {
  const { entries } = await get("activity?limit=1000&notes=only");
  const map = await get("memory");
  return [map, entries];
}
