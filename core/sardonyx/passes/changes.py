"""The changes that a session's options make to a model before any pass: sizes of dimensions, and initializers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.convert import inward
from sardonyx.common.record import field, record, replace
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Graph, Model, OptionalType, SequenceType, Tensor, TensorType, Value, ValueType


@record
class ModelChanges:
    """What a session changes in a model that it was given: sizes of dimensions, initializers, data files, and outputs
    of which rows are chosen, each by the input that numbers them."""

    names: dict[str, int] = field(default_factory=dict)
    denotations: dict[str, int] = field(default_factory=dict)
    initializers: dict[str, Any] = field(default_factory=dict)
    files: dict[str, Any] = field(default_factory=dict)
    rows: dict[str, str] = field(default_factory=dict)
    wanted: set[str] = field(default_factory=set)
    """Those initializers that the model has to have."""
    folder: str = ""
    """Where the data files of a model are that is given in bytes."""

    def key(self) -> list[Any] | None:
        """A key that is equal for equal changes; None where there are arrays or files."""
        if self.initializers or self.files or self.folder:
            return None
        return [sorted(self.names.items()), sorted(self.denotations.items()), sorted(self.rows.items())]


def change(model: Model, changes: ModelChanges) -> Model:
    """Change a model in place; dimensions and initializers that it does not have are passed over.

    Raises InvalidArgument where a value is not of its initializer's type and shape, or has to be there and is not.
    """
    if unknown := sorted(changes.wanted - {value.name for value in model.graph.initializers}):
        raise InvalidArgument(f"the model has no initializer {unknown[0]!r}, for which an external one was given")
    if changes.names or changes.denotations:
        _override(model.graph, changes)
    for value in model.graph.initializers:
        if value.name in changes.initializers and value.constant is not None:
            value.constant = _replaced(value, value.constant, changes.initializers[value.name])
    if changes.rows:
        from sardonyx.passes.rows import choose_rows  # which decoders alone need

        for output, positions in changes.rows.items():
            choose_rows(model, output, positions)
    return model


def _override(graph: Graph, changes: ModelChanges) -> None:
    """Give the free dimensions of inputs their sizes, and those of the same name anywhere in the graph."""
    names = dict(changes.names)
    for value in graph.inputs:
        for size, said in _dimensions(value.type):
            if isinstance(size, str) and said in changes.denotations:
                names.setdefault(size, changes.denotations[said])
    for value in _values(graph):
        value.type = _sized(value.type, names, changes.denotations if value in graph.inputs else {})


def _dimensions(kind: ValueType | None) -> list[tuple[Any, str]]:
    if not isinstance(kind, TensorType):
        return []
    return [(size, said or "") for size, said in zip_longest(kind.shape or (), kind.dim_denotations)]


def _sized(kind: ValueType | None, names: dict[str, int], denotations: dict[str, int]) -> ValueType | None:
    """A type with these sizes."""
    if isinstance(kind, (OptionalType, SequenceType)):
        return replace(kind, element=_sized(kind.element, names, denotations))
    if not isinstance(kind, TensorType) or kind.shape is None:
        return kind
    shape = [
        size if isinstance(size, int) else denotations.get(said, names.get(size or "", size))
        for size, said in _dimensions(kind)
    ]
    return replace(kind, shape=tuple(shape))


def _values(graph: Graph) -> Iterator[Value]:
    yield from graph.inputs
    yield from graph.outputs
    for node in graph.all_nodes():
        yield from node.outputs


def _replaced(value: Value, tensor: Tensor, replacement: Any) -> Tensor:
    """The constant that replaces an initializer's: of an array or an OrtValue."""
    array = inward(np.asarray(replacement.numpy() if hasattr(replacement, "numpy") else replacement), tensor.dtype)
    stored = np.dtype(object) if tensor.dtype is dtypes.string else tensor.dtype.storage
    if array.dtype != stored or array.shape != tensor.shape:
        wanted = TensorType(tensor.dtype, tensor.shape)
        raise InvalidArgument(f"initializer {value.name!r} is {wanted}, not {array.dtype}{list(array.shape)}")
    return Tensor.of(np.ascontiguousarray(array), tensor.dtype, tensor.name)
