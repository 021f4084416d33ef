// @ts-check
// What the colours of the dots mean, said below the map. Communities are asked for when somebody colours by them.
import { get } from "./api.js";
import { colouring } from "./colouring.js";
import { Where } from "./components/Where.js";
import { byId, h } from "./dom.js";

export class Legend {
  /**
   * @param {object} hear
   * @param {() => void} hear.onFound communities are known now
   * @param {(error: unknown) => void} hear.onFailure
   */
  constructor({ onFound, onFailure }) {
    this.onFound = onFound;
    this.onFailure = onFailure;
    this.element = byId("legend");
    /** @type {string[][] | null} null: not asked for since the map was loaded */
    this.communities = null;
    this.map = 0;
    this.asked = -1; // the map whose communities were asked for
  }

  /** Another map was loaded: its communities are not known. */
  forget() {
    this.communities = null;
    this.map++;
  }

  /**
   * Say what the colours mean.
   *
   * @param {import("./colouring.js").ColourBy} by
   * @param {MapNode[]} notes
   * @param {ReadonlyMap<string, NoteExposure>} exposure
   * @returns {Map<string, string>} note -> token
   */
  explain(by, notes, exposure) {
    const finding = by === "community" && !this.communities;
    if (finding) void this.#find();
    const { hues, title, swatches } = colouring(by, notes, exposure, this.communities ?? []);
    this.element.replaceChildren(
      h(
        "div",
        {},
        h("h2", {}, "Sent"),
        h("ul", {}, h("li", {}, Where("local", "to a local model")), h("li", {}, Where("cloud", "to a cloud model"))),
        h("p", {}, "A ring stays on what was ever sent."),
      ),
      h(
        "div",
        { class: "folders" },
        h("h2", {}, title),
        finding
          ? h("p", {}, "Finding them…")
          : h("ul", {}, ...swatches.map(({ hue, name }) => h("li", {}, h("i", { class: `swatch ${hue}` }), name))),
      ),
    );
    return hues;
  }

  async #find() {
    const { map } = this;
    if (this.asked === map) return;
    this.asked = map;
    /** @type {string[][]} */
    let communities = [];
    try {
      ({ communities } = await get("memory/communities"));
    } catch (error) {
      if (map === this.map) this.onFailure(error);
    }
    if (map !== this.map) return; // those of another map
    this.communities = communities;
    this.onFound();
  }
}
