/** Before a demonstration: what it would load, and a button; then how far that is, and what went wrong. */

import { bytes, element } from "./text.js";

export class Start {
  /** `stage` is what the curtain hides; `name` is the folder in `demos/`. */
  constructor(place, stage, name) {
    this.stage = stage;
    this.name = name;
    this.button = element("button.first", { type: "button" });
    this.words = element("p");
    this.bar = element("progress", { max: 1, value: 0, ariaLabel: "Loaded" });
    this.count = element("span.count");
    this.error = element("p.error", { role: "alert", hidden: true });
    this.loading = element("div.loaded", { hidden: true }, this.bar, this.count);
    place.append(element("div.offer", {}, this.words, this.error, this.loading, this.button));
    this.place = place;
  }

  /** Offer it. `work(progress)` loads it on a click; `progress` hears how many bytes have come. */
  async offer(title, work) {
    this.title = title;
    this.work = work;
    this.button.hidden = this.error.hidden = this.loading.hidden = true;
    this.button.textContent = title;
    this.button.onclick = () => this.load();
    try {
      const response = await fetch(`demos/${this.name}/about.json`);
      if (!response.ok) return this.miss();
      this.total = (await response.json()).bytes;
    } catch {
      return this.fail("The server of this page does not answer: it was ended, or you are offline.");
    }
    this.words.replaceChildren(`Nothing is loaded yet. It will be ${bytes(this.total)}, from this page’s own server.`);
    this.button.hidden = false;
  }

  miss() {
    const command = (text) => element("code", {}, text);
    this.words.replaceChildren(
      "What this page loads is not on its server yet. In a clone of Sardonyx, ", command("make demos"),
      " fetches and compiles it; ", command("make web"), " then serves it.",
    );
    this.again("Look again");
  }

  async load() {
    const { button, loading, bar, count, error } = this;
    button.hidden = error.hidden = true;
    loading.hidden = false;
    this.tell("Loading");
    const progress = (loaded) => {
      bar.value = Math.min(1, loaded / this.total);
      count.textContent = `${bytes(Math.min(loaded, this.total))} of ${bytes(this.total)}`;
    };
    progress(0);
    try {
      await this.work(progress);
      this.place.hidden = true;
      this.stage.inert = false;
      this.onopen?.();
    } catch (problem) {
      this.fail(explained(problem));
    }
  }

  /** What is being done. */
  tell(words) {
    this.words.textContent = words;
  }

  fail(text) {
    this.words.replaceChildren();
    this.loading.hidden = true;
    this.error.textContent = text;
    this.error.hidden = false;
    this.again("Try again");
  }

  again(title) {
    this.button.textContent = title;
    this.button.hidden = false;
    this.button.onclick = () => this.offer(this.title, this.work);
  }
}

/** What went wrong, for people. */
export function explained(problem) {
  const isNetwork = problem instanceof TypeError && /fetch|network|load/i.test(problem.message);
  return isNetwork ? "The connection broke: the server does not answer, or you are offline." : problem.message;
}

/** The bytes at an address; `heard` is told how many have come. */
export async function fetched(address, heard) {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`${address}: the server answers ${response.status} ${response.statusText}`);
  const pieces = [];
  let size = 0;
  for (const reader = response.body.getReader(); ; ) {
    const { value, done } = await reader.read();
    if (done) return new Uint8Array(await new Blob(pieces).arrayBuffer());
    pieces.push(value);
    heard((size += value.length));
  }
}

/** A listener to the bytes of each of several files; `progress` hears the sum. */
export function summed(progress) {
  const loaded = {};
  return (name) => (count) => {
    loaded[name] = count;
    progress(Object.values(loaded).reduce((a, b) => a + b, 0));
  };
}
