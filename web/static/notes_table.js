// @ts-check
// All notes as a table: what the map shows, for keyboards and screen readers, and where there is no WebGL.
import { Ago } from "./components/Ago.js";
import { NoteLink } from "./components/NoteLink.js";
import { Table } from "./components/Table.js";
import { Where } from "./components/Where.js";
import { h } from "./dom.js";
import { counted, number } from "./words.js";

/**
 * @param {object} options
 * @param {(id: string) => NoteExposure | undefined} options.exposure
 * @param {(id: string) => void} options.onFocus
 * @param {(id: string) => void} options.onEnter
 */
export function notesTable({ exposure, onFocus, onEnter }) {
  /** @type {Table<MapNode>} */
  const table = new Table({
    caption: "Notes, those sent last first, then by links. Arrow keys move, Enter goes to the note's panel.",
    key: (node) => node.id,
    empty: "No note matches the search.",
    onFocus: (node) => onFocus(node.id),
    onEnter: (node) => onEnter(node.id),
    columns: [
      { label: "Note", cell: (node) => NoteLink(node) },
      { label: "Folder", cell: (node) => node.folder, class: "muted" },
      { label: "Links", cell: (node) => number(node.degree), class: "number" },
      { label: "Recognised by", cell: (node) => (node.detectable === "text" ? counted(node.distinctiveLines, "line") : "mention only") },
      { label: "Sent", cell: (node) => counts(exposure(node.id)) },
      { label: "Last sent", cell: (node) => last(exposure(node.id)) },
    ],
  });
  /** @type {MapNode[]} */
  let shown = [];
  let asked = 0;
  let stale = false;
  const lastShared = (/** @type {MapNode} */ node) => exposure(node.id)?.lastShared ?? "";
  const inSight = () => table.element.checkVisibility();
  const fill = () => {
    const rows = [...shown].sort(
      (a, b) => compare(lastShared(b), lastShared(a)) || b.degree - a.degree || compare(a.title, b.title),
    );
    stale = false;
    table.setRows(rows);
  };
  table.body.addEventListener("click", ({ target }) => {
    const line = target instanceof Element && !target.closest("a") && target.closest("tr");
    const entry = line && table.lines.get(line.dataset.key ?? "");
    if (entry) onFocus(entry.row.id); // it may have the focus already
  });
  const walked = () => table.element.contains(document.activeElement);
  table.element.addEventListener("focusout", () => setTimeout(() => stale && !walked() && fill()));
  return {
    element: table.element,
    focus: () => table.focus(),
    /** While someone walks the rows, these come when they leave. @param {MapNode[]} nodes */
    show(nodes) {
      shown = nodes;
      if (walked()) stale = true;
      else if (inSight()) fill();
    },
    /** It came into sight. */
    fill,
    /** Sharing changed. Not out of sight, nor more than once in a while. */
    refresh() {
      if (asked || !inSight()) return;
      asked = setTimeout(() => {
        asked = 0;
        if (walked()) stale = true;
        else fill();
      }, 500);
    },
  };
}

/**
 * @param {string} a
 * @param {string} b
 */
function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** @param {NoteExposure | undefined} note */
function counts(note) {
  if (!note) return "";
  const cloud = note.cloudContent + note.cloudReference;
  const local = note.localContent + note.localReference;
  const cell = h("span", { class: "counts" });
  if (cloud) cell.append(Where("cloud", `${number(cloud)}× cloud`));
  if (local) cell.append(Where("local", `${number(local)}× local`));
  return cell;
}

/** @param {NoteExposure | undefined} note */
function last(note) {
  return note ? Ago(note.lastShared) : "";
}
