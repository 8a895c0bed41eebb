/** A pen for the keyboard: arrow keys move it, and it draws while Space is held, or from one Space to the next. */

const STEP = 0.025; // of the pad's side, for each press
const LEAP = 4; // steps with Shift
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const EDGE = 0.04;

export class Pen {
  /** Listen to a pad's canvas; `say` gets what a person who does not see it should hear. */
  constructor(pad, say) {
    this.pad = pad;
    this.say = say;
    this.place = [0.5, 0.25];
    this.isDown = false;
    this.held = new Set();
    const { canvas } = pad;
    canvas.addEventListener("keydown", (event) => this.press(event));
    canvas.addEventListener("keyup", (event) => this.leave(event));
    canvas.addEventListener("focus", () => this.pad.change());
    canvas.addEventListener("blur", () => {
      this.held.clear();
      this.lift();
    });
  }

  /** Whether the pen is to be seen: the keyboard is at the pad. */
  get isShown() {
    return this.pad.canvas.matches(":focus-visible");
  }

  press(event) {
    const { key, ctrlKey, metaKey, altKey } = event;
    if (ctrlKey || metaKey || altKey) return;
    if (key in ARROWS) {
      this.held.add(key);
      this.move(event.shiftKey ? LEAP : 1);
    } else if (key === " " && !event.repeat) {
      this.hasMoved = false;
      if (this.isDown) this.lift();
      else this.lower();
    } else if (key === "Escape") this.lift();
    else if (key !== " ") return;
    event.preventDefault();
    event.stopPropagation();
  }

  leave({ key }) {
    this.held.delete(key);
    if (key === " " && this.hasMoved) this.lift();
  }

  /** All arrows that are held count, two of them for a slanted line. */
  move(steps) {
    const within = (value) => Math.min(1 - EDGE, Math.max(EDGE, value));
    const sum = [...this.held].map((key) => ARROWS[key] ?? [0, 0]).reduce(([x, y], [u, v]) => [x + u, y + v], [0, 0]);
    this.place = this.place.map((value, axis) => within(value + sum[axis] * STEP * steps));
    if (this.isDown) {
      this.hasMoved = true;
      this.pad.extend(this.place);
    } else this.pad.change();
  }

  lower() {
    this.pad.begin(this.place);
    this.isDown = true;
    this.say(`Pen down, ${this.where}`);
  }

  lift() {
    this.pad.change();
    if (!this.isDown) return;
    this.isDown = this.hasMoved = false;
    this.say(`Pen up, ${this.where}`);
  }

  get where() {
    const [x, y] = this.place.map((value) => Math.round(100 * value));
    return `${x} % from the left, ${y} % from the top`;
  }

  /** A ring about the place, full where it draws. */
  paint(context, side) {
    const [x, y] = this.place.map((value) => value * side);
    context.shadowColor = "transparent";
    for (const [style, width] of [["#2b0f08", 0.02], ["#ffffff", 0.01]]) {
      Object.assign(context, { strokeStyle: style, lineWidth: width * side });
      context.beginPath();
      context.arc(x, y, 0.035 * side, 0, 2 * Math.PI);
      context.stroke();
    }
    if (!this.isDown) return;
    context.fillStyle = "#b4552f";
    context.beginPath();
    context.arc(x, y, 0.02 * side, 0, 2 * Math.PI);
    context.fill();
  }
}
