/** Drawings of three kinds, a little different each time, for who wants to see it learn before drawing. */

const STEPS = 40;
const SHAPES = {
  circle: () => [arc(0, 2 * Math.PI)],
  zigzag: () => [lines([-1, 0.5], [-0.6, -0.6], [-0.2, 0.6], [0.2, -0.6], [0.6, 0.6], [1, -0.5])],
  house: () => [lines([-0.8, 1], [-0.8, -0.1], [0, -1], [0.8, -0.1], [0.8, 1], [-0.8, 1])],
};

export const NAMES = Object.keys(SHAPES);

/** The strokes of a drawing of a kind, on a pad of side 1. */
export function doodle(name) {
  const between = (low, high) => low + Math.random() * (high - low);
  const [turn, wide, high] = [between(-0.25, 0.25), between(0.2, 0.32), between(0.2, 0.32)];
  const [x, y] = [between(0.42, 0.58), between(0.42, 0.58)];
  const [first, second] = [between(0, 6), between(0, 6)];
  const place = ([u, v]) => {
    const [a, b] = [u + 0.07 * Math.sin(2 * v + first), v + 0.07 * Math.sin(2 * u + second)];
    return [x + wide * (a * Math.cos(turn) - b * Math.sin(turn)), y + high * (a * Math.sin(turn) + b * Math.cos(turn))];
  };
  return SHAPES[name]().map((points) => points.map(place));
}

function arc(from, to) {
  return Array.from({ length: STEPS + 1 }, (_, k) => from + ((to - from) * k) / STEPS).map((angle) => [Math.cos(angle), Math.sin(angle)]);
}

function lines(...corners) {
  const between = ([a, b], [c, d]) => Array.from({ length: 12 }, (_, k) => [a + ((c - a) * k) / 12, b + ((d - b) * k) / 12]);
  return [...corners.slice(1).flatMap((corner, k) => between(corners[k], corner)), corners.at(-1)];
}
