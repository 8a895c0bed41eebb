"""Models in files: reading and writing .onnx, and inlining the functions that a model brings along."""
