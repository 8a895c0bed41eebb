"""Control flow: If, Loop, Scan. The graphs inside are expanded by the interpreter when their turn comes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.errors import NotImplemented
from sardonyx.model.ir import Graph, Node, OptionalType, SequenceType, TensorType, Value
from sardonyx.model.ir.build import attribute
from sardonyx.model.structure import Map, Ragged, Stack, leaves
from sardonyx.ops.lift import renamed
from sardonyx.ops.operator import Operator, Rewriter
from sardonyx.ops.stack import joined
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.primitives.control import MOST_TURNS, branch, holds, loop
from sardonyx.primitives.reading import known_sizes
from sardonyx.primitives.trace import active_trace
from sardonyx.sizes.symbolic import Size, poly


class ControlFlow(Operator, abstract=True):
    """An operator with graphs inside."""

    structured = True

    def run(self, graph: Graph, arguments: Sequence[Any]) -> list[Any]:
        """The outputs of a subgraph, which may use whatever is known where the node stands."""
        from sardonyx.ops.interpret import interpret

        trace = active_trace()
        for array in self.captured_parts(graph):
            if trace is not None and array.value is None:
                trace.materialise(array)  # for another position the body may use another element
        inputs = dict(zip(graph.inputs, arguments, strict=True))
        return interpret(graph, {**self.environment, **inputs})

    def captured_parts(self, graph: Graph) -> list[Array]:
        """The Arrays of the sequences and maps that a subgraph uses of the graphs around it."""
        captured = [self.environment.get(value) for value in graph.captures()]
        return [array for item in captured if not isinstance(item, Array) for array in leaves(item)]


class If(ControlFlow):
    """The outputs of `then_branch` if the condition is true, else of `else_branch`."""

    then_branch: Graph
    else_branch: Graph

    def expand(self, condition: Array) -> list[Any]:
        flag = p.reshape(condition, ())
        return branch(flag, lambda: self.run(self.then_branch, ()), lambda: self.run(self.else_branch, ()))


class Loop(ControlFlow):
    """`body` again and again: for a number of trips, while a condition holds, or both.

    The condition that the body gives ends the loop wherever it is false, as in onnxruntime; ONNX has it ignored where
    the node is given none. The number of the turn and the condition have one element, and an axis if the body declares
    one. A carried value may change its shape and, as long as it does, its rank: a turn that changes a rank is taken
    while the plan is made.

    What each turn only appends to is a scan output, if all that is appended has one shape: a sequence that is empty at
    first, or a tensor that a Concat makes longer. What is appended to a sequence and differs along one axis alone is
    joined along that in every turn, unless the number of turns is known. Where other sequences or optionals are
    carried, or elements of a sequence may be used, the loop is unrolled while the plan is made, which ties the plan to
    the number of iterations.
    """

    body: Graph

    def expand(self, trips: Array | None, condition: Array | None, *carried: Any) -> list[Any]:
        trips = None if trips is None else p.reshape(trips, ())
        condition = None if condition is None else p.reshape(condition, ())
        appended = self._appended(carried)
        for some in (appended, [k for k in appended if not isinstance(carried[k], Array)]):
            ragged: dict[int, Ragged[Array]] = {}
            while some and not self._is_structured(carried, some):
                try:
                    return self._collect(trips, condition, carried, some, ragged)
                except _OtherShapeError as other:
                    start = other.start() if trips is None or trips.value is None else None
                    if start is None or carried[other.number] != ():
                        break
                    ragged[other.number] = start
        if self._is_structured(carried, ()):
            return self._unroll(trips, condition, carried)
        return loop(trips, condition, carried, self._turn)

    @classmethod
    def given(cls, graph: Graph) -> list[TensorType | None]:
        """Types of the turn's number and the condition: scalars, or of one element where the graph declares an axis."""
        own = zip((dtypes.int64, dtypes.bool_), graph.inputs)
        kinds: list[TensorType | None] = [TensorType(dtype, _of_one(value)) for dtype, value in own]
        return kinds + [None] * (len(graph.inputs) - len(kinds))

    def _turn(self, *arguments: Any) -> list[Any]:
        """The body's results for the turn's number, the condition and the carried values; its condition as a scalar."""
        own = [p.reshape(x, _of_one(value)) for x, value in zip(arguments[:2], self.body.inputs)]
        going, *results = self.run(self.body, [*own, *arguments[2:]])
        return [p.reshape(going, ()), *results]

    def _is_structured(self, carried: Sequence[Any], appended: Collection[int]) -> bool:
        own = [value for k, value in enumerate(self.body.inputs) if k - 2 not in appended]
        own += [value for k, value in enumerate(self.body.outputs) if k - 1 not in appended]
        used = (self.environment.get(value) for value in self.body.captures())
        return (
            not all(isinstance(item, Array) for k, item in enumerate(carried) if k not in appended)
            or any(isinstance(item, (tuple, Map)) for item in used)
            or any(isinstance(value.type, (SequenceType, OptionalType)) for value in own)
        )

    def _appended(self, carried: Sequence[Any]) -> list[int]:
        """The numbers of the carried values that the body does nothing with but append to."""
        if active_trace() is None:
            return []
        reads = [value for node in self.body.nodes for value in (*node.inputs, *captures(node))]
        given = [*reads, *self.body.outputs]
        found = []
        for k, item in enumerate(carried):
            before, after = self.body.inputs[2 + k], self.body.outputs[1 + k]
            made = after.producer
            appends = "SequenceInsert" if item == () else "Concat" if isinstance(item, Array) else None
            if made is None or made.op_type != appends or len(made.inputs) != 2 or made.inputs[0] is not before:
                continue
            if given.count(before) == 1 and given.count(after) == 1:
                found.append(k)
        return found

    def _collect(
        self,
        trips: Array | None,
        condition: Array | None,
        carried: Sequence[Any],
        appended: Sequence[int],
        ragged: Mapping[int, Ragged[Array]],
    ) -> list[Any]:
        """The results of the loop where what its turns append to carried values of these numbers are scan outputs.

        What is appended to `ragged` ones is joined to their tensors. Raises _OtherShapeError where shapes differ.
        """
        trace = active_trace()
        outside = set(trace.guards.hints) if trace is not None else set()
        kept = [k for k in range(len(carried)) if k not in appended]

        def turn(number: Array, going: Array, *values: Array) -> list[Any]:
            filled: list[Any] = list(carried)
            for k in appended:
                filled[k] = _emptied(carried[k], self._axis(k))
            for k, value in zip(kept, values):
                filled[k] = value
            on, *results = self._turn(number, going, *filled)
            new = {k: results[k][0] if carried[k] == () else results[k] for k in appended}
            for k, x in new.items():
                varying = [axis for axis, size in enumerate(x.shape) if not poly(size).symbols() <= outside]
                if varying and (k not in ragged or varying != [ragged[k].axis]):
                    raise _OtherShapeError(k, x, varying)
            longer = [
                p.concat([before, new[k]], ragged[k].axis)
                for k, before in zip(ragged, values[len(kept) :], strict=True)
            ]
            lengths = {k: p.literal(new[k].shape[ragged[k].axis], dtypes.int64) for k in ragged}
            slices = [lengths.get(k, x) for k, x in new.items()]
            return [on, *(results[k] for k in kept), *longer, *results[len(carried) :], *slices]

        starts = [*(carried[k] for k in kept), *(each.tensor for each in ragged.values())]
        outputs = loop(trips, condition, starts, turn)
        scans, new = outputs[len(starts) : len(outputs) - len(appended)], outputs[len(outputs) - len(appended) :]
        ends: dict[int, Any] = dict(zip(kept, outputs))
        whole = dict(zip(ragged, outputs[len(kept) :]))
        for k, slices in zip(appended, new, strict=True):
            if k in ragged:
                ends[k] = Ragged(whole[k], ragged[k].axis, slices)
                continue
            added = Stack(slices)
            before, axis = carried[k], self._axis(k)
            ends[k] = added if before == () else p.concat([before, joined(added, axis, is_new=False)], axis)
        return [*(ends[k] for k in range(len(carried))), *scans]

    def _axis(self, number: int) -> int:
        """The axis along which the body's Concat makes the carried value of this number longer."""
        made = self.body.outputs[1 + number].producer
        return 0 if made is None else int(made.attribute("axis", 0))

    def _unroll(self, trips: Array | None, condition: Array | None, carried: Sequence[Any]) -> list[Any]:
        most = None if trips is None else int(known_sizes(trips)[0])
        trace = active_trace()
        likely = 4 * len(trace.guards.hints) if trace else 0  # grows with what earlier attempts at this run found
        values = list(carried)
        rows: list[list[Array]] = []
        going = condition is None or holds(condition)
        while going and (most is None or len(rows) < most):
            if len(rows) == MOST_TURNS:
                raise ValueError(
                    f"makes more than {MOST_TURNS:,} iterations, which is too many to carry a sequence or an optional "
                    "through; carry a tensor, and append to it with Concat"
                )
            turn, flag = constant(np.int64(len(rows))), constant(np.bool_(True))
            on, *results = self._turn(turn, flag, *values)
            values = results[: len(values)]
            rows.append(results[len(values) :])
            going = holds(on, len(rows) < likely)
        if not rows:
            return [*values, *map(_no_slices, self.body.outputs[1 + len(values) :])]
        return [*values, *(p.concat([p.unsqueeze(row, [0]) for row in column], 0) for column in zip(*rows))]


