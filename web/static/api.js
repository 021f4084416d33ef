// @ts-check
// Calls to the API. Every failure becomes an ApiError whose message can be shown as it is.
import { root } from "./dom.js";

const STRANGER = "This browser is not let in any more, as after a restart of mitmemory: open the link that it printed.";

export class ApiError extends Error {
  /**
   * @param {string} message
   * @param {number} status HTTP status; 0: the suite did not answer
   */
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** @param {string} path below `api/` */
export function get(path) {
  return call(path, { headers: { Accept: "application/json" } });
}

/**
 * @param {string} path below `api/`
 * @param {unknown} [value] sent as JSON
 */
export function post(path, value = {}) {
  return call(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(value) });
}

/**
 * @param {string} path below `api/`
 * @param {unknown} value sent as JSON
 */
export function put(path, value) {
  return call(path, { method: "PUT", headers: { "Content-Type": "application/json" }, body: JSON.stringify(value) });
}

/**
 * @param {string} path below `api/`
 * @param {unknown} value sent as JSON
 */
export function patch(path, value) {
  return call(path, { method: "PATCH", headers: { "Content-Type": "application/json" }, body: JSON.stringify(value) });
}

/**
 * Delete what is there.
 *
 * @param {string} path below `api/`
 */
export function remove(path) {
  return call(path, { method: "DELETE", headers: { "Content-Type": "application/json" }, body: "{}" });
}

/**
 * @param {string} path
 * @param {RequestInit} options
 * @returns {Promise<any>}
 */
async function call(path, options) {
  let response;
  try {
    response = await fetch(new URL(`api/${path}`, root), { ...options, credentials: "same-origin" });
  } catch {
    throw new ApiError("mitmemory does not answer. Is it still running?", 0);
  }
  const body = await response.json().catch(() => null);
  if (response.ok) return body;
  if (response.status === 401) throw new ApiError(STRANGER, 401); // what the answer says is for programs
  throw new ApiError(body?.error?.message ?? `mitmemory answered ${response.status}`, response.status);
}
