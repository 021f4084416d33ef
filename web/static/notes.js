// @ts-check
// The notes of the page and how they link, for whatever asks about one of them.

export class Notes {
  constructor() {
    /** @type {Map<string, MapNode>} */
    this.byId = new Map();
    /** @type {[string, string][]} each from and to a note that is there */
    this.links = [];
    /** @type {Map<string, Set<string>>} */
    this.outgoing = new Map();
    /** @type {Map<string, Set<string>>} */
    this.incoming = new Map();
  }

  /** @param {MemoryMap} map */
  read(map) {
    this.byId = new Map(map.nodes.map((node) => [node.id, node]));
    this.links = map.links.filter(([from, to]) => this.byId.has(from) && this.byId.has(to));
    this.outgoing.clear();
    this.incoming.clear();
    for (const [from, to] of this.links) {
      add(this.outgoing, from, to);
      add(this.incoming, to, from);
    }
  }

  /** Those that a note links to. @param {string} id */
  from(id) {
    return this.#named(this.outgoing.get(id));
  }

  /** Those that link to a note. @param {string} id */
  to(id) {
    return this.#named(this.incoming.get(id));
  }

  /**
   * The note and those within so many links of it, whichever way the links lead.
   *
   * @param {string} id
   * @param {number} depth
   */
  within(id, depth) {
    const found = new Set([id]);
    let edge = [id];
    for (let step = 0; step < depth; step++) {
      edge = edge
        .flatMap((one) => [...(this.outgoing.get(one) ?? []), ...(this.incoming.get(one) ?? [])])
        .filter((one) => !found.has(one) && found.add(one));
    }
    return found;
  }

  /** @param {Set<string> | undefined} ids */
  #named(ids) {
    return [...(ids ?? [])].flatMap((id) => this.byId.get(id) ?? []);
  }
}

/**
 * @param {Map<string, Set<string>>} index
 * @param {string} id
 * @param {string} other
 */
function add(index, id, other) {
  const known = index.get(id);
  if (known) known.add(other);
  else index.set(id, new Set([other]));
}
