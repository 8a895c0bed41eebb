// A worker that runs bundles without Python: {cases: [{inputs: [[name, type, dims]]}], target, threads} -> for each
// {outputs: [[type, dims]], target} or {error}. Bundles are /data/<n>.sdx, elements and outputs <n>.<k>.
import { load } from "/sardonyx/runtime.js";
import { serve, stage } from "/support/worker.mjs";
import { given, taken } from "/web/tensors.mjs";

async function run(number, { inputs }, options) {
  const session = await load(`/data/${number}.sdx`, options);
  try {
    const found = await session.run(await taken(inputs, number));
    return { outputs: await given(session.outputs.map(({ name }) => found[name]), number), target: session.target };
  } finally {
    session.release();
  }
}

serve(async ({ cases, target, threads = 1 }) => {
  const answers = [];
  for (const [number, one] of cases.entries()) {
    stage(`case ${number}`);
    answers.push(await run(number, one, { target, threads }).catch((error) => ({ error: error.message })));
  }
  return answers;
});
