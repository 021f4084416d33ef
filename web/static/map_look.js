// @ts-check
// How notes, links and titles look on the map: which are meant, and how far the others have faded. Knows no renderer.
import { mix, readPalette } from "./palette.js";

export const FONT = "system-ui, sans-serif";
const DIMMED = 0.84; // how far a note that is not meant goes towards the page's colour
const BELOW = 7; // pixels from a dot to its label: the rings of a sent note lie between
const FEW = 25; // so many notes that are meant all show their titles, as far as there is room
/** How clearly the label of the smallest dot is drawn, of 1: with less, muted text would fall below a contrast of 4.5. */
export const FAINTEST = 0.9;
const LINE = 15; // pixels from one label to the next

export class Look {
  /**
   * @param {object} map
   * @param {(link: string) => [string, string]} map.ends
   * @param {(id: string) => boolean} map.isLit a lit note has its title from the glow
   */
  constructor({ ends, isLit }) {
    this.ends = ends;
    this.isLit = isLit;
    this.palette = readPalette();
    /** @type {ReadonlySet<string> | null} the notes that are drawn; null: all. The one that is selected always is */
    this.shown = null;
    this.selected = "";
    /** @type {Set<string> | null} the notes that are meant; null: all */
    this.meant = null;
    this.centre = "";
    this.dim = 0;
    /** @type {{left: number, right: number, top: number}[]} labels drawn in this frame */
    this.labels = [];
    /** @type {{context: CanvasRenderingContext2D, data: any}[]} labels that are to be drawn in it */
    this.waiting = [];
  }

  /** The page became dark, or light. */
  readColours() {
    this.palette = readPalette();
  }

  /** A frame begins: no label stands yet. */
  begin() {
    this.labels = [];
    this.waiting = [];
  }

  /** A label of this frame. @param {CanvasRenderingContext2D} context @param {any} data */
  want(context, data) {
    this.waiting.push({ context, data });
  }

  /** All are known: those that must be there come first, and then those of the largest dots. */
  finish() {
    this.waiting.sort(({ data: a }, { data: b }) => Number(b.forceLabel ?? false) - Number(a.forceLabel ?? false) || b.size - a.size);
    for (const { context, data } of this.waiting.splice(0)) this.label(context, data);
  }

  /** @param {string} id */
  isShown(id) {
    return !this.shown || this.shown.has(id) || id === this.selected;
  }

  /** How clearly a note is to be seen, 0 to 1. @param {string} id */
  strength(id) {
    return !this.meant || this.meant.has(id) ? 1 : 1 - DIMMED * this.dim;
  }

  /**
   * A dot. `data` is a copy for this call, so it is changed as it is: there are many.
   *
   * @param {string} id
   * @param {any} data
   */
  node(id, data) {
    if (!this.isShown(id)) {
      data.hidden = true;
      data.label = "";
      return data;
    }
    const color = this.#colour(data.hue);
    if (!this.meant) {
      data.color = color;
    } else if (this.meant.has(id)) {
      data.color = id === this.centre ? mix(color, this.#colour("text"), 0.45 * this.dim) : color;
      data.zIndex = 1;
      data.forceLabel = id === this.centre || this.meant.size <= FEW;
    } else {
      data.color = mix(color, this.#colour("page"), DIMMED * this.dim);
      if (this.dim > 0.5) data.label = "";
    }
    return data;
  }

  /**
   * A line, as `node`.
   *
   * @param {string} link
   * @param {any} data
   */
  edge(link, data) {
    const color = this.#colour("edge");
    data.color = color;
    if (!this.meant) return data;
    const [from, to] = this.ends(link);
    if (this.centre && (from === this.centre || to === this.centre)) {
      data.color = mix(color, this.#colour("edge-near"), this.dim);
      data.size = 1 + 0.4 * this.dim;
      data.zIndex = 1;
    } else {
      data.color = mix(color, this.#colour("page"), 0.7 * this.dim);
    }
    return data;
  }

  /**
   * A label below its dot, which comes in as the dot grows; left out where another one stands already.
   *
   * @param {CanvasRenderingContext2D} context
   * @param {any} data
   */
  label(context, data) {
    if (!data.label || this.isLit(data.key)) return;
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
    context.globalAlpha = data.forceLabel ? 1 : Math.min(1, Math.max(FAINTEST, (data.size - 3) / 5));
    context.strokeText(data.label, data.x, box.top);
    context.fillText(data.label, data.x, box.top);
    context.globalAlpha = 1;
  }

  /** @param {string} name */
  #colour(name) {
    return this.palette.get(name) ?? "#888888";
  }
}
