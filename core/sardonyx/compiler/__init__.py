"""From an ONNX graph to a plan: trace, partition, fuse, lower, schedule; no device is asked to run anything here."""
