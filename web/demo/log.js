/** What was said in a chat: it stays at its end while it grows, unless somebody reads further up. */

import { element } from "./text.js";

const NEAR = 24; // pixels from the end that are as good as none

export class Log {
  /** `name` is that of who answers. */
  constructor(place, name) {
    this.place = place;
    this.name = name;
  }

  clear() {
    this.place.replaceChildren();
  }

  ask(words) {
    this.place.querySelector(".notice")?.remove();
    this.place.append(element("p.asked", {}, element("span.hidden", {}, "You: "), words));
    this.toEnd();
  }

  /** An answer to be: `add` adds to its text, and `end` says that it is whole. */
  answer() {
    const text = document.createTextNode("");
    const said = element("p.answered.writing", {}, element("span.hidden", {}, `${this.name}: `), text);
    this.place.append(said);
    this.toEnd();
    const add = (words) => this.growing(() => (text.data += words));
    const end = () => this.growing(() => said.classList.remove("writing"));
    return { add, end };
  }

  /** The last question was not answered. */
  takeBack() {
    this.place.querySelector(".answered:last-child")?.remove();
    this.place.querySelector(".asked:last-child")?.remove();
  }

  /** What has to be known besides, and a button, or none. */
  notice(words, button) {
    this.place.append(element("div.error.notice", { role: "alert" }, element("p", {}, words), button));
    this.toEnd();
  }

  growing(change) {
    const { scrollHeight, scrollTop, clientHeight } = this.place;
    change();
    if (scrollHeight - scrollTop - clientHeight < NEAR) this.toEnd();
  }

  toEnd() {
    this.place.scrollTop = this.place.scrollHeight;
  }
}
