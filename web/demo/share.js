/** How another page runs the model: its bundle to save, and the lines to copy. */

import { snippet } from "./snippet.js";
import { element } from "./text.js";

const AGAIN = 2000; // milliseconds after which the button says again what it does

export class Share {
  constructor() {
    this.place = element("div.use", { hidden: true });
  }

  clear() {
    this.place.hidden = true;
    if (this.address) URL.revokeObjectURL(this.address);
    this.address = null;
  }

  /** Show it for a model's file, its bundle as a Blob, and the tensors of a run. */
  show(name, bundle, feeds) {
    this.clear();
    this.address = URL.createObjectURL(bundle);
    const file = `${name.replace(/\.[^.]*$/, "")}.sdx`;
    const lines = snippet(file, feeds);
    const code = element("pre", { tabIndex: 0, role: "region", ariaLabel: "The lines to copy" }, element("code", {}, lines));
    const copy = element("button", { type: "button" }, "Copy");
    const status = element("span.copied", { role: "status" });
    copy.onclick = async () => {
      const isCopied = await navigator.clipboard?.writeText(lines).then(() => true, () => false);
      if (!isCopied) getSelection().selectAllChildren(code);
      status.textContent = isCopied ? "Copied" : "Selected: copy it with Ctrl+C";
      setTimeout(() => (status.textContent = ""), AGAIN);
    };
    const save = element("a.button", { href: this.address, download: file }, `Save ${file}`);
    this.place.replaceChildren(
      element("h4", {}, "Use this in your page"),
      code,
      element("div.choices", {}, copy, save, status),
      element("p.note", {}, "They want ", element("code", {}, file), " beside the page, and the folder ", element("code", {}, "sardonyx/"),
        " with the runtime, which ", element("code", {}, "sardonyx web DIR --bundles-only"), " makes."),
    );
    this.place.hidden = false;
  }
}
