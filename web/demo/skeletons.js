/** Digits to be drawn by the page itself: a few points for each stroke guide a curve, y down; a point twice is a corner. */

const BELLY = [[0.98, 0.5], [1, 0.9], [0.5, 1.06], [0.05, 0.86]];
const SKELETONS = [
  [[[0.6, 0], [0.2, 0.02], [0, 0.45], [0.15, 0.98], [0.6, 1.06], [0.97, 0.7], [0.9, 0.15], [0.5, -0.02]]],
  [[[0.25, 0.25], [0.55, 0], [0.55, 0], [0.54, 0.5], [0.55, 1]]],
  [[[0.05, 0.25], [0.3, -0.04], [0.85, -0.02], [0.98, 0.35], [0.6, 0.65], [0.05, 1], [0.05, 1], [0.5, 0.98], [0.97, 0.99]]],
  [[[0.1, 0.12], [0.4, -0.06], [0.95, 0.02], [0.85, 0.4], [0.35, 0.46], [0.35, 0.46], ...BELLY]],
  [[[0.3, 0], [0.08, 0.6], [0.08, 0.6], [0.92, 0.58]], [[0.68, 0.25], [0.66, 0.65], [0.66, 1]]],
  [[[0.22, 0], [0.17, 0.45], [0.17, 0.45], [0.5, 0.33], ...BELLY], [[0.22, 0], [0.55, 0.01], [0.88, 0]]],
  [[[0.72, 0], [0.3, 0.25], [0.05, 0.75], [0.3, 1.06], [0.8, 1.02], [0.92, 0.7], [0.6, 0.45], [0.2, 0.6], [0.1, 0.8]]],
  [[[0.05, 0.03], [0.9, 0], [0.9, 0], [0.55, 0.5], [0.38, 1]]],
  [
    [[0.8, 0.12], [0.5, -0.06], [0.1, 0.05], [0.2, 0.4], [0.7, 0.55], [0.98, 0.85], [0.5, 1.1], [0.02, 0.88], [0.25, 0.55]]
      .concat([[0.75, 0.4], [0.88, 0.1], [0.6, -0.02]]),
  ],
  [
    [[0.92, 0.18], [0.6, -0.05], [0.15, 0.05], [0.08, 0.4], [0.45, 0.58], [0.85, 0.4], [0.92, 0.18], [0.92, 0.18]]
      .concat([[0.88, 0.6], [0.82, 1]]),
  ],
];
const STEPS = 24; // between two points

/** The strokes of a digit on a pad, a little different each time. */
export function strokesOf(digit) {
  const [turn, slant, width] = [(Math.random() - 0.5) * 0.16, (Math.random() - 0.3) * 0.2, 0.36 + Math.random() * 0.06];
  const place = ([x, y]) => {
    const [across, down] = [(x - 0.5) * width - (y - 0.5) * slant * 0.6, (y - 0.5) * 0.6];
    return [0.5 + across - down * turn, 0.5 + down + across * turn];
  };
  return SKELETONS[digit].map((points) => spline(points).map(place));
}

/** The uniform cubic B-spline from the first point to the last. */
function spline(points) {
  const beyond = ([x, y], [u, v]) => [2 * x - u, 2 * y - v];
  const all = [beyond(points[0], points[1]), ...points, beyond(points.at(-1), points.at(-2))];
  const curve = [];
  for (let k = 0; k + 3 < all.length; k++) {
    for (let step = 0; step < STEPS; step++) {
      const t = step / STEPS;
      const weights = [(1 - t) ** 3, 3 * t ** 3 - 6 * t ** 2 + 4, 1 + 3 * t + 3 * t ** 2 - 3 * t ** 3, t ** 3];
      curve.push([0, 1].map((axis) => weights.reduce((sum, weight, i) => sum + (weight / 6) * all[k + i][axis], 0)));
    }
  }
  return [...curve, points.at(-1)];
}
