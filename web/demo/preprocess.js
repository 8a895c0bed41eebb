/** From grey pixels to the input of the digits model, as `sardonyx.demo.digits` does it in Python, step by step. */

export const SIDE = 28;
const BOX = 20; // the longer side of the digit
const DRIFT = 4; // how far the centre of mass may push the box off the middle
const [FLOOR, CEILING] = [0.25, 0.75]; // of the contrast: below is paper, above is full ink
const FAINTEST = 16; // the least difference from paper that can be full ink
const SPECK = 0.002; // the share of the ink that the box ignores at each side

/** Float32Array of 28 x 28 in 0..1, from a picture of one digit with a byte for each pixel; zeros if it is empty. */
export function digitOf(gray, width, height) {
  const ink = inkOf(gray, width, height);
  const result = new Float32Array(SIDE * SIDE);
  const rows = new Float64Array(height);
  const columns = new Float64Array(width);
  ink.forEach((value, k) => {
    rows[Math.floor(k / width)] += value;
    columns[k % width] += value;
  });
  if (!rows.some(Boolean)) return result;
  const [y, x] = [extent(rows), extent(columns)];
  const step = Math.max(y.stop - y.start, x.stop - x.start) / BOX;
  const down = sampler(height, y, step);
  const across = sampler(width, x, step);
  let most = 0;
  for (let i = 0; i < SIDE; i++) {
    for (let j = 0; j < SIDE; j++) {
      let sum = 0;
      for (const [row, weight] of down[i]) {
        for (const [column, share] of across[j]) sum += weight * share * ink[row * width + column];
      }
      result[i * SIDE + j] = sum;
      most = Math.max(most, sum);
    }
  }
  return result.map((value) => value / most);
}

/** How much ink each pixel holds, 0..1: its distance from the paper, which is the median of the outermost pixels. */
function inkOf(gray, width, height) {
  const edge = [];
  for (let x = 0; x < width; x++) edge.push(gray[x], gray[(height - 1) * width + x]);
  for (let y = 0; y < height; y++) edge.push(gray[y * width], gray[(y + 1) * width - 1]);
  edge.sort((a, b) => a - b);
  const paper = (edge[edge.length / 2 - 1] + edge[edge.length / 2]) / 2;
  let [least, most] = [0, 0];
  for (const value of gray) [least, most] = [Math.min(least, value - paper), Math.max(most, value - paper)];
  const sign = -least > most ? -1 : 1;
  const scale = sign / Math.max(most, -least, FAINTEST);
  return Float64Array.from(gray, (value) => clamp(((value - paper) * scale - FLOOR) / (CEILING - FLOOR), 0, 1));
}

/** Start, stop and centre of the ink along an axis; the centre stays near the middle. */
function extent(profile) {
  const total = [];
  let [sum, moment] = [0, 0];
  profile.forEach((value, k) => {
    total.push((sum += value));
    moment += value * (k + 0.5);
  });
  const first = (share) => total.findIndex((each) => each >= share * sum);
  return { start: first(SPECK), stop: first(1 - SPECK) + 1, centre: moment / sum };
}

/** For each of 28 pixels the pixels of an axis of `size` that it averages, `[number, weight]`. */
function sampler(size, { start, stop, centre }, step) {
  const width = Math.max(step, 1);
  const middle = clamp(centre, (start + stop) / 2 - DRIFT * step, (start + stop) / 2 + DRIFT * step);
  return Array.from({ length: SIDE }, (_, k) => {
    const begin = middle + (k + 0.5 - SIDE / 2) * step - width / 2;
    const weights = [];
    for (let pixel = Math.max(0, Math.floor(begin)); pixel < Math.min(size, begin + width); pixel++) {
      const overlap = Math.min(begin + width, pixel + 1) - Math.max(begin, pixel);
      if (overlap > 0) weights.push([pixel, overlap / width]);
    }
    return weights;
  });
}

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
