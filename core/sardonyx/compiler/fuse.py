"""Fusion: which Arrays are written to memory, and which vanish into the kernels that read them.

An Array is written if something needs it whole (an output, a Routine, another device, control flow), if it is the
result of a reduction, or of a Routine, that its reader cannot take as an epilogue, or if computing it again for each of
its readers would cost more than reading it back. Movement is never written for its own sake: it is index arithmetic.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

from sardonyx.code.cost import cost
from sardonyx.common.record import field, record
from sardonyx.compiler.lower import FOLD, GENERATED, STORED
from sardonyx.compiler.views import View, view
from sardonyx.primitives.array import Array, Equation
from sardonyx.providers.contract import Provider
from sardonyx.sizes.symbolic import count

MOVEMENT = frozenset({"reshape", "transpose", "broadcast", "slice", "pad", "concat", "flip"})
FREE = frozenset({"full", "iota", "sizes"})
REREAD = frozenset({"dot_general", "conv_general", "reduce_window", "gather"})
"""Primitives that read an element of their operand many times, or not at all."""
COST_OF_MEMORY = 4
"""What an element costs to write and read again, in additions: above it, sharing beats computing twice."""
MOST_PARTS = 3
"""Parts of a concatenation that a reader computes all of, to choose one of them."""
MOST_TO_CHOOSE = 20
"""What an element of such parts may cost, in additions."""
_CHOOSERS = frozenset({"elementwise", "concat", "reshape", "transpose"})
_IN_PLACE = frozenset({"elementwise", "cast", "bitcast"})
_IN_ORDER = _IN_PLACE | {"transpose"}
_ONE_TO_ONE = _IN_ORDER | {"reshape"}
SPARSE = 16
"""A lookup that takes one of so many elements of a table made of weights has only those computed, in every run."""
MOST_NODES = 48
"""Scalar operations in one kernel, so that kernels stay readable and compile quickly."""
_Moves: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]
"""What elements went through since they were in order: transpositions, and the shapes between them."""


@record
class Fusion:
    """`written` are the Arrays with buffers; `core` maps an Array that has one to the result, of a reduction or a
    Routine, from which the same launch computes it. `views` are the operands of an equation that is a Routine's."""

    written: set[Array] = field(default_factory=set)
    core: dict[Array, Array] = field(default_factory=dict)
    views: dict[Equation, list[View]] = field(default_factory=dict)

    def is_written(self, array: Array) -> bool:
        return array in self.written


@record
class _Work:
    """What it takes to compute an element from written Arrays: cost, operations, buffers, the result that is the core
    of the launch."""

    cost: int
    operations: int
    buffers: frozenset[Array]
    core: Array | None = None


def fuse(
    equations: list[Equation],
    outputs: Iterable[Array],
    device_of: dict[Equation, int],
    providers: Sequence[Provider],
    laid: Collection[Array] = (),
) -> Fusion:
    """Decide for every Array. `device_of` numbers the provider of an equation, `laid` is the trace's."""
    return _Fuser(equations, device_of, providers, laid).run(outputs)


