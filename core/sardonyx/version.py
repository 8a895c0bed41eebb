"""The version of the package, read by the build and by `sardonyx.__version__`."""

__version__ = "0.1.0"
ONNXRUNTIME = "1.31.1"
"""The release of onnxruntime whose interface this is."""
GENAI = "0.18.0"
"""The release of onnxruntime-genai whose interface `sardonyx.genai` is."""
