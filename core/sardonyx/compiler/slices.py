"""Parts of concatenations that lie in the buffer of the whole: what makes a part stores it there, nothing copies it.

That is so for a part that launches alone write and read, element by element. A concatenation may be a part of another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from sardonyx.common.record import field, record
from sardonyx.compiler.fuse import Fusion, depends_on_weights
from sardonyx.compiler.halts import STEPS
from sardonyx.compiler.indices import Indices
from sardonyx.compiler.lower import GENERATED, STORED
from sardonyx.primitives.array import Array, Equation
from sardonyx.providers.contract import Provider
from sardonyx.sizes.polynomial import ONE, ZERO, Poly
from sardonyx.sizes.symbolic import poly, product

LANES = 4
"""Elements that a launch may store beyond those of a buffer that it walks from its start to its end."""


@record(frozen=True)
class Slice:
    """Where a part lies: in `whole`, from `start` on along an axis."""

    whole: Array
    axis: int
    start: Poly


@record
class Slices:
    """The parts that lie in a whole, by their `id`."""

    parts: dict[Array, Slice] = field(default_factory=dict)

    def __contains__(self, array: Array) -> bool:
        return array in self.parts

    def place(self, array: Array, index: Indices) -> tuple[Array, Indices]:
        """The Array in whose buffer an Array lies, and where the element at an index is in that."""
        while (part := self.parts.get(array)) is not None:
            index = tuple(at + part.start if k == part.axis else at for k, at in enumerate(index))
            array = part.whole
        return array, index

    def whole(self, array: Array) -> Array:
        """The Array in whose buffer an Array lies."""
        while (part := self.parts.get(array)) is not None:
            array = part.whole
        return array

    def remove(self, array: Array) -> None:
        """Have an Array in a buffer of its own; nothing may have been stored yet."""
        del self.parts[array]


def find(
    equations: Sequence[Equation],
    outputs: Iterable[Array],
    fusion: Fusion,
    device_of: Mapping[Equation, int],
    providers: Sequence[Provider],
) -> Slices:
    """The parts that can be stored where they are wanted, on providers whose launches read and write by strides."""
    strided = {number for number, provider in enumerate(providers) if provider.strided}
    slices = Slices()
    if any(_is_concat(equation) and device_of[equation] in strided for equation in equations):
        finder = _Finder(equations, outputs, fusion, device_of, providers)
        for equation in reversed(equations):  # so that it is known where the whole lies
            if _is_concat(equation) and device_of[equation] in strided and fusion.is_written(equation.outputs[0]):
                slices.parts |= finder.parts(equation, slices.parts)
    return slices


def _is_concat(equation: Equation) -> bool:
    """Whether an equation joins what others make, be it to what lies there already."""
    return equation.primitive.name == "concat" or equation.primitive.name in STORED


class _Finder:
    def __init__(
        self,
        equations: Sequence[Equation],
        outputs: Iterable[Array],
        fusion: Fusion,
        device_of: Mapping[Equation, int],
        providers: Sequence[Provider],
    ) -> None:
        self.fusion = fusion
        self.device_of = device_of
        self.providers = providers
        self.constants = depends_on_weights(equations)
        self.whole = set(outputs)
        """Arrays that something wants as they are, in a buffer of their own."""
        self.epoch: dict[Equation, int] = {}
        epoch = 0
        for equation in equations:
            epoch += equation.primitive.name in STEPS
            self.epoch[equation] = epoch
            if self._is_routine(equation):
                self.whole.update(operand.source for operand in fusion.views[equation])
            elif not self._is_generated(equation):
                self.whole.update((*equation.inputs, *equation.outputs))
            for x in equation.inputs:
                if x.equation is not None and device_of[x.equation] != device_of[equation]:
                    self.whole.add(x)

    def parts(self, equation: Equation, known: Collection[Array]) -> dict[Array, Slice]:
        """The parts of a concatenation that may lie in it."""
        (output,) = equation.outputs
        axis, start, inputs = equation.params["axis"], ZERO, equation.inputs
        if equation.primitive.name in STORED:
            inputs, start = inputs[1:], poly(equation.params["start"])
        found: dict[Array, Slice] = {}
        for x in inputs:
            if start == ZERO and poly(product(x.shape[:axis])) == ONE and _count(x).multiple_of(LANES) < LANES:
                return {}  # what walks along it may store the first elements of the next part
            if x not in known and self._may_lie_elsewhere(x, equation):
                found[x] = Slice(output, axis, start)
            start = start + poly(x.shape[axis])
        return found

    def _may_lie_elsewhere(self, x: Array, concat: Equation) -> bool:
        maker = x.equation
        return (
            maker is not None
            and self.fusion.is_written(x)
            and x not in self.whole
            and x not in self.constants
            and sum(x is other for other in concat.inputs) == 1
            and self.epoch[maker] == self.epoch[concat]
            and (self._is_generated(maker) or self._has_epilogue(maker))
        )

    def _routines(self, of: Callable[[Provider], Collection[str]], equation: Equation) -> bool:
        return equation.primitive.name in of(self.providers[self.device_of[equation]])

    def _is_routine(self, equation: Equation) -> bool:
        return self._routines(lambda provider: provider.routines, equation)

    def _has_epilogue(self, equation: Equation) -> bool:
        return self._routines(lambda provider: provider.epilogues, equation)

    def _is_generated(self, equation: Equation) -> bool:
        return equation.primitive.name in GENERATED and not self._is_routine(equation)


def _count(x: Array) -> Poly:
    return poly(product(x.shape))
