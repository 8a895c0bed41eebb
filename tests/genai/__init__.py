"""Text from models, compared with onnxruntime-genai."""
