"""Models in files: reading and writing .onnx, and inlining the functions that a model brings along."""

from sardonyx.model.serde.inline import inline_functions
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.writer import save, write

__all__ = ["inline_functions", "read", "save", "write"]
