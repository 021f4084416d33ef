// @ts-check
// The requests on hold, at the top of the Live page: what is in each, how long it waits, and what can be done with it.
import { get, post } from "./api.js";
import { Decision } from "./components/Decision.js";
import { ScanState } from "./components/ScanState.js";
import { Toast } from "./components/Toast.js";
import { h } from "./dom.js";
import { models, notes } from "./entry.js";
import { counted } from "./words.js";

const TICK = 1000; // ms

/** How the end of a wait is said, after who asked for what. */
const ENDS = {
  released: "was released",
  blocked: "was blocked",
  redirected: "was sent to a target",
  expired: "waited until its time ran out",
  left: "waits no longer: its client left",
};

/**
 * The list of held requests. It keeps itself up to date once it is told of `held` events, says aloud what comes and goes,
 * and shows its buttons to an admin only.
 */
export class Held {
  constructor() {
    this.isAdmin = false;
    /** @type {Map<string, {held: HeldEntry, card: HTMLLIElement, left: HTMLTimeElement}>} */
    this.cards = new Map();
    /** @type {Map<string, HeldState>} how those ended that are still shown */
    this.ends = new Map();
    this.loading = false;
    this.stale = false;
    this.list = h("ul", { class: "held-list" });
    this.title = h("h2", { id: "held-title", tabindex: "-1" });
    this.spoken = h("p", { class: "visually-hidden", role: "status", "aria-live": "polite" });
    this.section = h("section", { class: "held", "aria-labelledby": "held-title", hidden: true }, this.title, this.list);
    this.element = h("div", {}, this.section, this.spoken);
    setInterval(() => this.#tick(), TICK);
  }

  /** @param {boolean} isAdmin whether this person may decide */
  allow(isAdmin) {
    if (isAdmin === this.isAdmin) return;
    this.isAdmin = isAdmin;
    for (const { held, card } of this.cards.values()) card.querySelector(".held-actions")?.replaceWith(this.#actions(held));
  }

  /** @param {{id: string, state: HeldState}} event */
  told({ id, state }) {
    if (state !== "waiting") this.ends.set(id, state);
    void this.load();
  }

  /** Ask what is on hold now. One question at a time: what changes meanwhile is asked for once more. */
  async load() {
    this.stale = true;
    if (this.loading) return;
    this.loading = true;
    try {
      while (this.stale) {
        this.stale = false;
        this.#show(/** @type {HeldEntry[]} */ ((await get("held")).held));
      }
    } catch (error) {
      Toast(`The requests on hold could not be loaded. ${said(error)}`, { failed: true });
    } finally {
      this.loading = false;
    }
  }

  /** @param {HeldEntry[]} waiting */
  #show(waiting) {
    const now = new Set(waiting.map((one) => one.id));
    const news = [];
    for (const [id, { held }] of this.cards) {
      if (now.has(id)) continue;
      news.push(`${who(held)} ${ENDS[/** @type {keyof typeof ENDS} */ (this.ends.get(id))] ?? "waits no longer"}`);
      this.#remove(id);
    }
    const more = waiting.filter((one) => !this.cards.has(one.id));
    for (const held of more) {
      this.#add(held);
      const carried = held.entry.notes.length ? counted(held.entry.notes.length, "note") : "no note";
      news.push(`${who(held)} is on hold with ${carried}`);
    }
    for (const id of this.ends.keys()) if (!this.cards.has(id)) this.ends.delete(id);
    this.title.textContent = `${counted(this.cards.size, "request")} on hold`;
    this.section.hidden = !this.cards.size;
    if (news.length) this.spoken.textContent = `${news.join(". ")}.`;
  }

  /** @param {HeldEntry} held */
  #add(held) {
    const { entry } = held;
    const left = h("time", { class: "held-left", datetime: held.until, title: new Date(held.until).toLocaleTimeString() });
    const card = h(
      "li",
      { class: "held-card", "data-key": held.id },
      h(
        "div",
        { class: "held-head", id: `held-${held.id}` },
        h("b", {}, entry.client),
        models(entry),
        Decision(entry.decision),
        ScanState(entry.scan),
        left,
      ),
      h("div", { class: "held-notes" }, notes(entry)),
      this.#actions(held),
    );
    this.cards.set(held.id, { held, card, left });
    this.list.append(card);
    this.#count(held, left);
  }

  /** @param {HeldEntry} held */
  #actions(held) {
    const bar = h("div", { class: "held-actions", role: "group", "aria-label": `What becomes of ${who(held)}` });
    if (!this.isAdmin) return bar;
    const add = (/** @type {string} */ word, /** @type {string} */ action, /** @type {string | null} */ target = null) =>
      bar.append(
        h(
          "button",
          {
            type: "button",
            class: action === "block" && "danger",
            "aria-describedby": `held-${held.id}`,
            onclick: () => this.#decide(held, bar, { action, target }),
          },
          word,
        ),
      );
    add("Release", "release");
    add("Block", "block");
    for (const target of held.targets) add(`Send to ${target}`, "redirect", target);
    return bar;
  }

  /**
   * @param {HeldEntry} held
   * @param {HTMLElement} bar
   * @param {{action: string, target: string | null}} wanted
   */
  async #decide(held, bar, wanted) {
    if (bar.ariaBusy === "true") return; // the buttons stay as they are, so that none loses the focus
    bar.ariaBusy = "true";
    try {
      const { state } = await post(`held/${held.id}`, wanted);
      this.ends.set(held.id, state);
    } catch (error) {
      Toast(said(error), { failed: true });
    }
    bar.ariaBusy = "false";
    await this.load();
  }

  /** The focus goes to the next one, if it was here. @param {string} id */
  #remove(id) {
    const one = this.cards.get(id);
    if (!one) return;
    const hadFocus = one.card.contains(document.activeElement);
    const next = one.card.nextElementSibling ?? one.card.previousElementSibling;
    this.cards.delete(id);
    one.card.remove();
    if (!hadFocus) return;
    const where = next?.querySelector("button") ?? document.querySelector("#requests tr[tabindex='0']") ?? this.title;
    if (where instanceof HTMLElement) where.focus();
  }

  #tick() {
    for (const { held, left } of this.cards.values()) this.#count(held, left);
  }

  /**
   * @param {HeldEntry} held
   * @param {HTMLTimeElement} left
   */
  #count(held, left) {
    const text = remaining((Date.parse(held.until) - Date.now()) / 1000);
    if (left.textContent !== text) left.textContent = text;
  }
}

/** @param {HeldEntry} held */
function who({ entry }) {
  return `${entry.client} to ${entry.model || entry.provider} (${entry.to})`;
}

/**
 * "1:05 left"; with hours "1:02:03 left".
 *
 * @param {number} seconds
 */
function remaining(seconds) {
  const whole = Math.ceil(seconds);
  if (whole <= 0) return "time is up";
  const parts = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const shown = parts[0] ? parts : parts.slice(1);
  return `${shown.map((part, at) => (at ? String(part).padStart(2, "0") : part)).join(":")} left`;
}

/** @param {unknown} error */
function said(error) {
  return error instanceof Error ? error.message : String(error);
}
