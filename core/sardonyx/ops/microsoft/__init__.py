"""The operators of com.microsoft that onnxruntime's CPU provider has."""
