// @ts-check
// Where notes lie on the map. Deterministic: the same notes and links always come to the same places.
import { root } from "./dom.js";

/** @typedef {[x: number, y: number]} Point */

const FIRST_ITERATIONS = 300;
const LARGE = 10_000; // notes from which 300 iterations would take over a minute
const LARGE_ITERATIONS = 100;
const WARM_ITERATIONS = 60;
const SPREAD = 10; // the ring of folders has room for this distance between notes

/**
 * A number in [0, 1) that depends on the text alone (FNV-1a, mixed once more so that near texts lie far apart).
 *
 * @param {string} text
 */
function hash(text) {
  let value = 2166136261;
  for (let index = 0; index < text.length; index++) value = Math.imul(value ^ text.charCodeAt(index), 16777619);
  value = Math.imul(value ^ (value >>> 16), 2246822507);
  value = Math.imul(value ^ (value >>> 13), 3266489909);
  return ((value ^ (value >>> 16)) >>> 0) / 2 ** 32;
}

/**
 * Where each note starts: where it is now, else near the notes it links to, else in its folder's place on a ring.
 *
 * @param {{id: string, group: string}[]} notes
 * @param {[string, string][]} links
 * @param {ReadonlyMap<string, Point>} placed
 * @returns {Map<string, Point>}
 */
export function seeds(notes, links, placed) {
  const groups = [...new Set(notes.map((note) => note.group))].sort();
  const ring = groups.length > 1 ? SPREAD * Math.sqrt(notes.length) : 0;
  /** @type {Map<string, Point[]>} */
  const near = new Map();
  for (const [from, to] of links) {
    const [a, b] = [placed.get(from), placed.get(to)];
    if (a && !b) near.set(to, [...(near.get(to) ?? []), a]);
    if (b && !a) near.set(from, [...(near.get(from) ?? []), b]);
  }
  return new Map(
    notes.map(({ id, group }) => {
      const now = placed.get(id);
      if (now) return [id, now];
      const around = near.get(id);
      const angle = (2 * Math.PI * groups.indexOf(group)) / groups.length;
      const centre = around ? mean(around) : /** @type {Point} */ ([ring * Math.cos(angle), ring * Math.sin(angle)]);
      const radius = (around ? SPREAD : SPREAD * Math.sqrt(notes.length / groups.length)) * Math.sqrt(hash(id));
      const turn = 2 * Math.PI * hash(`${id} `);
      return [id, [centre[0] + radius * Math.cos(turn), centre[1] + radius * Math.sin(turn)]];
    }),
  );
}

/**
 * @param {Point[]} points
 * @returns {Point}
 */
function mean(points) {
  const sum = points.reduce(([x, y], [px, py]) => [x + px, y + py], [0, 0]);
  return [sum[0] / points.length, sum[1] / points.length];
}

/**
 * Run the layout in a worker. Notes that were placed before stay where they are.
 *
 * @param {ReadonlyMap<string, Point>} start every note
 * @param {[string, string][]} links
 * @param {ReadonlySet<string>} fixed
 * @param {(id: string) => number} radius in pixels, when the whole map is in sight
 * @param {(xy: Float32Array, share: number) => void} step x and y of each note in the order of `start`; `share` of the
 *     work is done, 0 to 1
 * @returns {() => void} stops it
 */
export function arrange(start, links, fixed, radius, step) {
  const ids = [...start.keys()];
  const index = new Map(ids.map((id, at) => [id, at]));
  const xy = Float32Array.from([...start.values()].flat());
  const edges = Uint32Array.from(links.flatMap(([from, to]) => [index.get(from) ?? 0, index.get(to) ?? 0]));
  const first = ids.length > LARGE ? LARGE_ITERATIONS : FIRST_ITERATIONS;
  const worker = new Worker(workerAddress(), { type: "module" });
  worker.onmessage = ({ data }) => {
    if (data.done === data.of) worker.terminate();
    step(data.xy, data.done / data.of);
  };
  worker.postMessage({
    xy,
    edges,
    radii: Float32Array.from(ids, radius),
    fixed: Uint8Array.from(ids, (id) => Number(fixed.has(id))),
    iterations: fixed.size ? WARM_ITERATIONS : first,
  });
  return () => worker.terminate();
}

/** The worker's address, which Trusted Types wants to come from the policy that the page's CSP names. */
function workerAddress() {
  const address = new URL("static/vendor/layout-worker.js", root).href;
  const types = /** @type {any} */ (globalThis).trustedTypes;
  if (!types) return address;
  policy ??= types.createPolicy("mitmemory", {
    createScriptURL: (/** @type {string} */ asked) => {
      if (asked !== address) throw new TypeError(`not a script of these pages: ${asked}`);
      return asked;
    },
  });
  return policy.createScriptURL(address);
}

/** @type {any} A policy can be made once per page. */
let policy = null;
