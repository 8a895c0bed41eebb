"""Operators that ONNX offers for trial: ai.onnx.preview and what lies below it."""
