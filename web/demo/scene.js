/** The sample: shapes that drift over a desk, drawn anew for each frame. */

import { OUTLINES } from "./shapes.js";

export const [WIDE, HIGH] = [640, 480];
const INK = ["#1d2b4f", "#b3261e", "#1b6e53", "#8a5a00", "#5b2a86", "#20160f"];

// Shape, radius in pixels, whether it is filled, a colour, its place and how fast it goes round there, in turns a minute.
const SHAPES = [
  { name: "heart", radius: 62, filled: true, ink: 1, x: 150, y: 130, wide: 70, high: 40, pace: 3.1, swing: 0.35 },
  { name: "star", radius: 74, filled: false, ink: 0, x: 470, y: 140, wide: 80, high: 46, pace: -2.3, spin: 1.6 },
  { name: "circle", radius: 46, filled: false, ink: 2, x: 320, y: 250, wide: 60, high: 60, pace: 2.7, spin: 0 },
  { name: "square", radius: 58, filled: true, ink: 3, x: 140, y: 350, wide: 60, high: 44, pace: -1.9, spin: -1.1 },
  { name: "triangle", radius: 60, filled: true, ink: 4, x: 330, y: 396, wide: 110, high: 22, pace: 1.7, swing: 0.5 },
  { name: "cross", radius: 56, filled: false, ink: 5, x: 520, y: 350, wide: 56, high: 52, pace: 2.2, spin: 0.9 },
];

export class Scene {
  constructor(canvas) {
    this.canvas = Object.assign(canvas, { width: WIDE, height: HIGH });
    this.brush = canvas.getContext("2d");
    this.desk = desk();
  }

  start() {
    this.stop();
    const begun = performance.now();
    const draw = (now) => {
      this.draw((now - begun) / 60_000);
      this.asked = requestAnimationFrame(draw);
    };
    this.draw(0);
    this.asked = requestAnimationFrame(draw);
  }

  stop() {
    cancelAnimationFrame(this.asked);
  }

  /** The scene after so many minutes. */
  draw(minutes) {
    const { brush } = this;
    brush.drawImage(this.desk, 0, 0);
    for (const { name, radius, filled, ink, x, y, wide, high, pace, spin, swing } of SHAPES) {
      const angle = 2 * Math.PI * (pace * minutes + ink / SHAPES.length);
      brush.save();
      brush.translate(x + wide * Math.cos(angle), y + high * Math.sin(angle));
      brush.rotate(swing ? swing * Math.sin(3 * angle) : 2 * Math.PI * 3 * spin * minutes);
      brush.scale(radius, radius);
      Object.assign(brush, { fillStyle: INK[ink], strokeStyle: INK[ink], lineWidth: 0.14, lineJoin: "round" });
      const path = OUTLINES[name]();
      if (filled) brush.fill(path);
      else brush.stroke(path);
      brush.restore();
    }
  }
}

/** What shapes lie on: paper with rules, on wood. */
function desk() {
  const canvas = new OffscreenCanvas(WIDE, HIGH);
  const brush = canvas.getContext("2d");
  brush.fillStyle = "#7d5a41";
  brush.fillRect(0, 0, WIDE, HIGH);
  brush.save();
  brush.translate(WIDE / 2, HIGH / 2);
  brush.rotate(-0.04);
  brush.fillStyle = "#f6f0e4";
  brush.fillRect(-296, -222, 592, 444);
  brush.strokeStyle = "#d9cfbd";
  for (let y = -180; y < 220; y += 36) {
    brush.beginPath();
    brush.moveTo(-296, y);
    brush.lineTo(296, y);
    brush.stroke();
  }
  brush.restore();
  const light = brush.createLinearGradient(0, 0, WIDE, HIGH);
  light.addColorStop(0, "rgb(255 244 220 / 0.16)");
  light.addColorStop(1, "rgb(40 20 0 / 0.24)");
  brush.fillStyle = light;
  brush.fillRect(0, 0, WIDE, HIGH);
  return canvas;
}
