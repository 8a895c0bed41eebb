/** A token of the logits of all, as Python's `genai/sampling.py` and `genai/penalties.py` choose it. */

import { exponential } from "./random.js";

const LOWEST = -3.4028234663852886e38; // the logit of a token that must not be chosen

/** Make tokens that occurred less likely; logits above 0 are divided, others multiplied. */
export function dampen(logits, tokens, penalty) {
  const factor = Math.fround(penalty);
  for (const token of new Set(tokens)) {
    if (token in logits) logits[token] = Math.max(logits[token] < 0 ? logits[token] * factor : logits[token] / factor, LOWEST);
  }
}

/** Have no token that would make so many in a row occur for the second time. */
export function unrepeat(logits, tokens, size) {
  const end = tokens.slice(tokens.length - size + 1);
  for (let at = 0; at + size <= tokens.length; at++) {
    if (end.every((token, k) => tokens[at + k] === token)) logits[tokens[at + size - 1]] = LOWEST;
  }
}

/** Have none of these tokens. */
export function forbid(logits, tokens) {
  for (const token of tokens) logits[token] = LOWEST;
}

/** The likeliest token, the first one of those alike. */
export function likeliest(logits) {
  let best = 0;
  for (let token = 1; token < logits.length; token++) if (logits[token] > logits[best]) best = token;
  return best;
}

/** A token that is drawn among the likeliest: `top_k` of them, or of these as few as have `top_p` of all likelihood. */
export function draw(logits, { temperature = 1, top_k = 0, top_p = 1 }, random) {
  const highest = logits[likeliest(logits)];
  const weights = Float64Array.from(logits, (logit) => exponential((logit - highest) / temperature));
  const isLimited = top_k > 1 && top_k < logits.length;
  const isNucleus = top_p > 0 && top_p < 1;
  let tokens = isLimited ? first(logits, highest, (found) => found.length >= top_k).slice(0, top_k) : null;
  if (isNucleus) {
    const enough = top_p * sums(weights, tokens).at(-1);
    tokens ??= first(logits, highest, (found) => sums(weights, found).at(-1) >= enough);
    const place = sums(weights, tokens).findIndex((sum) => sum >= enough);
    if (place >= 0) tokens = tokens.slice(0, place + 1);
  }
  const reached = sums(weights, tokens);
  const wanted = random.next() * reached.at(-1);
  const place = reached.findIndex((sum) => sum > wanted);
  const chosen = place < 0 ? reached.length - 1 : place;
  return tokens ? tokens[chosen] : chosen;
}

/** The weights of tokens, of all without any, added up one after another. */
function sums(weights, tokens) {
  let sum = 0;
  return tokens ? Float64Array.from(tokens, (token) => (sum += weights[token])) : weights.map((weight) => (sum += weight));
}

/** The tokens of the highest logits, from the highest on, of those alike the first ones: at least as many as are enough. */
function first(logits, highest, isEnough) {
  for (let span = 8; ; span *= 4) {
    const found = [];
    for (let token = 0; token < logits.length; token++) if (logits[token] >= highest - span) found.push(token);
    if (found.length === logits.length || isEnough(found)) return found.sort((a, b) => logits[b] - logits[a] || a - b);
  }
}
