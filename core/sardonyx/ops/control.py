"""Control flow: If, Loop, Scan. The graphs inside are expanded by the interpreter when their turn comes."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx import dtypes
from sardonyx import primitives as p
from sardonyx.array import Array, constant
from sardonyx.errors import NotImplemented
from sardonyx.ir import Graph, Node
from sardonyx.ir.build import attribute
from sardonyx.ops.operator import Operator, Rewriter
from sardonyx.primitives.control import branch, loop
from sardonyx.symbolic import Size


class _ControlFlow(Operator, abstract=True):
    def run(self, graph: Graph, arguments: Sequence[Array]) -> list[Array]:
        """The outputs of a subgraph, which may use whatever is known where the node stands."""
        from sardonyx.compiler.interpret import interpret

        inputs = {id(value): array for value, array in zip(graph.inputs, arguments, strict=True)}
        return interpret(graph, {**self.environment, **inputs})


class If(_ControlFlow, since=25):
    """The outputs of `then_branch` if the condition is true, else of `else_branch`."""

    then_branch: Graph
    else_branch: Graph

    def expand(self, condition: Array) -> list[Array]:
        flag = p.reshape(condition, ())
        return branch(flag, lambda: self.run(self.then_branch, ()), lambda: self.run(self.else_branch, ()))


class Loop(_ControlFlow, since=25):
    """`body` again and again: for a number of trips, while a condition holds, or both."""

    body: Graph

    def expand(self, trips: Array | None, condition: Array | None, *carried: Array) -> list[Array]:
        trips = None if trips is None else p.reshape(trips, ())
        condition = None if condition is None else p.reshape(condition, ())

        def body(*arguments: Array) -> list[Array]:
            going, *results = self.run(self.body, arguments)
            return [p.reshape(going, ()), *results]

        return loop(trips, condition, carried, body)


def _mark_batched(node: Node, make: Rewriter) -> None:
    """Operator set 8 had a batch axis in front of everything, and an input with the lengths of the sequences."""
    if node.inputs.pop(0) is not None:
        raise NotImplemented(f"{node.label} has sequence_lens of operator set 8; export the model for 9 or later")
    directions = node.attributes.pop("directions", None)
    if directions is not None:
        node.attributes["scan_input_directions"] = attribute("scan_input_directions", directions.value)
    node.attributes["batched"] = attribute("batched", 1)


class Scan(_ControlFlow, since=25):
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
