// @ts-check
// The map: the only module that knows sigma. It throws where the browser has no WebGL; the page then shows its table.
import { calm } from "./dom.js";
import { Glow } from "./glow.js";
import { arrange, seeds } from "./layout.js";
import { graphOf, moveTo, positionsOf } from "./map_graph.js";
import { FONT, Look } from "./map_look.js";
import { groups } from "./palette.js";
import { Graph, Sigma } from "./vendor/graph.js";

const FADE = 180; // ms, as --motion
const SMOOTH = 3000; // notes up to which dimming is animated
const FEW = 25; // notes up to which each is brought up to date by itself
const PADDING = 72; // pixels that stay free around the whole map
const CLOSEST = 0.15; // the camera's ratio when one note alone is framed
const PER_NOTE = 0.3; // ms per note between two pictures of a layout that runs: the page has to answer meanwhile
const IN_FLIGHT = 4; // frames after which the first of them has left the graphics card, however slow that is
const FINGER = 12; // pixels from the middle of a dot within which a finger hits it (WCAG 2.5.8: a target of 24)
const MANY_LINKS = 20_000; // links are hidden while the map moves from here on

/**
 * Notes as dots, links as lines, the neighbours lit on hover. To draw all of it is what costs most, so whatever changes in
 * one go is drawn once, in the next frame.
 */
export class NoteGraph {
  /**
   * @param {HTMLElement} container with a size of its own
   * @param {object} hear
   * @param {(id: string) => void} hear.onOpen a note was clicked
   * @param {() => void} hear.onLeave the empty map was clicked
   * @param {(share: number, arranged: boolean) => void} hear.onLayout how much of the layout is done, 0 to 1; and
   *     whether notes came to lie in new places
   */
  constructor(container, { onOpen, onLeave, onLayout }) {
    this.onLayout = onLayout;
    this.graph = new Graph({ type: "directed" });
    this.hovered = "";
    /** @type {Set<string> | null} */
    this.found = null;
    this.covered = 0; // pixels at the right that a panel lies over
    this.fading = 0;
    this.refreshing = 0;
    this.stopLayout = () => {};
    /** @type {Look} */
    this.look = new Look({ ends: (link) => this.graph.extremities(link), isLit: (id) => this.glow.lights.has(id) });
    this.sigma = new Sigma(this.graph, container, {
      zIndex: true,
      stagePadding: PADDING,
      minCameraRatio: 0.02,
      maxCameraRatio: 3,
      labelFont: FONT,
      labelSize: 12,
      labelDensity: 1.5,
      labelGridCellSize: 90,
      labelRenderedSizeThreshold: 4.5,
      doubleClickZoomingRatio: 1.8,
      nodeReducer: (id, data) => this.look.node(id, data),
      edgeReducer: (id, data) => this.look.edge(id, data),
      defaultDrawNodeLabel: (context, data) => this.look.want(context, data),
      defaultDrawNodeHover: (context, data) => this.look.label(context, { ...data, forceLabel: true }),
    });
    /** @type {Glow} */
    this.glow = new Glow(container, {
      spot: (id) => (this.look.isShown(id) ? this.spot(id) : null),
      title: (id) => this.graph.getNodeAttribute(id, "label"),
      palette: () => this.look.palette,
      linked: (id, other) => this.graph.areNeighbors(id, other),
      strength: (id) => this.look.strength(id),
      onChange: () => this.sigma.scheduleRender(),
    });
    this.sigma.on("beforeRender", () => this.look.begin());
    this.sigma.on("afterRender", () => {
      this.look.finish();
      this.glow.draw();
    });
    this.sigma.on("enterNode", ({ node }) => this.#hover(node));
    this.sigma.on("leaveNode", () => this.#hover(""));
    this.sigma.on("clickNode", ({ node }) => onOpen(node));
    this.sigma.on("clickStage", ({ event }) => {
      const near = event.original instanceof MouseEvent ? null : this.#near(event);
      if (near) onOpen(near);
      else onLeave();
    });
    new ResizeObserver(() => {
      const { width, height } = this.sigma.getDimensions();
      if (width !== container.offsetWidth || height !== container.offsetHeight) this.sigma.scheduleRender();
    }).observe(container);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.look.readColours();
      this.#refresh();
    });
  }

