/** How training goes: the loss, and the share that is recognised, round by round. */

const [WIDE, HIGH, MARGIN] = [600, 140, 10];
const SVG = "http://www.w3.org/2000/svg";

export class Curve {
  constructor(figure, rounds) {
    this.figure = figure;
    this.rounds = rounds;
    this.title = figure.querySelector("title");
    const svg = figure.querySelector("svg");
    [this.loss, this.right] = ["loss", "right"].map((name) => {
      const line = document.createElementNS(SVG, "polyline");
      line.classList.add(name);
      svg.append(line);
      return line;
    });
  }

  /** Draw rounds, `{ loss, right }`. */
  show(told) {
    const most = Math.max(...told.map(({ loss }) => loss));
    const points = (values) => values.map((value, k) => `${this.across(k)},${HIGH - MARGIN - value * (HIGH - 2 * MARGIN)}`).join(" ");
    this.loss.setAttribute("points", points(told.map(({ loss }) => loss / most)));
    this.right.setAttribute("points", points(told.map(({ right }) => right)));
    const { loss, right } = told.at(-1);
    this.title.textContent = `Round ${told.length} of ${this.rounds}: loss ${loss.toFixed(2)}, ${Math.round(100 * right)} % recognised`;
    this.figure.hidden = false;
  }

  across(round) {
    return (MARGIN + (round * (WIDE - 2 * MARGIN)) / (this.rounds - 1)).toFixed(1);
  }
}
