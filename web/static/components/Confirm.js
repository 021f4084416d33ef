// @ts-check
import { h } from "../dom.js";

/**
 * Ask before something that cannot be taken back. `text` says in full what will happen.
 *
 * @param {{title: string, text: string, action: string}} question
 * @returns {Promise<boolean>} whether the person said yes
 */
export function Confirm({ title, text, action }) {
  return new Promise((resolve) => {
    const dialog = h(
      "dialog",
      { class: "confirm", "aria-labelledby": "confirm-title", onclose: () => (dialog.remove(), resolve(dialog.returnValue === "yes")) },
      h("h2", { id: "confirm-title" }, title),
      h("p", {}, text),
      h(
        "form",
        { method: "dialog" },
        h("button", { value: "no", autofocus: true }, "Cancel"),
        h("button", { value: "yes", class: "danger" }, action),
      ),
    );
    document.body.append(dialog);
    dialog.showModal();
  });
}
