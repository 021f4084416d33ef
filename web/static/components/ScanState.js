// @ts-check
import { h, icon } from "../dom.js";

const WORDS = { complete: "Scanned", partial: "Partly scanned", unscanned: "Not scanned" };

/**
 * Whether a request was looked at for notes; if not wholly, why.
 *
 * @param {ActivityEntry["scan"]} scan
 */
export function ScanState({ state, reasons }) {
  const said = h("span", { class: "stack" }, WORDS[state], reasons.length > 0 && h("small", {}, reasons.join("; ")));
  return h("span", { class: `scan-state ${state}` }, icon(`scan-${state}`), said);
}
