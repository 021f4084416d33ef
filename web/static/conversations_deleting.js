// @ts-check
// Deleting a turn, a conversation or a session: the dialog says what goes.
import { ApiError, remove } from "./api.js";
import { Confirm } from "./components/Confirm.js";
import { Toast } from "./components/Toast.js";
import { memoryOf } from "./conversations_place.js";
import { counted } from "./words.js";

/** @typedef {{title: string, text: string, action: string, path: string, done: string}} Deletion */

const FOR_GOOD = "Nothing of it can be brought back.";

/**
 * @param {SessionTranscript} from
 * @returns {Deletion}
 */
export function ofSession(from) {
  return {
    title: "Delete this session?",
    text: `${counted(from.conversations.length, "conversation")}: the transcript, its summaries, and what the index has of them. Summaries of sessions that go on from this one go too, and can be made again. ${FOR_GOOD}`,
    action: "Delete session",
    path: pathOf(from),
    done: "The session is deleted.",
  };
}

/**
 * @param {SessionTranscript} from
 * @param {TranscriptConversation} one
 * @returns {Deletion}
 */
export function ofConversation(from, { conversation, turns }) {
  return {
    title: `Delete conversation ${conversation}?`,
    text: `${counted(turns.length, "turn")}: what the transcript and the index have of this conversation, and summaries that may tell of it. ${FOR_GOOD}`,
    action: "Delete conversation",
    path: `${pathOf(from)}/conversations/${conversation}`,
    done: `Conversation ${conversation} is deleted.`,
  };
}

/**
 * @param {SessionTranscript} from
 * @param {number} conversation
 * @param {number} turn
 * @returns {Deletion}
 */
export function ofTurn(from, conversation, turn) {
  return {
    title: `Delete turn ${turn} of conversation ${conversation}?`,
    text: `The user's message and all that was answered to it leave the transcript and the index, and so do summaries that may tell of them. ${FOR_GOOD}`,
    action: "Delete turn",
    path: `${pathOf(from)}/conversations/${conversation}/turns/${turn}`,
    done: `Turn ${turn} of conversation ${conversation} is deleted.`,
  };
}

/**
 * Ask, and do it.
 *
 * @param {Deletion} deletion
 * @returns {Promise<boolean>} whether it is gone, if only since somebody else deleted it
 */
export async function deleted({ title, text, action, path, done }) {
  if (!(await Confirm({ title, text, action }))) return false;
  try {
    await remove(path);
    Toast(done);
    return true;
  } catch (error) {
    Toast(error instanceof Error ? error.message : String(error), { failed: true });
    return error instanceof ApiError && error.status === 404;
  }
}

/** @param {SessionTranscript} from */
function pathOf({ client, session }) {
  return `${memoryOf(client)}/sessions/${encodeURIComponent(session)}`;
}
