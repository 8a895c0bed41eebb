// A worker that runs one bundle, /data/turns.sdx, again and again: {cases: [{inputs: [[name, type, dims]]}], kept, target}
// -> for each {outputs: [[type, dims]]} or {error}. Elements and outputs are <n>.<k>. Inputs that a case does not have
// are outputs of the case before it: `kept` has [[input, output]].
import { load } from "/sardonyx/runtime.js";
import { serve, stage } from "/support/worker.mjs";
import { given, taken } from "/web/tensors.mjs";

serve(async ({ cases, kept, target }) => {
  const session = await load("/data/turns.sdx", { target });
  const answers = [];
  let found = {};
  for (const [number, { inputs }] of cases.entries()) {
    stage(`case ${number}`);
    const before = Object.fromEntries(kept.map(([input, output]) => [input, found[output]]));
    try {
      found = await session.run({ ...before, ...(await taken(inputs, number)) });
      answers.push({ outputs: await given(session.outputs.map(({ name }) => found[name]), number) });
    } catch (error) {
      answers.push({ error: error.message });
    }
  }
  session.release();
  return answers;
});
