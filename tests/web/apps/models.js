import { InferenceSession, Tensor } from "onnxruntime-web";
import imported from "./digits.onnx?url";

const beside = new URL("./digits.onnx", import.meta.url);

globalThis.answer = async (address) => {
  const known = { imported, beside };
  const bytes = new Uint8Array(await (await fetch(known[address] ?? address)).arrayBuffer()); // as packages do
  const session = await InferenceSession.create(bytes);
  const image = new Tensor("float32", new Float32Array(784).fill(0.5), [1, 1, 28, 28]);
  const { probabilities } = await session.run({ image });
  return [...probabilities.data];
};
