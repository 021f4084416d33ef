// @ts-check
// The map: the only module that knows sigma. It throws where the browser has no WebGL; the page then shows its table.
import { calm } from "./dom.js";
import { Glow } from "./glow.js";
import { arrange, seeds } from "./layout.js";
import { groups, mix, readPalette } from "./palette.js";
import { Graph, Sigma } from "./vendor/graph.js";

const FADE = 180; // ms, as --motion
const SMOOTH = 3000; // notes up to which dimming is animated
const DIMMED = 0.84; // how far a note that is not meant goes towards the page's colour
const BELOW = 7; // pixels from a dot to its label: the rings of a sent note lie between
const FEW = 25; // so many notes that are meant all show their titles, as far as there is room
const LINE = 15; // pixels from one label to the next
const ROOMY = 300; // notes up to which the dots have their full size
const LONGEST = 40; // characters of a title on the map; the panel has all of it
const FONT = "system-ui, sans-serif";
const PADDING = 72; // pixels that stay free around the whole map
const CLOSEST = 0.15; // the camera's ratio when one note alone is framed
const PER_NOTE = 0.1; // ms per note between two pictures of a layout that runs: the page has to answer meanwhile
const MANY_LINKS = 20_000; // links are hidden while the map moves from here on

/**
 * Notes as dots, links as lines, the neighbours lit on hover.
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
    this.palette = readPalette();
    /** @type {ReadonlySet<string> | null} the notes that are drawn; null: all. The one that is selected always is */
    this.shown = null;
    this.hovered = "";
    this.selected = "";
    /** @type {Set<string> | null} */
    this.found = null;
    /** @type {Set<string> | null} the notes that are meant; null: all */
    this.meant = null;
    this.centre = "";
    this.covered = 0; // pixels at the right that a panel lies over
    this.dim = 0;
    this.fading = 0;
    this.stopLayout = () => {};
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
      nodeReducer: (id, data) => this.#node(id, data),
      edgeReducer: (id, data) => this.#edge(id, data),
      defaultDrawNodeLabel: (context, data) => this.#label(context, data),
      defaultDrawNodeHover: (context, data) => this.#label(context, { ...data, forceLabel: true }),
    });
    this.glow = new Glow(container, {
      spot: (id) => (this.#isShown(id) ? this.spot(id) : null),
      title: (id) => this.graph.getNodeAttribute(id, "label"),
      palette: () => this.palette,
      linked: (id, other) => this.graph.areNeighbors(id, other),
      strength: (id) => (!this.meant || this.meant.has(id) ? 1 : 1 - DIMMED * this.dim),
      onChange: () => this.sigma.scheduleRender(),
    });
    /** @type {{left: number, right: number, top: number}[]} labels drawn in this frame */
    this.labels = [];
    this.sigma.on("beforeRender", () => {
      this.labels = [];
    });
    this.sigma.on("afterRender", () => this.glow.draw());
    this.sigma.on("enterNode", ({ node }) => this.#hover(node));
    this.sigma.on("leaveNode", () => this.#hover(""));
    this.sigma.on("clickNode", ({ node }) => onOpen(node));
    this.sigma.on("clickStage", onLeave);
    new ResizeObserver(() => {
      this.sigma.resize();
      this.sigma.scheduleRender();
    }).observe(container);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.palette = readPalette();
      this.sigma.refresh();
    });
  }

  /**
   * Show these notes and links. Those that were there keep their places, and others have the one that was saved.
   *
   * @param {MapNode[]} nodes
   * @param {[string, string][]} links
   * @param {ReadonlyMap<string, string>} hues note -> token
   * @param {ReadonlyMap<string, import("./layout.js").Point>} saved
   */
  setData(nodes, links, hues, saved) {
    const placed = new Map([...saved, ...this.positions()]);
    const grouped = groups(nodes);
    const start = seeds(nodes.map(({ id }) => ({ id, group: grouped.get(id) ?? "" })), links, placed);
    this.graph.clear();
    const scale = Math.max(0.45, Math.min(1, (ROOMY / nodes.length) ** 0.3)); // many notes are small ones
    for (const node of nodes) {
      const [x, y] = start.get(node.id) ?? [0, 0];
      // A hub grows with the logarithm of its links, so that index notes do not swamp the map.
      const size = scale * Math.min(3 + 2.6 * Math.log2(1 + node.degree / 2), 15);
      this.graph.addNode(node.id, { label: short(node.title), hue: hues.get(node.id), x, y, size });
    }
    for (const [from, to] of links) this.graph.mergeEdge(from, to, { size: 1 });
    this.sigma.setSetting("hideEdgesOnMove", links.length > MANY_LINKS);
    this.stopLayout();
    const old = nodes.filter((node) => placed.has(node.id)).length;
    if (old === nodes.length) {
      this.#mean();
      this.#tell(1, false);
      return;
    }
    const fixed = new Set(old >= nodes.length / 2 ? placed.keys() : []); // a few old places are no map to keep
    const radius = (/** @type {string} */ id) => /** @type {number} */ (this.graph.getNodeAttribute(id, "size"));
    let drawn = performance.now();
    this.stopLayout = arrange(start, links, fixed, radius, (points, share) => {
      const now = performance.now();
      if (share < 1 && (calm() || now - drawn < PER_NOTE * nodes.length)) return this.#tell(share, true);
      drawn = now;
      this.graph.updateEachNodeAttributes(
        (id, attributes) => {
          [attributes.x, attributes.y] = points.get(id) ?? [0, 0];
          return attributes;
        },
        { attributes: ["x", "y"] },
      );
      return this.#tell(share, true);
    });
    this.#mean();
  }

  /** Colour the dots anew. @param {ReadonlyMap<string, string>} hues note -> token */
  setHues(hues) {
    const changed = this.graph.filterNodes((id, { hue }) => hue !== hues.get(id));
    if (changed.length <= FEW) {
      for (const id of changed) this.graph.setNodeAttribute(id, "hue", hues.get(id));
      return;
    }
    this.graph.updateEachNodeAttributes((id, attributes) => ({ ...attributes, hue: hues.get(id) }), { attributes: ["hue"] });
  }

  /** Draw only these notes; null: all. @param {ReadonlySet<string> | null} shown */
  setShown(shown) {
    if (!shown && !this.shown) return;
    this.shown = shown;
    this.sigma.refresh();
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

  /**
   * How far the layout is; that it is done only when it has been drawn.
   *
   * @param {number} share
   * @param {boolean} arranged
   */
  #tell(share, arranged) {
    if (share < 1) return this.onLayout(share, arranged);
    this.sigma.once("afterRender", () => this.onLayout(1, arranged));
    return this.sigma.scheduleRefresh();
  }

  /** Light only these notes; null: all. @param {Set<string> | null} found */
  setFound(found) {
    this.found = found;
    this.#mean();
  }

  /** Keep this note and its neighbours lit; "": none. @param {string} id */
  select(id) {
    const before = this.selected;
    this.selected = this.graph.hasNode(id) ? id : "";
    if (this.shown && before !== this.selected) this.sigma.refresh(); // it is drawn whatever the filters say
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

  /** Where every note lies, in the map's own units. */
  positions() {
    /** @type {Map<string, import("./layout.js").Point>} */
    const points = new Map();
    this.graph.forEachNode((id, { x, y }) => points.set(id, [x, y]));
    return points;
  }

  /** The notes that are drawn, in order of their ids. */
  drawn() {
    return this.graph.filterNodes((id) => this.sigma.getNodeDisplayData(id)?.hidden === false).sort();
  }

  /** @param {string} id */
  #isShown(id) {
    return !this.shown || this.shown.has(id) || id === this.selected;
  }

  /** @param {string} id */
  #hover(id) {
    this.hovered = id;
    this.sigma.getContainer().classList.toggle("over-note", id !== "");
    this.#mean();
  }

  /** Work out which notes are meant, and fade to it. */
  #mean() {
    const centre = this.hovered || (this.found ? "" : this.selected);
    const meant = centre && this.graph.hasNode(centre) ? new Set([centre, ...this.graph.neighbors(centre)]) : this.found;
    if (meant) {
      this.centre = centre;
      this.meant = meant;
    }
    const goal = meant ? 1 : 0;
    cancelAnimationFrame(this.fading);
    const [start, from] = [performance.now(), this.dim];
    const still = calm() || this.graph.order > SMOOTH;
    const step = () => {
      const share = still ? 1 : Math.min(1, (performance.now() - start) / FADE);
      if (share === 1 && !goal) [this.meant, this.centre] = [null, ""];
      this.#dimTo(from + (goal - from) * share);
      if (share < 1) this.fading = requestAnimationFrame(step);
    };
    return step();
  }

  /** @param {number} dim */
  #dimTo(dim) {
    this.dim = dim;
    this.sigma.refresh({ skipIndexation: true });
  }

  /** @param {string} name */
  #colour(name) {
    return this.palette.get(name) ?? "#888888";
  }

  /**
   * @param {string} id
   * @param {any} data
   */
  #node(id, data) {
    if (!this.#isShown(id)) return { ...data, hidden: true, label: "" };
    const color = this.#colour(data.hue);
    if (!this.meant) return { ...data, color };
    if (this.meant.has(id)) {
      const strong = id === this.centre ? mix(color, this.#colour("text"), 0.45 * this.dim) : color;
      return { ...data, color: strong, zIndex: 1, forceLabel: id === this.centre || this.meant.size <= FEW };
    }
    return { ...data, color: mix(color, this.#colour("page"), DIMMED * this.dim), label: this.dim > 0.5 ? "" : data.label };
  }

  /**
   * @param {string} id
   * @param {any} data
   */
  #edge(id, data) {
    const color = this.#colour("edge");
    if (!this.meant) return { ...data, color };
    const [from, to] = this.graph.extremities(id);
    if (this.centre && (from === this.centre || to === this.centre)) {
      return { ...data, color: mix(color, this.#colour("edge-near"), this.dim), size: 1 + 0.4 * this.dim, zIndex: 1 };
    }
    return { ...data, color: mix(color, this.#colour("page"), 0.7 * this.dim) };
  }

  /**
   * A label below its dot, which comes in as the dot grows; left out where another one stands already.
   *
   * @param {CanvasRenderingContext2D} context
   * @param {any} data
   */
  #label(context, data) {
    if (!data.label || this.glow.lights.has(data.key)) return; // a lit note has its title from the glow
    const strong = data.key === this.centre;
    context.font = `${strong ? "600 13px" : "12px"} ${FONT}`;
    context.textAlign = "center";
    context.textBaseline = "top";
    context.lineJoin = "round";
    context.lineWidth = 3;
    context.strokeStyle = this.#colour("page");
    context.fillStyle = this.#colour(data.forceLabel ? "text" : "muted");
    const half = context.measureText(data.label).width / 2;
    const box = { left: data.x - half, right: data.x + half, top: data.y + data.size + BELOW };
    const taken = this.labels.some(
      (other) => box.left < other.right && other.left < box.right && Math.abs(box.top - other.top) < LINE,
    );
    if (taken && !strong) return;
    this.labels.push(box);
    context.globalAlpha = data.forceLabel ? 1 : Math.min(1, Math.max(0.6, (data.size - 3) / 5));
    context.strokeText(data.label, data.x, box.top);
    context.fillText(data.label, data.x, box.top);
    context.globalAlpha = 1;
  }
}

/** @param {string} title */
function short(title) {
  const characters = [...title];
  return characters.length > LONGEST ? `${characters.slice(0, LONGEST - 1).join("")}…` : title;
}
