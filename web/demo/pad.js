/** A place to draw on: strokes of mouse, pen, finger or keyboard, in units of its side. */

const PEN = 0.075;
const NEAR = 0.004; // points that are nearer than this add nothing but a tremor
const INK = "#fbf4ea";

export class Pad {
  /** `onchange` hears of every change, once for a frame; `pen` is the keyboard's, if there is one. */
  constructor(canvas) {
    this.canvas = canvas;
    this.pen = null;
    this.strokes = [];
    this.isDrawing = false;
    this.small = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const type of ["pointerup", "pointercancel", "lostpointercapture"]) {
      canvas.addEventListener(type, (event) => this.up(event));
    }
    new ResizeObserver(() => this.paint()).observe(canvas);
  }

  get isEmpty() {
    return !this.strokes.length;
  }

  down(event) {
    if (this.pointer !== undefined || event.button > 0) return;
    this.begin(this.place(event));
    this.pointer = event.pointerId;
    this.canvas.setPointerCapture(event.pointerId);
  }

  /** Begin a stroke at a place. */
  begin(place) {
    this.stop();
    this.strokes.push([place]);
    this.change();
  }

  /** Draw on to a place. */
  extend(place) {
    if (this.isEmpty) this.strokes.push([]);
    this.strokes.at(-1).push(place);
    this.change();
  }

  move(event) {
    if (event.pointerId !== this.pointer) return;
    const stroke = this.strokes.at(-1);
    const events = event.getCoalescedEvents?.() ?? [];
    for (const each of events.length ? events : [event]) {
      const [x, y] = this.place(each);
      const [left, top] = stroke.at(-1);
      if (Math.hypot(x - left, y - top) >= NEAR) stroke.push([x, y]);
    }
    this.change();
  }

  up(event) {
    if (event.pointerId === this.pointer) this.pointer = undefined;
  }

  place({ clientX, clientY }) {
    const { left, top, width, height } = this.canvas.getBoundingClientRect();
    return [(clientX - left) / width, (clientY - top) / height];
  }

  undo() {
    this.stop();
    this.strokes.pop();
    this.change();
  }

  clear() {
    this.stop();
    this.strokes = [];
    this.change();
  }

  /** Draw strokes as a hand would, `pace` units a second; at once where motion is not wanted. */
  async show(strokes, pace = 1.6) {
    this.clear();
    const showing = (this.showing = {});
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    let last = performance.now();
    let room = 0;
    for (const points of strokes) {
      const stroke = [points[0]];
      this.strokes.push(stroke);
      for (const [k, [x, y]] of points.slice(1).entries()) {
        room -= Math.hypot(x - points[k][0], y - points[k][1]);
        stroke.push([x, y]);
        while (room < 0 && !still) {
          this.change();
          const now = await new Promise(requestAnimationFrame);
          if (this.showing !== showing) return;
          room += (Math.max(0, now - last) / 1000) * pace;
          last = now;
        }
      }
    }
    this.change();
  }

  stop() {
    this.showing = null;
    this.pointer = undefined;
    if (this.pen) this.pen.isDown = false;
  }

  change() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = null;
      this.paint();
      this.onchange?.();
    });
  }

  paint() {
    const { canvas } = this;
    const side = Math.round(canvas.clientWidth * devicePixelRatio);
    if (canvas.width !== side) canvas.width = canvas.height = side;
    const context = canvas.getContext("2d");
    context.clearRect(0, 0, side, side);
    context.shadowColor = "rgb(20 5 0 / 0.45)";
    context.shadowBlur = side * 0.012;
    context.shadowOffsetY = side * 0.006;
    this.draw(context, side);
    if (this.pen?.isShown) this.pen.paint(context, side);
  }

  /** The drawing as `side` x `side` bytes, ink being 255. */
  pixels(side) {
    const { small } = this;
    small.canvas.width = small.canvas.height = side;
    this.draw(small, side);
    const { data } = small.getImageData(0, 0, side, side);
    return Uint8Array.from({ length: side * side }, (_, k) => data[4 * k + 3]);
  }

  draw(context, side) {
    Object.assign(context, { lineCap: "round", lineJoin: "round", lineWidth: PEN * side, strokeStyle: INK });
    context.beginPath();
    for (const points of this.strokes) {
      const [first, ...rest] = points.map(([x, y]) => [x * side, y * side]);
      context.moveTo(...first);
      if (!rest.length) context.lineTo(first[0] + 0.01, first[1]);
      rest.forEach(([x, y], k) => {
        const next = rest[k + 1];
        if (next) context.quadraticCurveTo(x, y, (x + next[0]) / 2, (y + next[1]) / 2);
        else context.lineTo(x, y);
      });
    }
    context.stroke();
  }
}
