// @ts-check
// The time slider: the sharing of the past, request by request, up to now.
import { byId, h, icon } from "./dom.js";
import { receivers, sentence } from "./words.js";

const STEP = 900; // ms from one request to the next while it plays
const MOST = 2000; // requests that are remembered

export class Replay {
  /**
   * @param {object} hear
   * @param {(entry: ActivityEntry, marks: Map<string, Set<Place>>) => void} hear.onMoment the map as it was when this request was sent
   * @param {() => void} hear.onNow back to what is
   */
  constructor({ onMoment, onNow }) {
    this.onMoment = onMoment;
    this.onNow = onNow;
    /** @type {ActivityEntry[]} the oldest first, each with a note that went somewhere */
    this.entries = [];
    this.element = byId("replay");
    this.timer = 0;
    this.playButton = h("button", { type: "button", class: "quiet", onclick: () => (this.timer ? this.stop() : this.#play()) });
    this.slider = h("input", { type: "range", min: 0, max: 0, step: 1, "aria-label": "Moment that the map shows", oninput: () => this.#slid() });
    this.said = h("output", { for: "replay-slider" });
    this.slider.id = "replay-slider";
    this.element.append(this.playButton, this.slider, this.said);
    this.#button();
    this.#grow(true);
  }

  /** Whether the map shows what is now. */
  get now() {
    return Number(this.slider.value) >= this.entries.length;
  }

  /** @param {ActivityEntry[]} entries the newest first, as the API gives them */
  setEntries(entries) {
    const shown = this.entries[Number(this.slider.value)]?.id; // none: the map shows what is now
    this.entries = entries.filter(wentOut).reverse();
    const at = this.entries.findIndex((one) => one.id === shown);
    if (at < 0) this.stop();
    this.#grow(at < 0);
    if (at < 0) return;
    this.slider.value = String(at);
    this.#tell();
  }

  /** A request was routed, or ended. @param {ActivityEntry} entry */
  add(entry) {
    const at = this.entries.findIndex((one) => one.id === entry.id);
    const { now } = this;
    if (at >= 0 && wentOut(entry)) this.entries[at] = entry;
    else if (at >= 0) this.entries.splice(at, 1); // it did not arrive
    else if (wentOut(entry)) this.entries.push(entry);
    if (now && this.entries.length > MOST) this.entries.shift();
    this.#grow(now);
  }

  /** End a replay that plays; the map stays where it is. */
  stop() {
    clearInterval(this.timer);
    this.timer = 0;
    this.#button();
  }

  /** @param {boolean} now */
  #grow(now) {
    const last = this.entries.length;
    this.slider.max = String(last);
    if (now) this.slider.value = String(last);
    this.slider.disabled = this.playButton.disabled = !last;
    this.#tell();
  }

  #play() {
    if (this.now) this.#go(0);
    this.timer = setInterval(() => {
      this.#go(Number(this.slider.value) + 1);
      if (this.now) this.stop();
    }, STEP);
    this.#button();
  }

  #slid() {
    this.stop();
    this.#go(Number(this.slider.value));
  }

  /** @param {number} at */
  #go(at) {
    this.slider.value = String(at);
    this.#tell();
    if (this.now) this.onNow();
    else this.onMoment(this.entries[at], marksAfter(this.entries.slice(0, at + 1)));
  }

  #button() {
    const word = this.timer ? "Pause" : "Replay sharing";
    this.playButton.replaceChildren(icon(this.timer ? "pause" : "play"), h("span", {}, this.timer ? "Pause" : "Replay"));
    this.playButton.title = word;
  }

  #tell() {
    const entry = this.entries[Number(this.slider.value)];
    const text = entry ? moment(entry) : this.entries.length ? "Now" : "Now. No note was sent in the requests kept.";
    this.slider.setAttribute("aria-valuetext", text);
    this.said.textContent = text;
    this.said.title = text;
  }
}

/** @param {ActivityEntry} entry */
function wentOut(entry) {
  return entry.notes.length > 0 && receivers(entry).length > 0;
}

/** Where each note had gone after these requests; a listing is shown, not counted. @param {ActivityEntry[]} entries */
function marksAfter(entries) {
  /** @type {Map<string, Set<Place>>} */
  const marks = new Map();
  for (const entry of entries) {
    for (const { id } of entry.notes.filter(({ grade }) => grade !== "listing")) {
      const went = marks.get(id) ?? new Set();
      for (const { to } of receivers(entry)) went.add(to);
      marks.set(id, went);
    }
  }
  return marks;
}

/** @param {ActivityEntry} entry */
function moment(entry) {
  const when = new Date(entry.startedAt).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
  const [first, ...others] = [...entry.notes].sort((a, b) => b.matched - a.matched);
  return `${when}: ${sentence(entry, first)}${others.length ? `, and ${others.length} more` : ""}`;
}
