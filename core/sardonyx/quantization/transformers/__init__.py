"""What there is of onnxruntime.transformers: `float16`."""