  /**
   * Show these notes and links. Those that were there keep their places, and others have the one that was saved. Where
   * the rest is still to be found, the map is drawn as it begins, and can be used while the layout runs.
   *
   * @param {MapNode[]} nodes
   * @param {[string, string][]} links
   * @param {ReadonlyMap<string, string>} hues note -> token
   * @param {ReadonlyMap<string, import("./layout.js").Point>} saved
   */
  setData(nodes, links, hues, saved) {
    this.stopLayout();
    const placed = new Map([...saved, ...this.positions()]);
    const grouped = groups(nodes);
    const start = seeds(nodes.map(({ id }) => ({ id, group: grouped.get(id) ?? "" })), links, placed);
    this.graph = graphOf(nodes, links, hues, start);
    const hides = links.length > MANY_LINKS;
    if (this.sigma.getSetting("hideEdgesOnMove") !== hides) this.sigma.setSetting("hideEdgesOnMove", hides);
    const old = nodes.filter((node) => placed.has(node.id)).length;
    if (old === nodes.length) this.sigma.once("afterRender", () => this.onLayout(1, false));
    this.#mean();
    this.#drop();
    this.sigma.setGraph(this.graph);
    if (old === nodes.length) return;
    const fixed = new Set(old >= nodes.length / 2 ? placed.keys() : []); // a few old places are no map to keep
    this.onLayout(0, true);
    this.stopLayout = onceDrawn(() => this.#arrange(start, links, fixed));
  }

  /**
   * @param {ReadonlyMap<string, import("./layout.js").Point>} start of every note, in the order of the graph
   * @param {[string, string][]} links
   * @param {ReadonlySet<string>} fixed
   */
  #arrange(start, links, fixed) {
    const { graph } = this;
    const radius = (/** @type {string} */ id) => /** @type {number} */ (graph.getNodeAttribute(id, "size"));
    const ids = graph.nodes();
    let drawn = performance.now();
    return arrange(start, links, fixed, radius, (xy, share) => {
      const now = performance.now();
      if (share < 1 && (calm() || now - drawn < PER_NOTE * ids.length)) return this.onLayout(share, true);
      drawn = now;
      moveTo(graph, xy);
      if (share === 1) this.sigma.once("afterRender", () => this.onLayout(1, true)); // done is what has been drawn
      else this.onLayout(share, true);
      return this.sigma.refresh({ partialGraph: { nodes: ids }, schedule: true });
    });
  }

  /** Colour the dots anew. @param {ReadonlyMap<string, string>} hues note -> token */
  setHues(hues) {
    const changed = this.graph.filterNodes((id, { hue }) => hue !== hues.get(id));
    if (changed.length <= FEW) {
      for (const id of changed) this.graph.setNodeAttribute(id, "hue", hues.get(id));
      return;
    }
    this.graph.forEachNode((id, attributes) => {
      attributes.hue = hues.get(id);
    });
    this.#refresh();
  }

  /** Draw only these notes; null: all. @param {ReadonlySet<string> | null} shown */
  setShown(shown) {
    if (!shown && !this.look.shown) return;
    this.look.shown = shown;
    this.#refresh();
  }

  /** Bring these notes into sight, as large as there is room. @param {Iterable<string>} ids */
  frame(ids) {
    const points = [...ids].flatMap((id) => this.sigma.getNodeDisplayData(id) ?? []);
    if (!points.length) return;
    const [xs, ys] = [points.map(({ x }) => x), points.map(({ y }) => y)];
    const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const ratio = Math.min(1, Math.max(CLOSEST, 1.2 * Math.max(right - left, high - low)));
    this.#centre({ x: (left + right) / 2, y: (low + high) / 2 }, ratio);
  }

  /** Light only these notes; null: all. @param {Set<string> | null} found */
  setFound(found) {
    this.found = found;
    this.#mean();
  }

  /** Keep this note and its neighbours lit; "": none. @param {string} id */
  select(id) {
    const before = this.look.selected;
    this.look.selected = this.graph.hasNode(id) ? id : "";
    if (this.look.shown && before !== this.look.selected) this.#refresh(); // it is drawn whatever the filters say
    this.#mean();
  }

  /** Bring a note into the middle. @param {string} id */
  focus(id) {
    const data = this.sigma.getNodeDisplayData(id);
    if (data) this.#centre(data, Math.min(this.sigma.getCamera().ratio, 0.5));
  }

