// @ts-check
import { h } from "../dom.js";

/**
 * Ask before something that cannot be taken back. `text` says in full what will happen; with `typed`, the person has to
 * type that word first.
 *
 * @param {{title: string, text: string, action: string, typed?: string}} question
 * @returns {Promise<boolean>} whether the person said yes
 */
export function Confirm({ title, text, action, typed = "" }) {
  return new Promise((resolve) => {
    const yes = h("button", { value: "yes", class: "danger", disabled: typed !== "" }, action);
    const word = h("input", { type: "text", autocomplete: "off", autocapitalize: "off", spellcheck: "false", autofocus: typed !== "" });
    word.addEventListener("input", () => (yes.disabled = word.value.trim() !== typed));
    const dialog = h(
      "dialog",
      { class: "confirm", "aria-labelledby": "confirm-title", onclose: () => (dialog.remove(), resolve(dialog.returnValue === "yes")) },
      h("h2", { id: "confirm-title" }, title),
      h("p", {}, text),
      h(
        "form",
        { method: "dialog" },
        typed !== "" && h("label", {}, h("span", {}, "Type ", h("b", {}, typed), " to confirm"), word),
        h("button", { type: "button", autofocus: typed === "", onclick: () => dialog.close("no") }, "Cancel"),
        yes,
      ),
    );
    document.body.append(dialog);
    dialog.showModal();
  });
}
