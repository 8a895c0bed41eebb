/** A picture to read, drawn here: a ticket of a museum. */

const LINES = [
  ["600 46px Georgia, serif", "#7d2f1a", "Museum of Stones"],
  ["26px Georgia, serif", "#4a1a0e", "Sardonyx, banded chalcedony"],
  ["26px Georgia, serif", "#4a1a0e", "cut in Dresden, 1874"],
  ["600 30px system-ui, sans-serif", "#2b0f08", "Open daily from 10:00 to 18:00"],
  ["24px ui-monospace, monospace", "#6d574b", "Ticket 20418    12.50 EUR"],
];
const [WIDTH, HEIGHT] = [880, 560];

export function ticket() {
  const canvas = Object.assign(document.createElement("canvas"), { width: WIDTH, height: HEIGHT });
  const brush = canvas.getContext("2d");
  brush.fillStyle = "#f3e9dc";
  brush.fillRect(0, 0, WIDTH, HEIGHT);
  brush.translate(WIDTH / 2, HEIGHT / 2);
  brush.rotate(-0.012);
  brush.translate(-WIDTH / 2, -HEIGHT / 2);
  brush.fillStyle = "#fffdfa";
  brush.fillRect(50, 40, WIDTH - 100, HEIGHT - 80);
  ["#4a1a0e", "#7d2f1a", "#dfb696", "#b4552f"].forEach((band, k) => {
    brush.fillStyle = band;
    brush.fillRect(50, 40 + 9 * k, WIDTH - 100, 9);
  });
  LINES.forEach(([font, color, text], k) => {
    brush.font = font;
    brush.fillStyle = color;
    brush.fillText(text, 104, 160 + 76 * k);
  });
  return canvas;
}
