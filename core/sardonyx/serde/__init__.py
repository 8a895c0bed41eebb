"""Models in files: reading and writing .onnx, and inlining the functions that a model brings along."""

from sardonyx.serde.inline import inline_functions
from sardonyx.serde.reader import read
from sardonyx.serde.writer import save, write

__all__ = ["inline_functions", "read", "save", "write"]
