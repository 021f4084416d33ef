// @ts-check
// The map's layout as the server keeps it: it comes back after a reload, in this browser and in others.
import { ApiError, get, put } from "./api.js";

/** @typedef {import("./layout.js").Point} Point */

const PAUSE = 1500; // ms without another change after which the layout is saved

export class SavedLayout {
  /** @param {(error: ApiError) => void} onFailure it could not be kept */
  constructor(onFailure) {
    this.onFailure = onFailure;
    /** Only an admin may save; who that is comes with the status. @type {boolean | null} null: not known yet */
    this.allowed = null;
    /** @type {Map<string, Point> | null} */
    this.waiting = null;
    this.timer = 0;
    this.sending = false;
    this.saves = 0;
  }

  /** What was saved. Without it the map is laid out anew, so a failure is none. @returns {Promise<Map<string, Point>>} */
  async load() {
    try {
      const { positions } = await get("memory/layout");
      return new Map(Object.entries(positions));
    } catch {
      return new Map(); // the map itself comes from the same server, and says what is wrong with it
    }
  }

  /** @param {boolean} allowed */
  allow(allowed) {
    this.allowed = allowed;
    if (this.waiting) this.save(this.waiting);
  }

  /** Keep these soon. @param {Map<string, Point>} positions */
  save(positions) {
    this.waiting = positions;
    clearTimeout(this.timer);
    if (this.allowed) this.timer = setTimeout(() => void this.#send(), PAUSE);
  }

  /** Send what waits. One after the other: the server keeps the one that comes last. */
  async #send() {
    if (this.sending) return;
    this.sending = true;
    while (this.waiting) await this.#put(this.waiting);
    this.sending = false;
  }

  /** @param {Map<string, Point>} points */
  async #put(points) {
    const positions = Object.fromEntries([...points].map(([id, [x, y]]) => [id, [short(x), short(y)]]));
    this.waiting = null;
    try {
      await put("memory/layout", { positions });
      this.saves++;
    } catch (error) {
      if (error instanceof ApiError && error.status) this.onFailure(error); // 0: the status line says it
    }
  }
}

/** @param {number} value */
function short(value) {
  return Math.round(value * 100) / 100;
}
