"""onnxruntime's inner modules, by whose paths scripts reach exceptions and types."""
