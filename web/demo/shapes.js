/** Outlines of the shapes that the detector knows, around 0 in a circle of radius 1. */

const ring = (count, radius) =>
  Array.from({ length: count }, (_, k) => {
    const angle = (2 * Math.PI * k) / count - Math.PI / 2;
    return [radius(k) * Math.cos(angle), radius(k) * Math.sin(angle)];
  });

function closed(points) {
  const path = new Path2D();
  points.forEach(([x, y], k) => (k ? path.lineTo(x, y) : path.moveTo(x, y)));
  path.closePath();
  return path;
}

const ARM = 0.33;
const CROSS = [
  [-ARM, -1], [ARM, -1], [ARM, -ARM], [1, -ARM], [1, ARM], [ARM, ARM],
  [ARM, 1], [-ARM, 1], [-ARM, ARM], [-1, ARM], [-1, -ARM], [-ARM, -ARM],
];

const HEART =
  "M0-.45C.2-1.05 1.05-.95 1-.3C.97.15.4.5 0 .95C-.4.5-.97.15-1-.3C-1.05-.95-.2-1.05 0-.45Z";

export const OUTLINES = {
  circle: () => closed(ring(64, () => 1)),
  square: () => closed([[-0.85, -0.85], [0.85, -0.85], [0.85, 0.85], [-0.85, 0.85]]),
  triangle: () => closed([[0, -1], [0.95, 0.75], [-0.95, 0.75]]),
  star: () => closed(ring(10, (k) => (k % 2 ? 0.43 : 1))),
  heart: () => new Path2D(HEART),
  cross: () => closed(CROSS),
};
