import { InferenceSession, Tensor } from "onnxruntime-web";

globalThis.answer = async (address) => {
  const session = await InferenceSession.create(address);
  const image = new Tensor("float32", new Float32Array(784).fill(0.5), [1, 1, 28, 28]);
  const { probabilities } = await session.run({ image });
  return [...probabilities.data];
};
