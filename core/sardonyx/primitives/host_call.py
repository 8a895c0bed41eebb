"""The primitive that calls a function of the host (`sardonyx.host`), and conversions between strings and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx import host as functions
from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.common.record import record
from sardonyx.common.strings import active_strings
from sardonyx.primitives.array import Array, Primitive, primitive
from sardonyx.primitives.elementwise import Values, cast, conversion, native
from sardonyx.primitives.trace import active_trace
from sardonyx.sizes.symbolic import Size


class Host(Primitive):
    """Calls the function that `function` names with `attributes`; the run stops for it, and may learn sizes by it."""

    name = "host"
    pure = False
    on_strings = True

    def numpy(
        self,
        *arrays: np.ndarray,
        function: str,
        attributes: Mapping[str, Any],
        types: Sequence[DType],
        results: Sequence[DType],
        symbols: Sequence[Sequence[Any]],
    ) -> Values:
        strings = active_strings()
        if strings is None:
            raise TypeError("host functions are called in a trace, or inside `with StringTable():`")
        return functions.call(function, attributes, list(zip(arrays, types, strict=True)), results, strings)


HOST = primitive(Host)


@record(frozen=True)
class Guess:
    """A size that only the run tells, and the number that it is taken for until then."""

    number: int


def host(
    function: str, *inputs: Array, results: Sequence[tuple[DType, Sequence[Size | Guess | None]]], **attributes: Any
) -> tuple[Array, ...]:
    """The results of a function of the host, with their types and shapes; a size that only the run tells is None, or a
    `Guess`.

    Attributes are what JSON can hold. Where all inputs are known, a pure function is called at once.
    """
    trace = active_trace()
    result_types, symbols = [dtype for dtype, _ in results], []
    params = {
        "function": function,
        "attributes": attributes,
        "types": [x.dtype for x in inputs],
        "results": result_types,
    }
    if all(array.value is not None for array in inputs) and (trace is None or functions.is_pure(function)):
        values = HOST.numpy(*(array.value for array in inputs if array.value is not None), **params, symbols=())
        return tuple(Array(dtype, value.shape, value) for value, dtype in zip(values, result_types, strict=True))
    if trace is None:
        raise TypeError(f"host function {function} needs a trace: some of its inputs are not known")
    shapes: list[list[Size]] = []
    for k, (_, declared) in enumerate(results):
        shapes.append([])
        for axis, size in enumerate(declared):
            if size is None or isinstance(size, Guess):
                shapes[k].append(trace.fresh_symbol(2 if size is None else size.number))
                symbols.append([str(shapes[k][axis]), k, axis])
            else:
                shapes[k].append(size)
    types = [(dtype, tuple(shape)) for dtype, shape in zip(result_types, shapes, strict=True)]
    return trace.append(HOST, inputs, {**params, "symbols": symbols}, types)


@conversion(lambda source, target: dtypes.string in (source, target))
def cast_strings(x: Array, dtype: DType) -> Array:
    """Strings that become numbers, or numbers that become strings."""
    return of_strings(x, dtype) if x.dtype is dtypes.string else to_strings(x)


def to_strings(x: Array) -> Array:
    """Numbers as ONNX's Cast writes them; narrow floats as their float32 value."""
    return host("text.from_numbers", native(x), results=[(dtypes.string, x.shape)])[0]


def of_strings(x: Array, dtype: DType) -> Array:
    """The numbers that strings say, as ONNX's Cast reads them."""
    target = dtype if dtype.is_native else dtypes.float32 if dtype.is_float else dtypes.int32
    return cast(host("text.to_numbers", x, results=[(target, x.shape)], type=target.name)[0], dtype)
