// @ts-check
// Switching the memory of a client on or off, on the pages that show it.
import { patch } from "./api.js";
import { Confirm } from "./components/Confirm.js";
import { Toast } from "./components/Toast.js";

/**
 * Before it is switched on, a dialog says what will be stored.
 *
 * @param {string} client
 * @param {boolean} enabled what it shall be
 * @param {string | null} directory where conversations are stored
 * @returns {Promise<MemorySwitched | null>} what the suite says, with a token that was made for it; null: it was not switched
 */
export async function switchMemory(client, enabled, directory) {
  const text = `Full conversations of ${client} will be stored in ${directory ?? "the state directory"} from now on, until you switch this off. Whoever can read this disk can read them.`;
  if (enabled && !(await Confirm({ title: `Remember the conversations of ${client}?`, text, action: "Switch on" }))) return null;
  /** @type {MemorySwitched} */
  let switched;
  try {
    switched = await patch(`clients/${encodeURIComponent(client)}`, { memoryEnabled: enabled });
  } catch (error) {
    Toast(error instanceof Error ? error.message : String(error), { failed: true });
    return null;
  }
  Toast(enabled ? `Conversations of ${client} are stored from now on.` : `Nothing more of ${client} is stored; what is there stays until you delete it.`);
  return switched;
}
