// @ts-check
// The notes as a graph that sigma draws: how large each dot is, what it is called, where it lies.
import { Graph } from "./vendor/graph.js";

/** @typedef {import("./layout.js").Point} Point */

const ROOMY = 300; // notes up to which the dots have their full size
const LONGEST = 40; // characters of a title on the map; the panel has all of it

/**
 * Made before sigma has it: each note and link added to one that is drawn would be an event of its own.
 *
 * @param {MapNode[]} nodes
 * @param {[string, string][]} links
 * @param {ReadonlyMap<string, string>} hues note -> token
 * @param {ReadonlyMap<string, Point>} start
 */
export function graphOf(nodes, links, hues, start) {
  const graph = new Graph({ type: "directed" });
  const scale = Math.max(0.45, Math.min(1, (ROOMY / nodes.length) ** 0.3)); // many notes are small ones
  for (const node of nodes) {
    const [x, y] = start.get(node.id) ?? [0, 0];
    // A hub grows with the logarithm of its links, so that index notes do not swamp the map.
    const size = scale * Math.min(3 + 2.6 * Math.log2(1 + node.degree / 2), 15);
    graph.addNode(node.id, { label: short(node.title), hue: hues.get(node.id), x, y, size });
  }
  for (const [from, to] of links) graph.mergeEdge(from, to, { size: 1 });
  return graph;
}

/**
 * Straight into the attributes: sigma would go through all of them again for its event.
 *
 * @param {Graph} graph
 * @param {Float32Array} xy x and y of each note in its order
 */
export function moveTo(graph, xy) {
  let at = 0;
  graph.forEachNode((_, attributes) => {
    attributes.x = xy[at++];
    attributes.y = xy[at++];
  });
}

/** Where every note lies, in the map's own units. @param {Graph} graph */
export function positionsOf(graph) {
  /** @type {Map<string, Point>} */
  const points = new Map();
  graph.forEachNode((id, { x, y }) => points.set(id, [x, y]));
  return points;
}

/** @param {string} title */
function short(title) {
  const characters = [...title];
  return characters.length > LONGEST ? `${characters.slice(0, LONGEST - 1).join("")}…` : title;
}
