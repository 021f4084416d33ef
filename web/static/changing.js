// @ts-check
// What an admin changes from the Memory page, and how it says that something failed.
import { ApiError, post } from "./api.js";
import { Confirm } from "./components/Confirm.js";
import { Toast } from "./components/Toast.js";
import { counted } from "./words.js";

/** Read every source again now. @param {() => Promise<void>} load shows the map anew */
export async function rescan(load) {
  try {
    /** @type {MemoryMap} */
    const map = await post("memory/refresh");
    await load();
    Toast(`Rescanned: ${counted(map.nodes.length, "note")} in ${counted(map.sources.length, "source")}.`);
  } catch (error) {
    failed(error);
  }
}

/** Forget the counts and the rings, once somebody is sure. @param {() => Promise<void>} load shows the map anew */
export async function clearSharing(load) {
  const sure = await Confirm({
    title: "Clear sharing?",
    text: "The counts of what was sent where, and the rings on the map, will be forgotten for all notes. The list of requests stays.",
    action: "Clear sharing",
  });
  if (!sure) return;
  try {
    await post("memory/exposure/reset");
    await load();
    Toast("Sharing was cleared.");
  } catch (error) {
    failed(error);
  }
}

/** Say what went wrong. @param {unknown} error */
export function failed(error) {
  const why = error instanceof ApiError && error.status === 403 ? "Not allowed: " : "";
  Toast(why + messageOf(error), { failed: true });
}

/** @param {unknown} error */
export function messageOf(error) {
  return error instanceof Error ? error.message : String(error);
}
