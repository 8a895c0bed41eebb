// Tensors that workers of these tests are given at /data/, and give back. Strings are JSON.
import { Tensor } from "/sardonyx/runtime.js";
import { arrayOf } from "/sardonyx/types.js";
import { bytes } from "/support/worker.mjs";

// [[name, type, dims]] -> {name: tensor}: the elements are at /data/<title>.<k>.
export async function taken(inputs, title) {
  const feeds = {};
  for (const [k, [name, type, dims]] of inputs.entries()) {
    feeds[name] = new Tensor(type, await elements(type, `/data/${title}.${k}`), dims);
  }
  return feeds;
}

async function elements(type, address) {
  const data = await bytes(address);
  return type === "string" ? JSON.parse(new TextDecoder().decode(data)) : new (arrayOf(type))(data.buffer);
}

// Posts tensors to /<title>.<k>, and returns their [[type, dims]].
export async function given(tensors, title) {
  const told = [];
  for (const [k, { type, data, dims }] of tensors.entries()) {
    told.push([type, dims]);
    await fetch(`/${title}.${k}`, { method: "POST", body: type === "string" ? JSON.stringify(data) : data });
  }
  return told;
}