class _OtherShapeError(Exception):
    """What a turn appends to the carried value of this number may differ from what other turns do, along these axes."""

    def __init__(self, number: int, appended: Array, axes: Sequence[int]) -> None:
        super().__init__(number)
        self.number = number
        self._appended = appended
        self._axes = axes

    def start(self) -> Ragged[Array] | None:
        """What is there before the first turn; None where more than one axis differs."""
        if len(self._axes) != 1:
            return None
        (axis,), shape = self._axes, self._appended.shape
        empty = p.full((*shape[:axis], 0, *shape[axis + 1 :]), 0, self._appended.dtype)
        return Ragged(empty, axis, constant(np.zeros(0, np.int64)))


def _emptied(item: Any, axis: int) -> Any:
    """The same without elements: a sequence, or a tensor with nothing along the axis."""
    if not isinstance(item, Array):
        return ()
    axis = p.normalize_axis(axis, item.rank)
    return p.full((*item.shape[:axis], 0, *item.shape[axis + 1 :]), 0, item.dtype)


def captures(node: Node) -> list[Value]:
    """What the graphs inside a node use of those around it."""
    return [value for graph in node.subgraphs() for value in graph.captures()]


def _of_one(value: Value) -> tuple[int, ...]:
    """The shape that one element has where a body declares it."""
    return (1,) if value.shape else ()


