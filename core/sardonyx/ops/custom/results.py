"""The results of host functions: their types and shapes, declared or found by a trial, and their conversion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.convert import inward, outward
from sardonyx.common.dtypes import DType
from sardonyx.common.strings import StringTable, active_strings
from sardonyx.model.ir import TensorType
from sardonyx.primitives.array import Array
from sardonyx.primitives.host_call import Guess
from sardonyx.primitives.trace import TooEarlyError, active_trace
from sardonyx.sizes.symbolic import Size, hint

Results: TypeAlias = list[tuple[DType, tuple[Size | Guess | None, ...]]]
Infer: TypeAlias = Callable[..., Any]


def results_of(
    function: Callable[..., Any],
    inputs: Sequence[Array | None],
    attributes: dict[str, Any],
    results: Results | None,
    infer: Infer | None,
) -> Results:
    """The types and shapes of a function's results; sizes that only the run determines are None, or guesses."""
    if infer is not None:
        inferred = infer(*inputs, **attributes)
        pairs = [inferred] if isinstance(inferred, tuple) else inferred
        results = [(as_dtype(dtype), tuple(shape)) for dtype, shape in pairs]
    if results is not None:
        return [(dtype, _guessed(shape, inputs)) for dtype, shape in results]
    return _tried(function, inputs, attributes)


def _guessed(shape: Sequence[Size | Guess | None], inputs: Sequence[Array | None]) -> tuple[Size | Guess | None, ...]:
    """A shape whose unknown sizes are taken for those of the first input of that rank, until a run tells."""
    like = next((x.shape for x in inputs if x is not None and x.rank == len(shape)), None)
    if like is None:
        return tuple(shape)
    return tuple(Guess(hint(other)) if size is None else size for size, other in zip(shape, like, strict=True))


def parsed(text: str) -> tuple[DType, tuple[Size | Guess | None, ...]]:
    """`float32[?,3]`; a name of a size is as good as `?`. Raises TypeError where there is no type or no rank."""
    from sardonyx.model.ir.text.types import TypeParser

    kind = TypeParser(text).type()
    if not isinstance(kind, TensorType) or kind.dtype is None or kind.shape is None:
        raise TypeError(f"{text!r} is no type of a tensor with its rank; write float32[?,3]")
    return kind.dtype, tuple(size if isinstance(size, int) else None for size in kind.shape)


def _tried(function: Callable[..., Any], inputs: Sequence[Array | None], attributes: dict[str, Any]) -> Results:
    """The types and shapes that a trial gives, on the elements of this call, or on zeros where they are unknown."""
    trace = active_trace()
    if trace is not None and trace.early:
        raise TooEarlyError
    arrays = [None if x is None else outward(_elements(x), x.dtype, active_strings() or StringTable()) for x in inputs]
    try:
        with np.errstate(all="ignore"):
            outputs = listed(function(*arrays, **attributes))
    except Exception as error:
        raise NotImplementedError(
            f"a trial on zeros, for the types of the results, ended with {type(error).__name__}: {error}; "
            "give custom_op their types=, or infer="
        ) from error
    return [(dtypes.of(each.dtype), tuple(map(Guess, each.shape))) for each in outputs]


def _elements(array: Array) -> np.ndarray:
    """The elements in the engine's storage, if they are known, or zeros."""
    if array.value is not None:
        return array.value
    trace = active_trace()
    shape = tuple(map(hint, array.shape))
    if array.dtype is dtypes.string:
        strings = active_strings() or StringTable()
        return strings.encode(np.full(shape, "", object))
    value = trace.value_in_this_call(array) if trace is not None else None
    return np.zeros(shape, array.dtype.storage) if value is None else value


def as_dtype(dtype: Any) -> DType:
    """An element type by its name, by NumPy's type or as it is."""
    if isinstance(dtype, DType):
        return dtype
    return dtypes.by_name(dtype) if isinstance(dtype, str) else dtypes.of(np.dtype(dtype))


def listed(outputs: Any) -> list[np.ndarray]:
    """A function's results as a list of arrays."""
    return [np.asarray(each) for each in (outputs if isinstance(outputs, (tuple, list)) else [outputs])]


def arrays_for(arrays: Sequence[np.ndarray], taken: Sequence[str], present: Sequence[bool]) -> list[np.ndarray | None]:
    """The arguments of a function, None for inputs that are left out; `ml_dtypes` where NumPy lacks a type."""
    operands = (
        array if name == "string" else outward(array, dtypes.by_name(name), StringTable())
        for array, name in zip(arrays, taken, strict=True)
    )
    return [next(operands) if there else None for there in present]


def stored(outputs: Any, names: Sequence[str]) -> list[np.ndarray]:
    """A function's results in the engine's storage, as the element types of these names."""
    return [inward(array, dtypes.by_name(name)) for array, name in zip(listed(outputs), names, strict=False)]