class _Fuser:
    def __init__(
        self,
        equations: list[Equation],
        device_of: dict[Equation, int],
        providers: Sequence[Provider],
        laid: Collection[Array],
    ) -> None:
        self.laid = laid
        self.equations = equations
        self.device_of = device_of
        self.routines = [provider.routines for provider in providers]
        self.epilogues = [provider.epilogues for provider in providers]
        self.strided = [provider.strided for provider in providers]
        self.most_buffers = [provider.max_buffers for provider in providers]
        self.result = Fusion()
        self.work: dict[Array, _Work] = {}
        self.constants = depends_on_weights(equations)
        self.inside: set[Array] = set()
        """Arrays between the result of a reduction or a Routine and the one Array that is computed from all of them."""
        self.counts: dict[Array, int] = {}
        self.readers: dict[Array, list[Equation]] = {}
        self.order = {equation: number for number, equation in enumerate(equations)}
        for equation in equations:
            for array in equation.inputs:
                self.readers.setdefault(array, []).append(equation)

    def run(self, outputs: Iterable[Array]) -> Fusion:
        for array in outputs:
            self.result.written.add(array)
        for equation in self.equations:
            if not self._generated(equation):
                if not self._has_epilogue(equation):
                    self.result.written.update(equation.outputs)
                self.result.written.update(operand.source for operand in self._views(equation))
        for equation in self.equations:
            if self._generated(equation) or self._has_epilogue(equation):
                self._visit(equation)
        return self.result

    def _views(self, equation: Equation) -> list[View]:
        """What an equation reads that is no kernel: a Routine what it can of movement, others all as it is."""
        name, device = equation.primitive.name, self.device_of[equation]
        if name not in self.routines[device]:
            return list(map(View, equation.inputs))
        linear = self.strided[device].get(name, ())
        self.result.views[equation] = [
            view(array, linear[k] if k < len(linear) else 0, self._is_source) for k, array in enumerate(equation.inputs)
        ]
        return self.result.views[equation]

    def _is_source(self, array: Array) -> bool:
        """Whether an Array is to lie in memory though it is movement: weights are put in order once."""
        assert array.equation is not None
        name = array.equation.primitive.name
        return array in self.laid or (array in self.constants and name not in ("reshape", "broadcast"))

    def _has_epilogue(self, equation: Equation) -> bool:
        """Whether a Routine may go on with what is done to each element of its result."""
        return equation.primitive.name in self.epilogues[self.device_of[equation]]

    def _generated(self, equation: Equation) -> bool:
        name = equation.primitive.name
        return name in GENERATED and name not in self.routines[self.device_of[equation]]

    def _visit(self, equation: Equation) -> None:
        (output,) = equation.outputs
        name = equation.primitive.name
        device = self.device_of[equation]
        inputs: Sequence[Array] = equation.inputs
        if not self._generated(equation):
            inputs = [operand.source for operand in self.result.views[equation]]
        parts = [self._operand(array, equation) for array in inputs]
        buffers = frozenset().union(*(part.buffers for part in parts))
        if len(buffers) >= self.most_buffers[device] and name != "concat":
            for array, part in zip(inputs, parts, strict=True):
                if len(part.buffers) > 1:
                    self._write(array, part)
            parts = [self._operand(array, equation) for array in inputs]
            buffers = frozenset().union(*(part.buffers for part in parts))
        core = next((part.core for part in parts if part.core is not None), None)
        work = _Work(
            sum(part.cost for part in parts) + _cost(equation),
            sum(part.operations for part in parts) + (name not in MOVEMENT),
            buffers,
            output if name in FOLD or self._has_epilogue(equation) else core,
        )
        self.work[output] = work
        if work.core is not None and output not in self.inside and self._uses(output) > 1:
            self.inside.update(self._between(output))
        if self._must_write(output, work, device, name):
            self._store(output, work)

    def _operand(self, array: Array, reader: Equation) -> _Work:
        """The work of computing an operand inside its reader; writes it first if it should not be there."""
        if array.equation is None or self.result.is_written(array):
            free = array.value is not None and array.value.size == 1
            return _Work(0, 0, frozenset() if free else frozenset({array}))
        work = self.work[array]
        return work if self._fits(array, work, reader) else self._store(array, work)

    def _store(self, array: Array, work: _Work) -> _Work:
        """Have an Array in memory, or what it is a transposition of, if that is how it should lie."""
        equation = array.equation
        source = equation.inputs[0] if equation is not None and equation.primitive.name == "transpose" else array
        if source not in self.laid or self.result.is_written(array):
            source = array
            self._write(array, work)
        elif not self.result.is_written(source):
            self._write(source, self.work[source])
        self.work[array] = _Work(0, 0, frozenset({source}))
        return self.work[array]

    def _fits(self, array: Array, work: _Work, reader: Equation) -> bool:
        name = reader.primitive.name
        if work.core is not None:
            once = self.constants if reader.outputs[0] not in self.constants else ()
            if array in once:
                return False
            others = [x for x in reader.inputs if x is not array and x in self.work and x not in once]
            alone = all(self.result.is_written(x) or self.work[x].core in (None, work.core) for x in others)
            return alone and (array in self.inside or (self._keeps_count(array, reader) and self._uses(array) == 1))
        if name == "gather" and array is reader.inputs[0] and self._is_sparse(array, reader.outputs[0]):
            return work.cost <= COST_OF_MEMORY
        if name in REREAD and not (name == "gather" and array is not reader.inputs[0]):
            return work.cost <= (array not in self.constants)  # what depends on weights alone is computed once
        if name == "broadcast" or (name == "elementwise" and self._is_stretched(array, reader.outputs[0])):
            return work.cost <= COST_OF_MEMORY
        return work.operations < MOST_NODES

    def _is_sparse(self, table: Array, found: Array) -> bool:
        """Whether a lookup takes little of what weights are: less than what it would take to hold all of that."""
        return table in self.constants and SPARSE * self._count(found) <= self._count(table)

    def _keeps_count(self, array: Array, reader: Equation) -> bool:
        """Whether a reader makes one element of each element of an Array."""
        return reader.primitive.name in _ONE_TO_ONE and self._count(array) == self._count(reader.outputs[0])

    def _uses(self, array: Array) -> int:
        return len(self.readers.get(array, ()))

    def _between(self, first: Array, through: Collection[str] = _ONE_TO_ONE) -> Collection[Array]:
        """The Arrays from one with several readers up to where all of that comes together again, without the last;
        nothing if something else needs one of them, they pass through other primitives, or elements of different
        places meet."""
        if self.result.is_written(first) or first.equation is None:
            return ()
        device = self.device_of[first.equation]
        between: dict[Array, _Moves] = {first: ()}
        waiting = set(self.readers[first])
        left = self._uses(first)
        while waiting and len(between) < MOST_NODES:
            reader = min(waiting, key=self.order.__getitem__)
            waiting.remove(reader)
            if not self._generated(reader) or self.device_of[reader] != device:
                return ()
            inside = [x for x in reader.inputs if x in between]
            if reader.primitive.name not in through or not all(self._keeps_count(x, reader) for x in inside):
                return ()
            moves, *others = {between[x] for x in inside}
            if others:
                return ()
            (output,) = reader.outputs
            left -= len(inside)
            if left == 0:
                return between
            if self.result.is_written(output):
                return ()
            between[output] = _moved(moves, reader)
            left += self._uses(output)
            waiting.update(self.readers.get(output, ()))
        return ()

    def _is_stretched(self, array: Array, result: Array) -> bool:
        """Whether each element of an operand is used more than once."""
        return self._count(result) // max(1, self._count(array)) > 1

    def _count(self, array: Array) -> int:
        """The elements of an Array in the call at hand."""
        if array not in self.counts:
            self.counts[array] = count(array.shape)
        return self.counts[array]

    def _must_write(self, output: Array, work: _Work, device: int, name: str) -> bool:
        readers = self.readers.get(output, [])
        if self.result.is_written(output) or name in STORED:
            return True
        if name == "concat" and not self._is_chosen(output, readers, work, device):
            return True
        if any(self.device_of[reader] != device for reader in readers):
            return True
        if work.core is not None:
            return self._uses(output) != 1 and output not in self.inside
        dear = len(readers) > 1 and work.cost * (len(readers) - 1) > COST_OF_MEMORY
        if not dear or output in self.constants:
            return dear
        return not self._between(output, _IN_ORDER)  # one kernel computes it once, whatever it does with it

    def _is_chosen(self, concat: Array, readers: Sequence[Equation], work: _Work, device: int) -> bool:
        """Whether the one reader of a concatenation chooses among its parts, element by element."""
        assert concat.equation is not None
        return (
            bool(self.strided[device])
            and len(concat.equation.inputs) <= MOST_PARTS
            and len(readers) == 1
            and readers[0].primitive.name in _CHOOSERS
            and len(work.buffers) < self.most_buffers[device] - 2
            and work.cost <= MOST_TO_CHOOSE
            and concat not in self.constants
            and not any(x in self.result.core for x in concat.equation.inputs)
        )

    def _write(self, array: Array, work: _Work) -> None:
        self.result.written.add(array)
        if work.core is not None:
            self.result.core[array] = work.core


