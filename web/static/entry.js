// @ts-check
// What tables say of one request.
import { Lines } from "./components/Lines.js";
import { NoteLink } from "./components/NoteLink.js";
import { Where } from "./components/Where.js";
import { h } from "./dom.js";
import { counted, receivers, size } from "./words.js";

const NOTES_SHOWN = 3;
const OUTCOMES = { answered: "Answered", blocked: "Blocked", failed: "Failed", aborted: "Client left" };

/** @param {ActivityEntry} entry */
export function client(entry) {
  return h("span", { class: "name" }, entry.client);
}

/** The models that got it, or the one that it is for. @param {ActivityEntry} entry */
export function models(entry) {
  const to = receivers(entry);
  const shown = to.length ? to : [{ model: entry.model, to: entry.to }];
  return h(
    "span",
    { class: "stack" },
    ...shown.flatMap((one, at) => {
      const more = at ? [] : [entry.provider, ...(entry.sideRequest ? ["side request"] : [])];
      return [Where(one.to, one.model), h("small", {}, [one.to, ...more].join(", "))];
    }),
  );
}

/** @param {ActivityEntry} entry */
export function notes(entry) {
  const items = entry.notes.map((sighting) =>
    h("li", {}, NoteLink(sighting), Lines(sighting), h("span", { class: "muted" }, sighting.resent ? "again" : "first")),
  );
  if (!items.length) return h("span", { class: "muted" }, entry.scan.state === "unscanned" ? "not looked at" : "none");
  const list = h("ul", { class: "sightings" }, ...items.slice(0, NOTES_SHOWN));
  const rest = items.slice(NOTES_SHOWN);
  if (!rest.length) return list;
  return h("div", {}, list, h("details", {}, h("summary", {}, counted(rest.length, "more note")), h("ul", { class: "sightings" }, ...rest)));
}

/** How it ended, and what the model recalled for its answer. @param {ActivityEntry} entry */
export function outcome({ outcome: end, status, decision, recalls }) {
  const word = end ? OUTCOMES[end] : decision.action === "hold" ? "Waiting" : "Under way";
  return h(
    "span",
    { class: `stack outcome ${end ?? "running"}` },
    word,
    end && status !== null && h("small", {}, `status ${status}`),
    recalls && recalls.searches > 0 && h("small", { class: "recalled" }, recalled(recalls)),
  );
}

/** @param {{memories: number}} recalls */
export function recalled({ memories }) {
  return `${memories ? counted(memories, "memory", "memories") : "no memory"} recalled`;
}

/** @param {ActivityEntry} entry */
export function bytes(entry) {
  const back = entry.finishedAt !== null && h("small", {}, `${size(entry.bytes.response)} back`);
  return h("span", { class: "stack" }, size(entry.bytes.request), back);
}
