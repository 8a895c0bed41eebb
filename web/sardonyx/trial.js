/** Whether help pays: short work is timed with and without, and mostly done the faster way. */

const SHORT = 20; // milliseconds; what takes longer gains by help
const REST = 20; // milliseconds, after which caches are cold
const [FIRST, SELDOM] = [4, 128]; // runs between two trials of the slower way: ever more

export class Trial {
  constructor() {
    this.kinds = [new Times(), new Times()];
    this.ended = 0;
  }

  /** Do the work; what follows a rest is compared with its like. */
  run(helped, alone) {
    const begun = performance.now();
    const times = this.kinds[+(begun - this.ended > REST)];
    const way = times.until ? times.best : 1 - times.best;
    [alone, helped][way]();
    this.ended = performance.now();
    times.took(way, this.ended - begun);
  }
}

/** Of the last runs, without help and with it. */
class Times {
  last = [Infinity, 0];
  best = 1;
  until = FIRST; // runs of the best way
  way; // of the last run
  period = FIRST;

  took(way, time) {
    if (way !== this.way) {
      this.way = way; // what it works on lies in the caches of whoever took the other way: this tells nothing
      return;
    }
    this.last[way] = time;
    const best = +(this.last[1] <= this.last[0]);
    if (best !== this.best) [this.best, this.until, this.period] = [best, FIRST, FIRST];
    else if (way !== best) this.until = this.period = Math.min(SELDOM, 2 * this.period);
    else if (!best || time < SHORT) this.until--;
  }
}
