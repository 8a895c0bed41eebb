"""From an ONNX graph to a plan: trace, partition, fuse, lower, schedule."""
