/** Files that come to the page, by the button or by being dropped. */

import { Dropped } from "./dropped.js";

export class Models {
  constructor(section, choice) {
    this.place = section.querySelector("#model");
    this.file = section.querySelector("#file");
    this.sample = section.querySelector("#sample");
    this.over = document.querySelector("#over");
    this.choice = choice;
  }

  start() {
    this.file.onchange = () => this.file.files.length && this.take(this.file.files[0]);
    this.sample.onclick = () => this.fetched("models/digits.onnx");
    this.choice.onchange = () => this.current?.reopen();
    let depth = 0; // dragenter and dragleave come for every element that is crossed
    const drag = (type, then) => document.addEventListener(type, (event) => (event.preventDefault(), then(event)));
    const show = () => (this.over.hidden = depth <= 0);
    drag("dragenter", () => (depth++, show()));
    drag("dragleave", () => (depth--, show()));
    drag("dragover", ({ dataTransfer }) => (dataTransfer.dropEffect = "copy"));
    drag("drop", ({ dataTransfer }) => {
      depth = 0;
      show();
      if (dataTransfer.files.length) this.take(dataTransfer.files[0]);
    });
  }

  /** A model, or a picture or an array for the one that is there. */
  take(file) {
    this.file.value = "";
    if (this.current?.takes(file)) return this.current.see(file);
    this.current?.close();
    this.current = new Dropped(this.place, file, this.choice);
    return this.current.open();
  }

  async fetched(address) {
    const response = await fetch(address);
    return this.take(new File([await response.blob()], address.split("/").at(-1)));
  }
}
