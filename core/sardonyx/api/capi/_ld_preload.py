"""Where onnxruntime would load libraries beforehand; there is nothing to load."""
