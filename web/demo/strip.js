/** The levels of the last seconds, as bars; those of a voice are coloured. */

const BARS = 125; // of 96 ms
const GAP = 0.35; // of a bar
const FLOOR = -54; // decibels of the lowest bar

export class Strip {
  /** The elements beside it have, before them, the colours. */
  constructor(canvas, voiced, other) {
    this.canvas = canvas;
    this.keys = [other, voiced];
    this.bars = [];
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  clear() {
    this.bars = [];
    this.draw();
  }

  add(level, isVoice) {
    const height = Math.max(0.02, 1 - (20 * Math.log10(level + 1e-9)) / FLOOR);
    this.bars = [...this.bars, { height: Math.min(1, height), isVoice }].slice(-BARS);
    this.draw();
  }

  draw() {
    const { canvas, bars } = this;
    const scale = globalThis.devicePixelRatio ?? 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    [canvas.width, canvas.height] = [Math.round(width * scale), Math.round(height * scale)];
    const brush = canvas.getContext("2d");
    brush.scale(scale, scale);
    const colors = this.keys.map((key) => getComputedStyle(key, "::before").backgroundColor);
    const room = width / BARS;
    bars.forEach((bar, k) => {
      const tall = bar.height * (height - 24);
      brush.globalAlpha = bar.isVoice ? 1 : 0.45;
      brush.fillStyle = colors[Number(bar.isVoice)];
      brush.beginPath();
      brush.roundRect(width - (bars.length - k) * room, (height - tall) / 2, room * (1 - GAP), tall, room / 3);
      brush.fill();
    });
  }
}
