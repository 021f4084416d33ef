// @ts-check
/// <reference lib="webworker" />
// The layout worker: ForceAtlas2 over plain arrays. Bundled into static/vendor/layout-worker.js by vendor.mjs.
//
// In:  {xy: Float32Array of x, y per note, edges: Uint32Array of note index pairs, fixed: Uint8Array,
//       radii: Float32Array in pixels on a map that fills its page, iterations}
// Out: {xy, done, of}, several times while it runs; the last one has done === of.
//
// The number of iterations is fixed and nothing is random, so the same notes always come to lie in the same places.
import iterate from "graphology-layout-forceatlas2/iterate.js";
import defaults from "graphology-layout-forceatlas2/defaults.js";

const PER_NODE = 10; // x, y, dx, dy, old dx, old dy, mass, convergence, size, fixed
const PER_EDGE = 3; // from, to, weight
const BETWEEN_REPORTS = 60; // ms
const EXACT = 1500; // notes up to which repulsion is computed pair by pair
const APART = 0.8; // from this share of the work on, dots that lie on each other are pushed apart
const MAP_PIXELS = 640; // the height of a map that fills its page, about

onmessage = ({ data: { xy, edges, fixed, radii, iterations } }) => {
  const count = xy.length / 2;
  const nodes = new Float32Array(count * PER_NODE);
  for (let index = 0; index < count; index++) {
    nodes.set([xy[2 * index], xy[2 * index + 1], 0, 0, 0, 0, 1, 1, 1, fixed[index]], index * PER_NODE);
  }
  const links = new Float32Array((edges.length / 2) * PER_EDGE);
  for (let index = 0; index < edges.length / 2; index++) {
    const from = edges[2 * index] * PER_NODE;
    const to = edges[2 * index + 1] * PER_NODE;
    links.set([from, to, 1], index * PER_EDGE);
    nodes[from + 6]++;
    nodes[to + 6]++;
  }
  const settings = {
    ...defaults,
    barnesHutOptimize: count > EXACT,
    barnesHutTheta: 0.8,
    outboundAttractionDistribution: true, // a hub does not pull everything it links to into one clump
    strongGravityMode: true,
    gravity: 0.05,
    scalingRatio: 10,
    slowDown: 1 + Math.log(Math.max(count, 1)),
  };
  let reported = performance.now();
  for (let done = 1; done <= iterations; done++) {
    if (count <= EXACT && done === Math.floor(iterations * APART)) {
      let far = 1;
      for (let index = 0; index < count; index++) {
        far = Math.max(far, Math.abs(nodes[index * PER_NODE]), Math.abs(nodes[index * PER_NODE + 1]));
      }
      for (let index = 0; index < count; index++) {
        nodes[index * PER_NODE + 8] = ((radii[index] + 6) * 2 * far) / MAP_PIXELS;
      }
      settings.adjustSizes = true;
    }
    iterate(settings, nodes, links);
    if (done === iterations || performance.now() - reported > BETWEEN_REPORTS) {
      reported = performance.now();
      const now = new Float32Array(2 * count);
      for (let index = 0; index < count; index++) {
        now[2 * index] = nodes[PER_NODE * index];
        now[2 * index + 1] = nodes[PER_NODE * index + 1];
      }
      postMessage({ xy: now, done, of: iterations }, [now.buffer]);
    }
  }
};
