"""What there is of onnxruntime.transformers: `float16`, `TypeHelper`, and the names of what fuses models beforehand."""
