"""Equations of a forward pass are computed again in its backward pass, where a memory limit asks for it.

This comes after fusion, so it is known which Arrays lie in memory (`sardonyx.compiler.checkpoints` chooses by that),
and nothing that merges equal equations comes after it. What comes again is a copy with results of its own, for which
holds what fusion has decided for the first one: so both are the same launches, and give the same bits. A copy stands
right before its first reader, and launches go in the order of equations.

What draws random numbers and what has a body is never computed again: it is stored, and so is what a body reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt

from sardonyx.common.record import record, replace
from sardonyx.compiler import checkpoints
from sardonyx.compiler.fuse import Fusion, depends_on_weights
from sardonyx.compiler.lower import GENERATED, STORED
from sardonyx.compiler.slices import Slices
from sardonyx.primitives.array import Array, Equation
from sardonyx.primitives.trace import Trace
from sardonyx.sizes.symbolic import Dim, count, product

HALTS = frozenset({"read", "branch", "loop"})
"""Primitives at which an epoch ends."""


def recomputed(
    trace: Trace, equations: list[Equation], fusion: Fusion, slices: Slices, device_of: dict[Equation, int]
) -> list[Equation]:
    """The equations, with copies of some, for which the trace's memory limit has room in the call at hand.

    Copies are added to the trace, and what is decided of them to `fusion` and `device_of`. Where there need be none, a
    guard says up to which sizes.
    """
    backward = next((k for k, equation in enumerate(equations) if equation.origin in trace.backward), None)
    if backward is None:
        return equations
    launches = _Launches(trace, equations, fusion, slices, backward)
    limit = trace.memory_limit - launches.constants
    passes = launches.passes()
    if passes.peak() <= limit:
        launches.guard(passes.at_peak(), limit)
        return equations
    stored = checkpoints.choose(passes, limit).stored
    copies = _Copies(trace, fusion, device_of, launches.lost(stored))
    return equations[:backward] + copies.backward(equations[backward:])


@record(frozen=True)
class _Inside:
    """What becomes part of launches: the values that it reads, and its operations."""

    reads: tuple[int, ...] = ()
    work: float = 0.0


class _Launches:
    """Equations as the launches that fusion makes of them, those from `backward` on being the backward pass.

    A value is a number, and stands for a buffer: a part of a concatenation lies in that of the whole.
    """

    def __init__(
        self, trace: Trace, equations: Sequence[Equation], fusion: Fusion, slices: Slices, backward: int
    ) -> None:
        self._trace = trace
        self._fusion = fusion
        self._slices = slices
        self._weights = depends_on_weights(equations)
        self._numbers: dict[Array, int] = {}
        self._inside: dict[Array, _Inside] = {}
        self._steps: list[checkpoints.Step] = []
        self._fixed: set[int] = set()
        self._forward = {output for equation in equations[:backward] for output in equation.outputs}
        self._backward = 0
        epoch = 0
        for number, equation in enumerate(equations):
            if number == backward:
                self._backward = len(self._steps)
            epoch += equation.primitive.name in HALTS or bool(equation.params.get("symbols"))
            self._add(equation, epoch, number >= backward)
        constants = {id(x.value): x.value.nbytes for e in equations for x in e.inputs if x.value is not None}
        self.constants = sum(constants.values())
        """The bytes of all weights."""

    def passes(self) -> checkpoints.Passes:
        """What there is to choose from."""
        nbytes = [count(array.shape) * array.dtype.itemsize for array in self._numbers]
        given = [self._numbers[array] for array in self._trace.inputs if array in self._numbers]
        results = {number for array in self._trace.outputs for number in self._of(array).reads}
        return checkpoints.Passes(self._steps, self._backward, nbytes, given, results, self._fixed)

    def lost(self, stored: frozenset[int]) -> Callable[[Array], bool]:
        """What tells of an Array whether the backward pass has to make it again."""
        results = {number for array in self._trace.outputs for number in self._of(array).reads}
        made = {number for step in self._steps[: self._backward] for number in step.writes}
        gone = made - stored - results - self._fixed
        return lambda array: array in self._forward and not gone.isdisjoint(self._of(array).reads)

    def guard(self, values: Sequence[int], limit: int) -> None:
        """Leave a guard that these values together have at most so many bytes, if calls tell their sizes."""
        arrays = [array for array, number in self._numbers.items() if number in set(values)]
        sizes = [size for array in arrays for size in array.shape if isinstance(size, Dim)]
        if all(self._trace.fresh.isdisjoint(size.poly.symbols()) for size in sizes):
            _ = sum(product(array.shape) * array.dtype.itemsize for array in arrays) > limit

    def _add(self, equation: Equation, epoch: int, is_late: bool) -> None:
        if all(x in self._weights for x in equation.outputs):
            return
        operands = [self._of(x) for x in equation.inputs]
        reads = tuple(dict.fromkeys(number for operand in operands for number in operand.reads))
        work = sum(operand.work for operand in operands) + _work(equation)
        written = [x for x in equation.outputs if self._fusion.is_written(x)]
        if not written:
            self._inside.update((x, _Inside(reads, work)) for x in equation.outputs)
            return
        writes = tuple(map(self._number, written))
        self._steps.append(checkpoints.Step(reads, writes, work, epoch))
        if not equation.primitive.pure or equation.primitive.name in STORED:
            self._fixed.update(writes)
        if is_late and equation.bodies:
            self._fixed.update(reads)

    def _of(self, array: Array) -> _Inside:
        """What it takes to read an Array."""
        if array.value is not None or array in self._weights:
            return _Inside()
        if array.equation is None or self._fusion.is_written(array):
            return _Inside((self._number(array),))
        return self._inside[array]

    def _number(self, array: Array) -> int:
        return self._numbers.setdefault(self._slices.whole(array), len(self._numbers))


def _work(equation: Equation) -> float:
    """The operations of an equation, roughly: for products the geometric mean of operands and result is exact."""
    made = sum(count(x.shape) for x in equation.outputs)
    if equation.primitive.name in GENERATED and equation.primitive.name != "dot_general":
        return made
    operands = sorted((count(x.shape) for x in equation.inputs), reverse=True)
    return sqrt(float(made) * operands[0] * operands[1]) if len(operands) > 1 else made + sum(operands)


class _Copies:
    """Copies of the equations of a forward pass, for what is lost of it when the backward pass reads it."""

    def __init__(
        self, trace: Trace, fusion: Fusion, device_of: dict[Equation, int], is_lost: Callable[[Array], bool]
    ) -> None:
        self._trace = trace
        self._fusion = fusion
        self._device_of = device_of
        self._is_lost = is_lost
        self._copies: dict[Array, Array] = {}

    def backward(self, equations: Sequence[Equation]) -> list[Equation]:
        """The equations of the backward pass, each behind the copies that it is the first to read."""
        result: list[Equation] = []
        for equation in equations:
            result += self._missing(equation)
            equation.inputs = self._now(equation)
            for x in equation.outputs:
                self._decide(x, x)
            self._see(equation, equation)
            result.append(equation)
        return result

    def _missing(self, reader: Equation) -> list[Equation]:
        """Copies of what a reader finds lost, in order."""
        result: list[Equation] = []
        stack = [reader]
        while stack:
            waiting = [x.equation for x in stack[-1].inputs if self._is_lost(x) and x not in self._copies]
            if waiting:
                stack += [equation for equation in reversed(waiting) if equation is not None]
                continue
            top = stack.pop()
            if top is not reader and top.outputs[0] not in self._copies:
                result.append(self._copy(top))
        return result

    def _copy(self, equation: Equation) -> Equation:
        outputs = tuple(Array(x.dtype, x.shape) for x in equation.outputs)
        copy = Equation(equation.primitive, self._now(equation), equation.params, outputs, equation.origin)
        self._copies.update(zip(equation.outputs, outputs, strict=True))
        for x, output in zip(equation.outputs, outputs, strict=True):
            output.equation = copy
            self._decide(x, output)
            if self._fusion.is_written(x):
                self._fusion.written.add(output)
            if x in self._trace.laid:
                self._trace.laid.add(output)
        self._see(equation, copy)
        self._device_of[copy] = self._device_of[equation]
        self._trace.equations.append(copy)
        return copy

    def _decide(self, array: Array, copy: Array) -> None:
        """Have a copy computed by the same launch."""
        if (core := self._fusion.core.get(array)) is not None:
            self._fusion.core[copy] = self._here(core)

    def _see(self, equation: Equation, copy: Equation) -> None:
        """Have a copy read its operands as the equation does."""
        if (views := self._fusion.views.get(equation)) is not None:
            self._fusion.views[copy] = [replace(view, source=self._here(view.source)) for view in views]

    def _now(self, equation: Equation) -> tuple[Array, ...]:
        return tuple(map(self._here, equation.inputs))

    def _here(self, array: Array) -> Array:
        """An Array as the backward pass has it."""
        return self._copies[array] if self._is_lost(array) else array
