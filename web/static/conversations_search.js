// @ts-check
// Searching a client's memory, as the client itself can.
import { post } from "./api.js";
import { addressOf } from "./conversations_place.js";
import { Moment } from "./conversations_sessions.js";
import { words } from "./conversations_transcript.js";
import { h, icon } from "./dom.js";
import { counted } from "./words.js";

/** @typedef {import("./conversations_place.js").Asked} Asked */

export class Search {
  /** @param {(asked: Asked | null) => void} onAsk null: the field was emptied */
  constructor(onAsk) {
    this.query = h("input", { type: "search", name: "query", placeholder: "Search by meaning or by word", "aria-label": "Search these conversations", autocomplete: "off", spellcheck: "false" });
    this.after = h("input", { type: "date", name: "after" });
    this.before = h("input", { type: "date", name: "before" });
    this.element = h(
      "form",
      {
        class: "recall",
        role: "search",
        onsubmit: (/** @type {Event} */ event) => {
          event.preventDefault();
          onAsk(this.asked());
        },
      },
      this.query,
      h("label", {}, h("span", {}, "From"), this.after),
      h("label", {}, h("span", {}, "before"), this.before),
      h("button", { type: "submit" }, icon("search"), "Search"),
    );
  }

  /** @returns {Asked | null} */
  asked() {
    const query = this.query.value.trim();
    return query ? { query, after: this.after.value, before: this.before.value } : null;
  }

  /** @param {Asked | null} asked */
  show(asked) {
    this.query.value = asked?.query ?? "";
    this.after.value = asked?.after ?? "";
    this.before.value = asked?.before ?? "";
  }
}

/**
 * @param {string} client
 * @param {Asked} asked
 * @returns {Promise<Node[]>}
 */
export async function found(client, { query, after, before }) {
  /** @type {RecallResult} */
  const { results, holdings } = await post(`clients/${encodeURIComponent(client)}/recall`, { query, ...(after && { after }), ...(before && { before }) });
  const title = h("h2", {}, results.length ? counted(results.length, "memory", "memories") : "No relevant memories found");
  if (!results.length) return [title, h("p", { class: "muted" }, ...held(holdings)), back(client)];
  return [
    h("header", { class: "found-head" }, title, back(client)),
    h(
      "ol",
      { class: "memories" },
      ...results.map((one) =>
        h(
          "li",
          {},
          h(
            "p",
            { class: "memory-head" },
            h("a", { href: addressOf(client, one) }, one.heading || one.source),
            h("small", {}, one.startedAt && Moment(one.startedAt), one.conversation === null && " from a summary"),
            h("small", { class: "score" }, h("meter", { value: one.score, max: 1, "aria-label": "Relevance" }), ` relevance ${one.score.toFixed(2)}`),
          ),
          h("small", {}, one.source),
          words(one.text),
        ),
      ),
    ),
  ];
}

/** @param {string} client */
function back(client) {
  return h("a", { href: addressOf(client) }, "Back to the sessions");
}

/**
 * What there is to search.
 *
 * @param {RecallResult["holdings"]} holdings
 */
function held({ sessions, first, last }) {
  if (!sessions || !first || !last) return ["Nothing is indexed yet."];
  const begun = sessions === 1 ? [" is searched, begun ", Moment(first)] : [" are searched, begun between ", Moment(first), " and ", Moment(last)];
  return [counted(sessions, "session"), ...begun, ". Other words may find more."];
}
