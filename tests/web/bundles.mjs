// A worker that runs bundles without Python: {cases: [{inputs: [[name, type, dims]]}], target, threads} -> for each
// {outputs: [[type, dims]], target} or {error}. Bundles are /data/<n>.sdx, elements /data/<n>.<k>, strings as JSON;
// outputs are posted to /<n>.<k>.
import { Tensor, load } from "/sardonyx/runtime.js";
import { arrayOf } from "/sardonyx/types.js";
import { bytes, serve, stage } from "/support/worker.mjs";

const elements = async (type, address) => {
  const data = await bytes(address);
  return type === "string" ? JSON.parse(new TextDecoder().decode(data)) : new (arrayOf(type))(data.buffer);
};

async function run(number, { inputs }, options) {
  const session = await load(`/data/${number}.sdx`, options);
  try {
    const feeds = {};
    for (const [k, [name, type, dims]] of inputs.entries()) {
      feeds[name] = new Tensor(type, await elements(type, `/data/${number}.${k}`), dims);
    }
    const found = await session.run(feeds);
    const outputs = [];
    for (const [k, { name }] of session.outputs.entries()) {
      const { type, data, dims } = found[name];
      outputs.push([type, dims]);
      await fetch(`/${number}.${k}`, { method: "POST", body: type === "string" ? JSON.stringify(data) : data });
    }
    return { outputs, target: session.target };
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
