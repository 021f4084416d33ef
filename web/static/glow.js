// @ts-check
// Notes light up as they are sent. Drawn on a canvas over the map, so that nothing is uploaded to the GPU again.
import { calm, h } from "./dom.js";

const FADE = 4000; // ms until a sent note is dark again
const PULSE = 1100; // ms of the one ring that runs outwards
const HELD = 500; // ms at full strength before it fades

/**
 * @typedef {{x: number, y: number, radius: number}} Spot on the canvas, in CSS pixels
 * @typedef {{since: number, places: Set<Place>}} Light
 */

export class Glow {
  /**
   * @param {HTMLElement} container
   * @param {object} map
   * @param {(id: string) => Spot | null} map.spot null: not on the map
   * @param {(id: string) => string} map.title
   * @param {() => ReadonlyMap<string, string>} map.palette
   * @param {(id: string, other: string) => boolean} map.linked
   * @param {(id: string) => number} map.strength how clearly a note is to be seen, 0 to 1
   * @param {() => void} map.onChange a light went on or out
   */
  constructor(container, { spot, title, palette, linked, strength, onChange }) {
    this.container = container;
    this.spot = spot;
    this.title = title;
    this.palette = palette;
    this.linked = linked;
    this.strength = strength;
    this.onChange = onChange;
    this.canvas = h("canvas", { class: "glow", "aria-hidden": "true" });
    container.append(this.canvas);
    const context = this.canvas.getContext("2d");
    if (!context) throw new Error("the browser gives no 2D canvas");
    this.context = context;
    /** @type {Map<string, Light>} */
    this.lights = new Map();
    /** @type {Map<string, Set<Place>>} notes that were ever sent */
    this.marks = new Map();
    this.asked = 0;
    this.timer = 0;
  }

  /**
   * @param {string[]} ids
   * @param {Place[]} places
   */
  light(ids, places) {
    for (const id of ids) this.lights.set(id, { since: performance.now(), places: new Set(places) });
    this.onChange();
    this.ask();
  }

  /** Put all lights out. */
  dark() {
    this.lights.clear();
    this.onChange();
    this.ask();
  }

  /** @param {Map<string, Set<Place>>} marks */
  setMarks(marks) {
    this.marks = marks;
    this.ask();
  }

  /** Draw soon. With reduced motion nothing moves, so once now and once when a light goes out is enough. */
  ask() {
    if (this.asked) return;
    this.asked = requestAnimationFrame(() => {
      this.asked = 0;
      this.draw();
      clearTimeout(this.timer);
      if (!this.lights.size) return;
      if (calm()) this.timer = setTimeout(() => this.ask(), FADE / 8);
      else this.ask();
    });
  }

  draw() {
    const { context, canvas } = this;
    const [width, height] = [this.container.clientWidth, this.container.clientHeight];
    const scale = devicePixelRatio;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
    }
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    const now = performance.now();
    for (const [id, light] of this.lights) {
      if (now - light.since <= FADE) continue;
      this.lights.delete(id);
      this.onChange();
    }
    for (const [id, places] of this.marks) this.#mark(id, places);
    this.#links(now);
    for (const [id, light] of this.lights) this.#light(id, light, now);
    context.globalAlpha = 1;
  }

  /** @param {number} age ms */
  #left(age) {
    return calm() || age < HELD ? 1 : 1 - (age - HELD) / (FADE - HELD);
  }

  /**
   * A note that was ever sent: a thin ring for local, a thin double ring for cloud, the cloud's outside.
   *
   * @param {string} id
   * @param {Set<Place>} places
   */
  #mark(id, places) {
    const spot = this.spot(id);
    if (!spot) return;
    let radius = spot.radius + 2;
    this.context.lineWidth = 1;
    this.context.globalAlpha = 0.75 * this.strength(id);
    if (places.has("local")) {
      this.#ring(spot, radius, "local");
      radius += 3;
    }
    if (places.has("cloud")) {
      this.#ring(spot, radius, "cloud");
      this.#ring(spot, radius + 2.2, "cloud");
    }
  }

  /** Links between notes that are lit: what went together. @param {number} now */
  #links(now) {
    const lit = [...this.lights];
    if (lit.length > 60) return; // a whole folder at once: the discs say enough
    this.context.lineWidth = 1.5;
    for (const [at, [id, light]] of lit.entries()) {
      for (const [other, { since, places }] of lit.slice(at + 1)) {
        if (since !== light.since || !this.linked(id, other)) continue;
        const [from, to] = [this.spot(id), this.spot(other)];
        if (!from || !to) continue;
        this.context.globalAlpha = 0.6 * this.#left(now - since);
        this.context.strokeStyle = this.#colour(places.has("cloud") ? "cloud" : "local");
        this.context.beginPath();
        this.context.moveTo(from.x, from.y);
        this.context.lineTo(to.x, to.y);
        this.context.stroke();
      }
    }
  }

  /**
   * A filled disc for local, a double ring for cloud, its title, and one ring that runs outwards.
   *
   * @param {string} id
   * @param {Light} light
   * @param {number} now
   */
  #light(id, { since, places }, now) {
    const spot = this.spot(id);
    if (!spot) return;
    const { context } = this;
    const age = now - since;
    const strength = this.#left(age);
    const radius = spot.radius + 2;
    context.globalAlpha = strength;
    if (places.has("local")) {
      context.fillStyle = this.#colour("local");
      context.beginPath();
      context.arc(spot.x, spot.y, radius, 0, 2 * Math.PI);
      context.fill();
    }
    if (places.has("cloud")) {
      context.lineWidth = 2;
      this.#ring(spot, radius + 1.5, "cloud");
      this.#ring(spot, radius + 5.5, "cloud");
    }
    this.#title(id, spot, radius + 8);
    if (!calm() && age < PULSE) {
      const share = 1 - (1 - age / PULSE) ** 3;
      context.globalAlpha = 0.7 * (1 - share);
      context.lineWidth = 2;
      this.#ring(spot, radius + 34 * share, places.has("cloud") ? "cloud" : "local");
    }
  }

  /**
   * @param {string} id
   * @param {Spot} spot
   * @param {number} below
   */
  #title(id, spot, below) {
    const { context } = this;
    context.font = "600 12px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "top";
    context.lineJoin = "round";
    context.lineWidth = 4;
    context.strokeStyle = this.#colour("page");
    context.fillStyle = this.#colour("text");
    context.strokeText(this.title(id), spot.x, spot.y + below);
    context.fillText(this.title(id), spot.x, spot.y + below);
  }

  /**
   * @param {Spot} spot
   * @param {number} radius
   * @param {Place} place
   */
  #ring(spot, radius, place) {
    this.context.strokeStyle = this.#colour(place);
    this.context.beginPath();
    this.context.arc(spot.x, spot.y, radius, 0, 2 * Math.PI);
    this.context.stroke();
  }

  /** @param {string} name */
  #colour(name) {
    return this.palette().get(name) ?? "#888888";
  }
}
