"""What execution providers of onnxruntime ask of quantized models."""
