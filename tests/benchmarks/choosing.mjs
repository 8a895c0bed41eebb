// Times how the page runtime finds the plan for the sizes of a call; see choosing.py.
//
//   node choosing.mjs JOB.json
import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";

const job = JSON.parse(await readFile(process.argv[2], "utf8"));
const { Graph, Mismatch } = await import(pathToFileURL(job.engine));
const { broken } = await import(pathToFileURL(job.engine.replace("executor.js", "sizes.js")));
const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];

const mismatch = new Mismatch();

// A frame that lays out and binds nothing, but asks what is asked before that.
function frameOf({ plan }) {
  return {
    lend() {},
    lent: { has: () => true },
    enter(number, symbols) {
      if (broken(plan.epochs[number].guards, symbols)) throw mismatch;
      return null;
    },
    address: () => null,
  };
}

const graph = new Graph(job.target.plans, { watch: (act) => act() });
graph.weights = {};
for (const executor of graph.executors) {
  executor.frames.push(frameOf(executor));
  executor.tensor = () => null;
}
const executors = graph.executors;

async function choice(first, second, feeds) {
  const times = [];
  for (let round = 0; round <= job.rounds; round++) {
    let spent = 0;
    for (let run = 0; run < job.runs; run++) {
      graph.executors = second;
      const begun = performance.now();
      const { release } = await graph.call(feeds);
      spent += performance.now() - begun;
      release();
      if (graph.executors[0] !== first) throw new Error("another plan was found");
    }
    times.push((1e3 * spent) / job.runs);
  }
  return median(times.slice(1)); // the first warms up
}

const found = { first: [], last: [] };
for (const [number, shapes] of job.shapes.entries()) {
  if (!shapes) continue;
  const feeds = shapes.map((dims) => ({ dims, data: [] }));
  const others = executors.filter((_, k) => k !== number);
  const mine = executors[number];
  found.first.push(await choice(mine, [mine, ...others], feeds));
  found.last.push(await choice(mine, [...others, mine], feeds));
}
console.log(JSON.stringify({ first: Math.max(...found.first), last: Math.max(...found.last) }));
