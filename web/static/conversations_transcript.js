// @ts-check
// A session as it was said: its conversations, their turns, and the buttons that delete or summarise it.
// What stands in a transcript was written by others: it becomes text nodes, never markup.
import { addressOf } from "./conversations_place.js";
import { Moment, told } from "./conversations_sessions.js";
import { h } from "./dom.js";
import { counted, number, size } from "./words.js";

const LONG = 20_000; // characters of a text that are shown at once
const BEGINNING = 4000;

/**
 * @typedef {object} TranscriptDoes
 * @property {import("./once.js").Once} once
 * @property {() => Promise<void>} deleteSession
 * @property {(conversation: TranscriptConversation) => Promise<void>} deleteConversation
 * @property {(conversation: number, turn: number) => Promise<void>} deleteTurn
 * @property {() => Promise<void>} compact
 */

/** @typedef {Map<string, {json: string, node: Element}>} Kept turns that were made before: one that is the same stays as a person has opened it */

/**
 * @param {SessionTranscript} session
 * @param {SessionEntry | null} entry what the list says of it
 * @param {{compaction: CompactionState | null, compacting: boolean}} summarising `compacting`: this session, now
 * @param {TranscriptDoes} does
 * @param {Kept} kept of this session
 * @returns {Node[]}
 */
export function transcript(session, entry, { compaction, compacting }, does, kept) {
  const several = session.conversations.length > 1;
  const head = h(
    "header",
    { class: "session-head" },
    h("h2", { id: "session-title", tabindex: "-1", "data-key": "session" }, "Session of ", Moment(session.startedAt)),
    h("span", { class: "buttons" }, ...buttons(session, compaction, compacting, does)),
    h(
      "p",
      { class: "muted" },
      `${told({ state: session.state, summarised: session.summary !== null })}, ${counted(session.conversations.length, "conversation")}`,
      entry && `, ${size(entry.bytes)}`,
    ),
    !compaction?.provider && session.state !== "current" && h("p", { class: "muted" }, "Summaries need a model: see conversations.compaction in mitm.yaml."),
    several &&
      h(
        "ul",
        { class: "jumps", "aria-label": "Conversations of this session" },
        ...session.conversations.map(({ conversation, turns }) =>
          h("li", {}, h("a", { href: addressOf(session.client, { session: session.session, conversation }) }, `Conversation ${conversation}`), ` ${counted(turns.length, "turn")}`),
        ),
      ),
  );
  const summary =
    session.summary !== null &&
    h("details", { class: "summary" }, h("summary", {}, "Summary: this is what is searched"), words(session.summary));
  return [head, summary, ...session.conversations.map((one) => conversationOf(session, one, does, kept))].filter((part) => part instanceof Node);
}

/**
 * @param {SessionTranscript} session
 * @param {CompactionState | null} compaction
 * @param {boolean} compacting
 * @param {TranscriptDoes} does
 */
function buttons(session, compaction, compacting, does) {
  const word = session.summary === null ? "Compact" : "Compact again";
  const compact = does.once.button(`compact ${session.client} ${session.session}`, does.compact, compacting);
  return [
    compaction?.provider &&
      session.state !== "current" &&
      h("button", { "data-key": "compact", ...compact }, compacting ? "Compacting…" : word),
    h("button", { class: "danger", "data-key": "delete session", ...deleting(session, "session", does, does.deleteSession) }, "Delete session"),
  ];
}

/**
 * @param {SessionTranscript} session
 * @param {string} part of it
 * @param {TranscriptDoes} does
 * @param {() => Promise<void>} action
 */
function deleting({ client, session }, part, { once }, action) {
  return once.button(`delete ${client} ${session} ${part}`, action);
}

/**
 * @param {SessionTranscript} session
 * @param {TranscriptConversation} one
 * @param {TranscriptDoes} does
 * @param {Kept} kept
 */
function conversationOf(session, one, does, kept) {
  const id = `conversation-${one.conversation}`;
  const from = one.goesOnFrom;
  return h(
    "section",
    { class: "conversation", id, "aria-labelledby": `${id}-title` },
    h(
      "header",
      {},
      h("h3", { id: `${id}-title`, tabindex: "-1", "data-key": id }, `Conversation ${one.conversation}, `, Moment(one.startedAt)),
      h("button", { class: "quiet", "data-key": `delete ${id}`, "aria-label": `Delete conversation ${one.conversation}`, ...deleting(session, id, does, () => does.deleteConversation(one)) }, "Delete conversation"),
    ),
    from &&
      h("p", { class: "muted" }, "Goes on from ", h("a", { href: addressOf(session.client, from) }, `conversation ${from.conversation} of ${from.session}`)),
    h("ol", { class: "turns" }, ...one.turns.map((turn) => turnOf(session, one.conversation, turn, does, kept))),
  );
}

/**
 * @param {SessionTranscript} session
 * @param {number} conversation
 * @param {TranscriptTurn} turn
 * @param {TranscriptDoes} does
 * @param {Kept} kept
 */
function turnOf(session, conversation, turn, does, kept) {
  const name = `turn ${turn.turn} of conversation ${conversation}`;
  const json = JSON.stringify(turn);
  const before = kept.get(name);
  if (before?.json === json) return before.node;
  const node = h(
    "li",
    { class: "turn", id: `turn-${conversation}-${turn.turn}` },
    ...turn.parts.map((part) => partOf(part, turn)),
    h("button", { class: "quiet", "data-key": `delete ${name}`, "aria-label": `Delete ${name}`, ...deleting(session, name, does, () => does.deleteTurn(conversation, turn.turn)) }, "Delete turn"),
  );
  kept.set(name, { json, node });
  return node;
}

/**
 * @param {TranscriptPart} part
 * @param {TranscriptTurn} turn
 */
function partOf(part, turn) {
  const marks = [
    part.role === "user" && turn.insteadOf !== null && `instead of turn ${turn.insteadOf}`,
    part.continued && "continued",
    part.again && "again",
    part.cutOff && "cut off",
  ].filter(Boolean);
  return h(
    "div",
    { class: `said ${part.role}` },
    h(
      "p",
      { class: "said-head" },
      h("b", {}, part.role === "user" ? "User" : "Assistant"),
      h("span", { class: "muted" }, Moment(part.at, "time"), ...[part.model, ...marks].filter(Boolean).map((mark) => `, ${mark}`)),
    ),
    ...part.pieces.map(pieceOf),
  );
}

/** @param {TranscriptPiece} piece */
function pieceOf(piece) {
  switch (piece.kind) {
    case "called":
      return tool("Called ", h("b", {}, piece.name), ` ${piece.arguments}`);
    case "returned":
      return tool(`Result of ${counted(piece.characters, "character")}: ${piece.beginning}`);
    default:
      return words(piece.text);
  }
}

/** One line, in full once it is opened. @param {...(Node | string)} parts */
function tool(...parts) {
  return h("details", { class: "tool" }, h("summary", {}, h("span", {}, ...parts)));
}

/**
 * Text as it is, with its line ends; of a very long one the beginning.
 *
 * @param {string} text
 */
export function words(text) {
  if (text.length <= LONG) return h("p", { class: "words" }, text);
  const element = h("p", { class: "words" }, `${text.slice(0, BEGINNING)}…`);
  const all = h("button", { type: "button", onclick: () => (all.remove(), element.replaceChildren(text)) }, `Show all ${number(text.length)} characters`);
  return h("div", { class: "long" }, element, all);
}
