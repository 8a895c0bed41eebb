"""The equations of one graph, in the order in which expansions record them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from sardonyx.common import dtypes, memory
from sardonyx.common.dtypes import DType
from sardonyx.common.record import field, record
from sardonyx.common.strings import StringTable, active_strings
from sardonyx.model.structure import Cached, Form, form, leaves
from sardonyx.primitives.array import PRIMITIVES, Array, Equation, Primitive, Shape
from sardonyx.primitives.evaluation import evaluate
from sardonyx.sizes.expression import evaluate as number_of
from sardonyx.sizes.polynomial import ONE, symbol
from sardonyx.sizes.symbolic import Dim, Guards, Size, poly


class TooEarlyError(Exception):
    """A size depends on data, and there is none yet."""


@record(eq=False)
class Trace:
    """The equations of one graph for one choice of guards, in the order in which they were recorded.

    A trace inside another one (the body of a Loop) takes what it uses of the outer one as inputs of its own: `lifted`
    pairs those with the outer Arrays. `labels` names the ONNX nodes; `origin` is the number of the current one.
    """

    guards: Guards
    outer: Trace | None = None
    inputs: list[Array] = field(default_factory=list)
    equations: list[Equation] = field(default_factory=list)
    outputs: list[Array] = field(default_factory=list)
    arguments: list[Form] = field(default_factory=list)
    results: list[Form] = field(default_factory=list)
    """How inputs and outputs are arranged where they are given as more than tensors (`sardonyx.model.structure`)."""
    labels: list[str] = field(default_factory=list)
    origin: int = -1
    feeds: dict[Array, np.ndarray] = field(default_factory=dict)
    early: bool = False
    """Whether no run has begun: then asking for what a run will tell raises `TooEarlyError`."""
    strings: StringTable = field(default_factory=lambda: active_strings() or StringTable())
    """Where the strings among constants have their ids; entered with the trace."""
    lifted: dict[Array, tuple[Array, Array]] = field(default_factory=dict)
    input_reads: dict[Array, list[Size]] = field(default_factory=dict)
    """Symbols that the elements of trace inputs define: the host reads them before the run."""
    reads: dict[Array, list[Size]] = field(default_factory=dict)
    """The elements of Arrays that were read, see `sardonyx.primitives.reading`."""
    fresh: set[str] = field(default_factory=set)
    """Symbols that only the run defines."""
    varying: dict[tuple[int, ...], set[tuple[int, int]]] = field(default_factory=dict)
    """Carried values and their axes that change in the loop at a `place`; kept by the root."""
    laid: set[Array] = field(default_factory=set)
    """Arrays in the order of axes that memory is to have: they are written rather than transposed views of them."""
    repeated: bool = False
    """Whether it is the body of a loop: a device does best that takes all turns without the host."""
    compares: bool = False
    """Whether the run compares sizes where no algebra tells: those that turns change may decide when to end a loop."""
    caches: dict[Array, Cached[Array]] = field(default_factory=dict)
    """The inputs that have room behind what they hold, and for each what it holds, as the graph has it."""
    narrow: bool = False
    """Whether large constants stay as they are: what is made of them, each plan and each device makes for itself."""
    guesses: dict[str, int] = field(default_factory=dict)
    """Symbols that no run told yet, and the numbers that stand for them; kept by the root."""
    backward: set[int] = field(default_factory=set)
    """The nodes whose equations go backwards through those before them: what these read of others is stored until then,
    or made again."""
    memory_limit: int = 0
    """Bytes that a run should have at once, 0 for any number; said of the root."""
    branched: int = 0
    """How many guards there were when a branch was last chosen; kept by the root."""
    is_beginning: bool = False
    """Whether it ends where it made no sense with guesses: its plan tells their numbers, and gives nothing else."""
    _recorded: dict[Any, tuple[Array, ...]] = field(default_factory=dict)
    _own: set[Array] = field(default_factory=set)
    _counter: int = 0

    def __enter__(self) -> Trace:
        self.guards.__enter__()
        self.strings.__enter__()
        _active.__dict__.setdefault("stack", []).append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _active.stack.pop()
        self.strings.__exit__()
        self.guards.__exit__()

    @property
    def depth(self) -> int:
        return 0 if self.outer is None else self.outer.depth + 1

    @property
    def root(self) -> Trace:
        """The trace that is inside no other one."""
        return self if self.outer is None else self.outer.root

    def doubts(self) -> list[str]:
        """Symbols whose numbers are guesses on which branches may have been chosen, the most likely ones first."""
        facts = list(self.guards)[: self.branched]
        return [
            name
            for polynomial, _, _ in reversed(facts)
            for name in sorted(polynomial.symbols())
            if name in self.guesses
        ]

    def equalled(self) -> dict[str, int]:
        """Another number for the latest guess that has one for which sizes are equal that were last found not to be.

        What elements of inputs tell, and whether a condition holds, stays as it is.
        """
        kept = {
            str(item)
            for array, read in self.reads.items()
            if array.equation is None or array.dtype is dtypes.bool_
            for item in read
        }
        guesses = [name for name in reversed(self.guesses) if name not in kept]
        for polynomial, relation, truth in reversed(list(self.guards)):
            if relation != "==" or truth:
                continue
            hints = self.guards.hints
            off = self.guards.value(polynomial)
            for name in [name for name in guesses if name in polynomial.symbols()]:
                others = (hints[other] for other in sorted(polynomial.symbols() - {name}))
                for number in (hints[name] - off, hints[name] + off, *others):
                    if number >= 0 and number_of(polynomial.json(), {**hints, name: number}) == 0:
                        return {name: number}
        return {}

    def end_where_it_is(self) -> bool:
        """Whether what is recorded tells numbers that were guessed: then that is all, and a guard that never holds has
        whoever runs it trace anew with these."""
        told = [symbol(name) for name in self.guesses if name in self.fresh]
        if not told:
            return False
        self.is_beginning = True
        self.guards.solvable = ()
        self.guards.facts[sum((each * each for each in told), ONE), "=="] = True
        return True

    @property
    def place(self) -> tuple[int, ...]:
        """The numbers of the nodes around, the current one last: where the trace is in the model."""
        return (*(self.outer.place if self.outer else ()), self.origin)

    def is_cached(self, array: Array) -> bool:
        """Whether this is what a cache holds, as the graph has it."""
        return any(held.tensor is array for held in self.root.caches.values())

    def input(self, dtype: DType, shape: Shape, name: str = "") -> Array:
        """A new input."""
        array = Array(dtype, shape, name=name)
        self.inputs.append(array)
        self._own.add(array)
        return array

    def fresh_symbol(self, guess: int, stem: str = "n") -> Dim:
        """A size that only the run determines; `guess` is assumed for it unless an earlier run has read it."""
        if self.early:
            raise TooEarlyError
        name = f"{stem}{self._counter}" if self.outer is None else f"{stem}{self._counter}_{self.depth}"
        self._counter += 1
        self.fresh.add(name)
        if name not in self.guards.hints:
            self.root.guesses[name] = guess
        return self.guards.symbol(name, self.guards.hints.get(name, guess))

    def record(self, prim: Primitive, inputs: tuple[Array, ...], params: dict[str, Any]) -> tuple[Array, ...]:
        inputs = tuple(map(self.materialise, inputs))
        key = (prim.name, inputs, freeze(params)) if prim.pure else None
        if key is not None and key in self._recorded:
            return self._recorded[key]
        types = prim.infer(*inputs, **params)
        return self.append(prim, inputs, params, types, key)

    def append(
        self,
        prim: Primitive,
        inputs: tuple[Array, ...],
        params: dict[str, Any],
        types: Sequence[tuple[DType, Shape]],
        key: Any = None,
    ) -> tuple[Array, ...]:
        """Record an equation whose result types are known already."""
        memory.refuse_axes(prim.name, max((len(shape) for _, shape in types), default=0))
        outputs = tuple(Array(dtype, shape) for dtype, shape in types)
        equation = Equation(prim, tuple(map(self.materialise, inputs)), params, outputs, self.origin)
        for output in outputs:
            output.equation = equation
            self._own.add(output)
        self.equations.append(equation)
        if key is not None:
            self._recorded[key] = outputs
        return outputs

    def extend(
        self, equation: Equation, inputs: Sequence[Array], types: Sequence[tuple[DType, Shape]]
    ) -> tuple[Array, ...]:
        """Have an equation read these inputs, and give more, of these types."""
        outputs = tuple(Array(dtype, shape, equation=equation) for dtype, shape in types)
        equation.inputs = tuple(map(self.materialise, inputs))
        equation.outputs += outputs
        self._own.update(outputs)
        return outputs

    def value_in_this_call(self, array: Array) -> np.ndarray | None:
        """The value of an Array for the feeds of this call, if it is cheap to compute, else None. Leaves no guard."""
        with Guards(self.guards.hints):
            return evaluate(array, self.feeds)

    def forget(self) -> None:
        """Share no earlier equation with new ones that equal it: it may come later than they do now."""
        self._recorded.clear()

    def dissolve(self) -> None:
        """Part equations from what they compute, which refer to each other: their memory is free at once."""
        for equation in self.equations:
            for output in equation.outputs:
                output.equation = None
        self.equations = []

    def materialise(self, array: Array) -> Array:
        """The Array as something that a kernel of this trace can read.

        Sizes become the output of a `sizes` equation, Arrays of the outer trace inputs of this one.
        """
        if array.value is not None or array in self._own:
            return array
        if array.sizes is not None:
            flat = tuple(array.sizes.reshape(-1).tolist())
            return self.record(PRIMITIVES["sizes"], (), {"sizes": flat, "shape": array.shape, "dtype": array.dtype})[0]
        if array not in self.lifted:
            if self.outer is None:
                raise TypeError(f"{array} belongs to no trace that is active")
            self.lifted[array] = (self.input(array.dtype, array.shape, array.name), array)
        return self.lifted[array][0]

    def give(self, results: Sequence[Any]) -> None:
        """Have these outputs: Arrays, or what is arranged of them."""
        self.results = list(map(form, results))
        self.outputs = [self.materialise(array) for result in results for array in leaves(result)]


_active = threading.local()


def active_trace() -> Trace | None:
    stack: list[Trace] = _active.__dict__.get("stack") or []
    return stack[-1] if stack else None


def freeze(value: Any) -> Any:
    """A hashable key of a parameter; symbolic sizes are told apart by their polynomials."""
    if isinstance(value, (tuple, list)):
        return tuple(map(freeze, value))
    if isinstance(value, Dim):
        return poly(value)
    if isinstance(value, dict):
        return tuple((name, freeze(item)) for name, item in sorted(value.items()))
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, (bool, int)):
        return type(value).__name__, value
    return value
