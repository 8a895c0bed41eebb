/** Random numbers that a seed decides, and exponentials, to the last bit as Python's `genai/random.py` has them. */

const LOG2_E = 1.4426950408889634;
const [LN2_HIGH, LN2_LOW] = [0.6931471803691238, 1.9082149292705877e-10]; // the first 33 bits, and the rest
const SMALLEST = -708; // below it an exponential is 0
const DEGREE = 13;

/** xoshiro128++, whose seed is spread by splitmix32. */
export class Random {
  constructor(seed) {
    const high = Math.floor(seed / 2 ** 32) >>> 0;
    let state = ((seed >>> 0) ^ high) >>> 0;
    this.state = Uint32Array.from({ length: 4 }, () => {
      state = (state + 0x9e3779b9) >>> 0;
      let word = Math.imul(state ^ (state >>> 16), 0x21f0aaad);
      word = Math.imul(word ^ (word >>> 15), 0x735a2d97);
      return word ^ (word >>> 15);
    });
  }

  /** The next 32 bits. */
  bits() {
    const s = this.state;
    const total = (s[0] + s[3]) >>> 0;
    const result = (((total << 7) | (total >>> 25)) + s[0]) >>> 0;
    const shifted = s[1] << 9;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = (s[3] << 11) | (s[3] >>> 21);
    return result;
  }

  /** The next number of [0, 1). */
  next() {
    const [high, low] = [this.bits() >>> 5, this.bits() >>> 6];
    return (high * 67108864 + low) / 9007199254740992;
  }
}

const words = new Uint32Array(2);
const number = new Float64Array(words.buffer);

/** e to the power of a number that is 0 or less. */
export function exponential(x) {
  if (x < SMALLEST) return 0;
  const power = Math.floor(x * LOG2_E + 0.5);
  const rest = x - power * LN2_HIGH - power * LN2_LOW;
  let result = 1;
  for (let n = DEGREE; n > 0; n--) result = (result * rest) / n + 1;
  words[1] = (power + 1023) << 20; // 2 ** power, which Math.pow may round
  return result * number[0];
}
