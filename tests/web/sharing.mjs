// What tests ask of crews in a worker: {task, ...} -> whatever the task tells.
import { Crew } from "/sardonyx/crew.js";
import { Tensor, load } from "/sardonyx/runtime.js";
import { Trial } from "/sardonyx/trial.js";
import { serve } from "/support/worker.mjs";

const COUNT = 300; // images: work that is large enough to be shared
const [HEADER, LAUNCH] = [4, 2]; // words
const feeds = () => ({ image: new Tensor("float32", new Float32Array(784 * COUNT).fill(0.5), [COUNT, 1, 28, 28]) });
const read = async (session) => [...(await session.run(feeds())).probabilities.data];

// Whether all launches of a list at an address are done, by their counters of units taken and done.
function isDone(memory, start) {
  const words = new Int32Array(memory.buffer);
  const [, , counters, end] = words.subarray(start / 4, start / 4 + HEADER);
  let counter = counters / 4;
  for (let at = start / 4 + HEADER; at < end / 4; at += LAUNCH + words[at + 1], counter += 2) {
    if (!Atomics.load(words, counter + 1)) return false;
  }
  return true;
}

const TASKS = {
  // The results of one thread, and those of helpers while this thread only waits for them.
  helped: async ({ threads }) => {
    const single = await load("/data/digits.sdx", { threads: 1 });
    const alone = await read(single);
    const session = await load("/data/digits.sdx", { threads });
    await session.device.joining;
    const { run } = Crew.prototype;
    let count = 0;
    Crew.prototype.run = function (_, start) {
      const wait = () => {
        for (const end = performance.now() + 30_000; !isDone(session.device.memory, start) && performance.now() < end; );
        count += isDone(session.device.memory, start);
      };
      run.call(this, wait, start);
    };
    const helped = await read(session);
    Crew.prototype.run = run;
    [single, session].forEach((each) => each.release());
    return { alone, helped, isDone: count > 0 };
  },

  shared: async () => {
    const told = { sizes: [], workers: [], right: [], end: [] };
    const sessions = [];
    const alone = await load("/data/digits.sdx", { threads: 1 });
    const wanted = String(await read(alone));
    for (const threads of [3, 2, 4]) {
      sessions.push(await load("/data/digits.sdx", { threads }));
      await sessions.at(-1).device.joining;
      told.sizes.push(sessions.at(-1).threads);
      told.workers.push(Crew.here.all.length);
      const answers = await Promise.all([sessions[0], sessions.at(-1)].map(read));
      told.right.push(...answers.map((answer) => String(answer) === wanted));
    }
    await Promise.all(sessions.splice(1).map((session) => session.release()));
    await read(sessions[0]);
    told.end.push(Crew.here.all.length);
    await sessions[0].release();
    told.end.push(Crew.here);
    return told;
  },

  // Of 400 times, how often work is done without help, where every other time is after a rest that makes it `colder`, and
  // the first with help takes longer, too.
  trial: async ({ helped, alone, rest = 0, colder = 0, first = 0 }) => {
    let [now, count, extra, last] = [1000, 0, 0, 0];
    const took = (way, time) => {
      now += time + extra + (way > last ? first : 0);
      last = way;
    };
    performance.now = () => now;
    const trial = new Trial();
    for (let k = 0; k < 400; k++) {
      if (k % 2) now += rest;
      extra = k % 2 ? colder : 0;
      trial.run(() => took(1, helped), () => (took(0, alone), count++));
    }
    delete performance.now;
    return count;
  },
};

serve((message) => TASKS[message.task](message));
