/** Lines of text: where they are, in which order, and what they say. */

/** The boxes [left, top, right, bottom] of pixels that are set and touch by a side. */
export function regions(mask, width, height) {
  const seen = Uint8Array.from(mask);
  const boxes = [];
  for (let start = 0; start < seen.length; start++) {
    if (!seen[start]) continue;
    const box = [width, height, 0, 0];
    const open = [start];
    seen[start] = 0;
    while (open.length) {
      const at = open.pop();
      const [x, y] = [at % width, Math.floor(at / width)];
      box[0] = Math.min(box[0], x);
      box[1] = Math.min(box[1], y);
      box[2] = Math.max(box[2], x + 1);
      box[3] = Math.max(box[3], y + 1);
      for (const [next, isThere] of [[at - 1, x > 0], [at + 1, x < width - 1], [at - width, y > 0], [at + width, y < height - 1]]) {
        if (!isThere || !seen[next]) continue;
        seen[next] = 0;
        open.push(next);
      }
    }
    boxes.push(box);
  }
  return boxes;
}

/** The letters of one step after another; of letters that repeat one is left, and no blanks (CTC). */
export function spelled(shares, letters) {
  const count = letters.length;
  let [text, sum, steps, last] = ["", 0, 0, 0];
  for (let at = 0; at < shares.length; at += count) {
    let best = 0;
    for (let k = 1; k < count; k++) if (shares[at + k] > shares[at + best]) best = k;
    if (best) {
      sum += shares[at + best];
      steps++;
      if (best !== last) text += letters[best];
    }
    last = best;
  }
  return { text: text.trim(), share: text.trim() ? sum / steps : 0 };
}

/** Boxes by lines, and in a line from left to right. */
export function inOrder(boxes) {
  const heights = boxes.map(([, top, , bottom]) => bottom - top).sort((a, b) => a - b);
  const tall = heights[heights.length >> 1] || 1;
  const row = ([, top, , bottom]) => Math.round((top + bottom) / tall);
  return boxes.sort((a, b) => row(a) - row(b) || a[0] - b[0]);
}