def _moved(moves: _Moves, equation: Equation) -> _Moves:
    """The moves of elements, behind an equation too. Transpositions after each other are one, or none; a reshape alone
    leaves elements in order, and says what the next one means."""
    name = equation.primitive.name
    if name == "reshape" and moves:
        return (*moves, (name, tuple(count((size,)) for size in equation.outputs[0].shape)))
    if name != "transpose":
        return moves
    perm: tuple[int, ...] = equation.params["perm"]
    if moves and moves[-1][0] == name:
        *moves_before, (_, before) = moves
        perm, moves = tuple(before[axis] for axis in perm), tuple(moves_before)
    return moves if perm == tuple(range(len(perm))) else (*moves, (name, perm))


def depends_on_weights(equations: Iterable[Equation]) -> set[Array]:
    """The Arrays that depend on weights alone."""
    found: set[Array] = set()
    for equation in equations:
        if equation.inputs and all(x.value is not None or x in found for x in equation.inputs):
            found.update(equation.outputs)
    return found


def _cost(equation: Equation) -> int:
    name = equation.primitive.name
    if name == "concat":
        return len(equation.inputs) - 1
    if name in MOVEMENT or name in FREE or name == "bitcast":
        return 0
    if name == "elementwise":
        return cost(equation.params["function"])
    return 2 if name == "gather" else 1
