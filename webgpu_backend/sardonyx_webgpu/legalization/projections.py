"""Products of one input that become one, such as those that give queries, keys and values; the results are views."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.common.record import field, record
from sardonyx.compiler.legalization.channels_last import are_floats
from sardonyx.compiler.rewriting import Rewriter, in_order
from sardonyx.primitives.array import Array, Equation
from sardonyx.primitives.trace import Trace
from sardonyx.sizes.symbolic import Size, product

_MOVES = frozenset({"reshape", "transpose", "cast"})
_READERS = frozenset({"reshape", "transpose", "slice", "concat", "attention", "dot_general"})
"""What reads results from memory. Element-wise primitives alone are better off as the end of a product of their own."""


@record
class Projection:
    """The product of an input and a constant matrix, with what is done to the result that can be done to the matrix.

    `result` is the Array that is a part of the common product; `absorbed` are equations up to it, and `scalings` those
    after it that the matrix does instead. `biases` have a row of elements each.
    """

    equation: Equation
    result: Array
    absorbed: list[Equation] = field(default_factory=list)
    scalings: list[Equation] = field(default_factory=list)
    scale: float = 1.0
    biases: list[Array] = field(default_factory=list)

    @property
    def columns(self) -> Size:
        return self.result.shape[-1]

    @property
    def matrix(self) -> Array:
        """The weights [K, N]."""
        b = self.equation.inputs[1]
        weights = b if self.equation.params["contract"][1] == (0,) else p.transpose(b, [1, 0])
        return weights if self.scale == 1.0 else weights * self.scale

    def vector(self) -> Array:
        """What is added to all rows [N]."""
        if not self.biases:
            return Array(self.result.dtype, (self.columns,), np.zeros(int(self.columns), self.result.dtype.storage))
        first, *others = (p.reshape(bias, (self.columns,)) for bias in self.biases)
        total = sum(others, first)
        return total if self.scale == 1.0 else total * self.scale


class Projections(Rewriter):
    """Merges the projections of a trace that are of these ONNX nodes, if their weights have `most` bytes together."""

    def __init__(self, trace: Trace, origins: Collection[int], most: float) -> None:
        super().__init__(trace)
        self.origins = origins
        self.most = most
        self.readers: dict[Array, list[Equation]] = defaultdict(list)
        for equation in trace.equations:
            for array in dict.fromkeys(equation.inputs):
                self.readers[array].append(equation)
        self.outputs = set(trace.outputs)

    def merge(self) -> None:
        groups: dict[tuple[Array, int, str], list[Projection]] = defaultdict(list)
        for equation in self.trace.equations:
            if equation.origin in self.origins and (projection := self._projection(equation)) is not None:
                a, b = equation.inputs
                groups[a, equation.params["contract"][0][0], b.dtype.name].append(projection)
        firsts = {group[0].equation: group for group in groups.values() if len(group) > 1 and self._fit(group)}
        if not firsts:
            return
        members = [each for group in firsts.values() for each in group]
        absorbed = {equation for each in members for equation in [each.equation, *each.absorbed]}
        scalings = {equation for each in members for equation in each.scalings}

        def rewrite(equation: Equation) -> bool:
            if (group := firsts.get(equation)) is not None:
                self._write(group)
            if equation in scalings:
                (output,) = equation.outputs
                self.define_reshaped(output, next(x for x in equation.inputs if x.value is None))
                return True
            return equation in absorbed

        self.run(rewrite)
        self.trace.equations = in_order(self.trace.equations)

    def _fit(self, group: Sequence[Projection]) -> bool:
        weights = [each.equation.inputs[1] for each in group]
        return sum(int(b.size) * b.dtype.itemsize for b in weights) <= self.most

    def _write(self, group: Sequence[Projection]) -> None:
        a = group[0].equation.inputs[0]
        axis = group[0].equation.params["contract"][0]
        dtype = group[0].equation.params["dtype"]
        common = p.dot_general(a, p.concat([each.matrix for each in group], 1), (axis, [0]), dtype=dtype)
        if any(each.biases for each in group):
            common = common + p.concat([each.vector() for each in group], 0)
        start: Size = 0
        for each in group:
            self.define_reshaped(each.result, p.slice_axis(common, common.rank - 1, start, each.columns))
            start = start + each.columns

    def _projection(self, equation: Equation) -> Projection | None:
        if equation.primitive.name != "dot_general":
            return None
        a, b = equation.inputs
        params = equation.params
        plain = b.rank == 2 and len(params["contract"][0]) == 1 and are_floats(a, b) and params["dtype"].is_float
        if not plain or self.is_constant(a) or not self.is_constant(b):
            return None
        projection = Projection(equation, equation.outputs[0])
        at, moved = equation.outputs[0], False
        while (reader := self._only_reader(at)) is not None:
            (output,) = reader.outputs
            if reader.primitive.name in _MOVES:
                moved = True
            elif at.dtype is b.dtype and (scale := self._scale(reader, at)) is not None:
                projection.scale *= scale
                (projection.scalings if moved else projection.absorbed).append(reader)
            elif not moved and projection.scale == 1.0 and (bias := self._bias(reader, at)) is not None:
                projection.biases.append(bias)
                projection.absorbed.append(reader)
            else:
                break
            if not moved:
                projection.result = output
            at = output
        readers = self.readers[at]
        return projection if any(reader.primitive.name in _READERS for reader in readers) else None

    def _only_reader(self, array: Array) -> Equation | None:
        """What reads an Array, if nothing else does, and gives one result."""
        readers = self.readers[array]
        if len(readers) != 1 or array in self.outputs or readers[0].origin not in self.origins:
            return None
        return readers[0] if len(readers[0].outputs) == 1 else None

    def _scale(self, equation: Equation, x: Array) -> float | None:
        """The number by which an equation multiplies an Array."""
        if x.dtype is not dtypes.float32 or not _is(equation, "mul", "div"):
            return None
        left, right = equation.inputs
        number = right if left is x else left
        if number is x or number.value is None or number.value.size != 1 or not _keeps(equation, x):
            return None
        value = float(number.value.reshape(-1)[0])
        if equation.params["function"] == "mul":
            return value
        return 1.0 / value if left is x and value else None

    def _bias(self, equation: Equation, x: Array) -> Array | None:
        """The constant row of N elements that an equation adds to all rows of an Array."""
        if not _is(equation, "add") or not _keeps(equation, x):
            return None
        left, right = equation.inputs
        bias = right if left is x else left
        if bias is x or not self.is_constant(bias) or not bias.rank or bias.shape[-1] != x.shape[-1]:
            return None
        return bias if product(bias.shape[:-1]) == 1 else None


def _is(equation: Equation, *functions: str) -> bool:
    return equation.primitive.name == "elementwise" and equation.params["function"] in functions


def _keeps(equation: Equation, x: Array) -> bool:
    return equation.outputs[0].shape == x.shape and equation.outputs[0].dtype is x.dtype
