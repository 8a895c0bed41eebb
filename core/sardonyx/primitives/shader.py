"""The primitive whose elements GPUs compute by WGSL that is given with it, and others by a function of the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx import host as functions
from sardonyx.common.dtypes import DType
from sardonyx.common.strings import StringTable
from sardonyx.primitives.array import Array, Primitive, primitive
from sardonyx.primitives.binding import bind
from sardonyx.primitives.elementwise import Types, Values, broadcast_shapes
from sardonyx.primitives.host_call import host


class ShaderMap(Primitive):
    """Operands that broadcast, element by element, to one result of `result`.

    `body` is that of a function of WGSL whose parameters are called `names`, and then as the `values`, constants.
    `function` is that of the host which gives the same for whole arrays, with `attributes`.
    """

    name = "shader_map"

    def infer(self, *operands: Array, result: DType, **params: Any) -> Types:
        return [(result, broadcast_shapes(*(x.shape for x in operands)))]

    def numpy(
        self,
        *arrays: np.ndarray,
        result: DType,
        function: str,
        attributes: Mapping[str, Any],
        types: Sequence[DType],
        **params: Any,
    ) -> Values:
        return functions.call(function, attributes, list(zip(arrays, types, strict=True)), [result], StringTable())

    def expand(
        self, *operands: Array, result: DType, function: str, attributes: Mapping[str, Any], **params: Any
    ) -> Sequence[Array]:
        shape = broadcast_shapes(*(x.shape for x in operands))
        return host(function, *operands, results=[(result, shape)], **attributes)


SHADER_MAP = primitive(ShaderMap)


def shader_map(
    operands: Sequence[Array],
    result: DType,
    *,
    body: str,
    names: Sequence[str],
    values: Mapping[str, float],
    function: str,
    attributes: Mapping[str, Any],
) -> Array:
    """The result of `ShaderMap`."""
    types = [x.dtype for x in operands]
    params = {"body": body, "names": list(names), "values": dict(values), "function": function}
    return bind(SHADER_MAP, *operands, result=result, **params, attributes=dict(attributes), types=types)[0]
