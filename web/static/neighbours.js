// @ts-check

/**
 * The note and those within so many links of it, whichever way the links lead.
 *
 * @param {string} id
 * @param {number} depth
 * @param {...ReadonlyMap<string, ReadonlySet<string>>} ways
 * @returns {Set<string>}
 */
export function within(id, depth, ...ways) {
  const found = new Set([id]);
  let edge = [id];
  for (let step = 0; step < depth; step++) {
    edge = edge.flatMap((one) => ways.flatMap((way) => [...(way.get(one) ?? [])])).filter((one) => !found.has(one) && found.add(one));
  }
  return found;
}
