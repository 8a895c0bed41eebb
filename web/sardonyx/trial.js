/** Whether help pays: short work is timed with and without, and mostly done the faster way. */

const SHORT = 20; // milliseconds; what takes longer gains by help
const [FIRST, SELDOM] = [4, 64]; // runs between two without help: ever more of them
const MOST = 32; // runs without help, before it is tried again

export class Trial {
  constructor() {
    this.until = FIRST; // more runs, until the next without help
    this.period = FIRST;
    this.left = 0; // runs without help to come, since help did not pay
    this.pause = 1;
    this.alone = Infinity;
  }

  /** Do the work, by one of two functions. */
  run(helped, alone) {
    const isAlone = this.left > 0 || this.until <= 0;
    const begun = performance.now();
    (isAlone ? alone : helped)();
    const took = performance.now() - begun;
    if (isAlone) this.without(took);
    else this.with(took);
  }

  without(took) {
    this.alone = took;
    this.left = Math.max(0, this.left - 1);
    if (this.until <= 0) this.period = Math.min(SELDOM, 2 * this.period);
    this.until = this.period;
  }

  with(took) {
    if (took < SHORT) this.until--;
    if (took <= this.alone) this.pause = 1;
    else {
      this.left = this.pause;
      this.pause = Math.min(MOST, 2 * this.pause);
    }
  }
}