def _no_slices(value: Value) -> Array:
    """A scan output of no iteration, by its declared type; sizes that it does not tell are 0."""
    if value.dtype is None:
        raise ValueError(f"makes no iteration, and the type of its scan output {value.name!r} is not declared")
    shape = [size if isinstance(size, int) else 0 for size in value.shape or ()]
    return constant(np.zeros((0, *shape)), value.dtype)


def _was_batched(node: Node) -> bool:
    if node.attributes.pop("batched", None) is None:
        return False
    node.inputs.insert(0, None)
    return renamed("directions", "scan_input_directions").lower(node)


def _mark_batched(node: Node, make: Rewriter) -> None:
    """Operator set 8 had a batch axis in front of everything, and an input with the lengths of the sequences."""
    if node.inputs.pop(0) is not None:
        raise NotImplemented(f"{node.label} has sequence_lens of operator set 8; export the model for 9 or later")
    directions = node.attributes.pop("directions", None)
    if directions is not None:
        node.attributes["scan_input_directions"] = attribute("scan_input_directions", directions.value)
    node.attributes["batched"] = attribute("batched", 1)


class Scan(ControlFlow, since=8):
    """`body` over slices of the scan inputs, carrying state; scan outputs collect what each step gives."""

    body: Graph
    num_scan_inputs: int
    scan_input_axes: tuple[int, ...] = ()
    scan_input_directions: tuple[int, ...] = ()
    scan_output_axes: tuple[int, ...] = ()
    scan_output_directions: tuple[int, ...] = ()
    batched: int = 0
    """Whether the node is of operator set 8, lifted; no other has this attribute."""

    upgrades = {9: _mark_batched}
    downgrades = {9: _was_batched}

    def expand(self, *operands: Array) -> list[Array]:
        if not self.batched:
            return self._scan(operands)

        def one(number: Array, going: Array) -> list[Array]:
            return [constant(True), *self._scan([p.gather(x, [number], [0]) for x in operands])]

        return loop(p.literal(operands[0].shape[0], dtypes.int64), None, [], one)

    def _scan(self, operands: Sequence[Array]) -> list[Array]:
        count = self.num_scan_inputs
        state, scanned = operands[: len(operands) - count], operands[len(operands) - count :]
        axes = [p.normalize_axis(axis, x.rank) for axis, x in zip(self.scan_input_axes or [0] * count, scanned)]
        length: Size = scanned[0].shape[axes[0]]
        backwards = self.scan_input_directions or [0] * count
        for x, axis in zip(scanned, axes, strict=True):
            if x.shape[axis] != length:
                raise ValueError(f"scans {p.show(x.shape)} along axis {axis} beside an input of length {length}")

        def body(iteration: Array, going: Array, *carried: Array) -> list[Array]:
            slices = []
            for x, axis, reverse in zip(scanned, axes, backwards, strict=True):
                place = length - 1 - iteration if reverse else iteration
                slices.append(p.gather(x, [place], [axis], axis))
            return [constant(True), *self.run(self.body, (*carried, *slices))]

        results = loop(p.literal(length, dtypes.int64), None, state, body)
        finals, scans = results[: len(state)], results[len(state) :]
        out_axes = self.scan_output_axes or [0] * len(scans)
        out_backwards = self.scan_output_directions or [0] * len(scans)
        return [*finals, *(_placed(x, axis, bool(b)) for x, axis, b in zip(scans, out_axes, out_backwards))]


def _placed(stacked: Array, axis: int, reverse: bool) -> Array:
    """A scan output with its slices along the axis asked for."""
    if reverse:
        stacked = p.flip(stacked, [0])
    axis = p.normalize_axis(axis, stacked.rank)
    order = list(range(1, stacked.rank))
    order.insert(axis, 0)
    return p.transpose(stacked, order)
