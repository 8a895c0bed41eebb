"""The model that blocks build upon, while a `with` lasts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sardonyx.errors import Fail
from sardonyx.model.ir import Graph, Model
from sardonyx.quantization.proto import as_model, as_proto
from sardonyx.training.draft import Draft

NEWEST = 17
"""The operator set of a model that begins empty, where none is asked for."""


class ModelAccessor:
    """What `base` and `empty_base` give: the model as it is now."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft

    @property
    def model(self) -> Any:
        """The model as a ModelProto, a copy; it needs the package `onnx`."""
        return as_proto(self.draft.model)


_open: list[ModelAccessor] = []


def draft() -> Draft:
    """The model that blocks build upon. Raises Fail outside of `base` and `empty_base`."""
    if not _open:
        raise Fail("a block builds upon a model: call it in `with onnxblock.base(model):` or `onnxblock.empty_base()`")
    return _open[-1].draft


@contextmanager
def base(model: Any, model_path: str | None = None) -> Iterator[ModelAccessor]:
    """Have blocks build upon a copy of a model: a path, bytes or a ModelProto."""
    with _opened(Draft(as_model(model if model_path is None else model_path))) as accessor:
        yield accessor


@contextmanager
def empty_base(opset_version: int | None = None) -> Iterator[ModelAccessor]:
    """Have blocks build upon an empty model of this operator set."""
    with _opened(Draft(Model(Graph(name="graph"), {"": opset_version or NEWEST}))) as accessor:
        yield accessor


@contextmanager
def _opened(given: Draft) -> Iterator[ModelAccessor]:
    if _open:
        raise Fail("blocks build upon a model already; one `with onnxblock.base(...)` cannot stand in another")
    _open.append(ModelAccessor(given))
    try:
        yield _open[-1]
    finally:
        _open.clear()