  /** Show the whole map. */
  fit() {
    this.#move({ x: 0.5, y: 0.5, ratio: 1, angle: 0 });
  }

  /**
   * @param {string[]} ids
   * @param {Place[]} places
   */
  light(ids, places) {
    this.glow.light(ids.filter((id) => this.graph.hasNode(id)), places);
  }

  /**
   * Where a note is drawn, in CSS pixels of the container.
   *
   * @param {string} id
   * @returns {import("./glow.js").Spot | null}
   */
  spot(id) {
    if (!this.graph.hasNode(id)) return null;
    const { x, y, size } = /** @type {{x: number, y: number, size: number}} */ (this.graph.getNodeAttributes(id));
    return { ...this.sigma.graphToViewport({ x, y }), radius: this.sigma.scaleSize(size) };
  }

  /** The note that a finger means; null: none is so near. @param {{x: number, y: number}} point */
  #near({ x, y }) {
    let [nearest, least] = [/** @type {string | null} */ (null), FINGER];
    for (const id of this.drawn()) {
      const spot = /** @type {import("./glow.js").Spot} */ (this.spot(id));
      const distance = Math.hypot(spot.x - x, spot.y - y);
      if (distance < least) [nearest, least] = [id, distance];
    }
    return nearest;
  }

  /** Where every note lies, in the map's own units. */
  positions() {
    return positionsOf(this.graph);
  }

  /** The notes that are drawn, in order of their ids. */
  drawn() {
    return this.graph.filterNodes((id) => this.sigma.getNodeDisplayData(id)?.hidden === false).sort();
  }

  /**
   * Bring a point into the middle of what no panel covers.
   *
   * @param {{x: number, y: number}} point as sigma's camera counts
   * @param {number} ratio
   */
  #centre({ x, y }, ratio) {
    const { width, height } = this.sigma.getDimensions();
    const pixels = Math.min(width, height) - 2 * PADDING; // of one unit, at ratio 1
    this.#move({ x: x + (ratio * this.covered) / 2 / pixels, y, ratio });
  }

  /** @param {Partial<{x: number, y: number, ratio: number, angle: number}>} state */
  #move(state) {
    if (calm()) this.sigma.getCamera().setState(state);
    else void this.sigma.getCamera().animate(state, { duration: 2 * FADE });
  }

  /** @param {string} id */
  #hover(id) {
    this.hovered = id;
    this.sigma.getContainer().classList.toggle("over-note", id !== "");
    this.#mean();
  }

  /** Work out which notes are meant, and fade to it. */
  #mean() {
    const { look } = this;
    const centre = this.hovered || (this.found ? "" : look.selected);
    const meant = centre && this.graph.hasNode(centre) ? new Set([centre, ...this.graph.neighbors(centre)]) : this.found;
    if (!meant && !look.meant) return;
    if (meant) {
      look.centre = centre;
      look.meant = meant;
    }
    const goal = meant ? 1 : 0;
    cancelAnimationFrame(this.fading);
    const [start, from] = [performance.now(), look.dim];
    const still = calm() || this.graph.order > SMOOTH;
    const step = () => {
      const share = still ? 1 : Math.min(1, (performance.now() - start) / FADE);
      if (share === 1 && !goal) [look.meant, look.centre] = [null, ""];
      look.dim = from + (goal - from) * share;
      if (share < 1) this.fading = requestAnimationFrame(step);
      this.#refresh();
    };
    step();
  }

  /** Draw all of it in the next frame, however often that is asked for until then. */
  #refresh() {
    this.refreshing ||= requestAnimationFrame(() => {
      this.refreshing = 0;
      this.sigma.refresh();
    });
  }

  /** All of it is drawn now anyhow. */
  #drop() {
    cancelAnimationFrame(this.refreshing);
    this.refreshing = 0;
  }
}

/**
 * Do something once what was just drawn can be seen.
 *
 * @param {() => () => void} begin gives what stops it
 * @returns {() => void} stops it, also before it began
 */
function onceDrawn(begin) {
  let frames = IN_FLIGHT;
  let stop = () => cancelAnimationFrame(asked);
  const wait = () => {
    if (frames--) asked = requestAnimationFrame(wait);
    else stop = begin();
  };
  let asked = requestAnimationFrame(wait);
  return () => stop();
}
