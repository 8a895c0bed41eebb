"""Types by inference: what is known of Values before the model runs.

A node is expanded under a trace whose sizes are symbols, so that inference and execution cannot disagree. Where the
expansion compares sizes that the algebra cannot order, every answer is tried, and what all of them agree on is known;
answers for which the expansion raises are left out, since no run survives them.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from math import prod

import numpy as np

from sardonyx import ops
from sardonyx.common.strings import StringTable
from sardonyx.errors import RuntimeException
from sardonyx.model.ir import DimLike, Graph, Node, Tensor, TensorType, Value
from sardonyx.ops.interpret import Environment, expand
from sardonyx.passes.cases import Answers, Case, bound
from sardonyx.passes.intern import call_key
from sardonyx.passes.uniform import NO_TENSORS, same_as_operand
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import of_tensor
from sardonyx.primitives.evaluation import of_sizes
from sardonyx.primitives.trace import Trace
from sardonyx.sizes.polynomial import Poly, symbol
from sardonyx.sizes.symbolic import Dim, Guards, Size, poly, size

MOST_CASES = 16
"""Combinations of answers that are tried for one node."""

NAMES = re.compile(r"(?!d\d+$)[A-Za-z_][\w.:]*")
"""Declared dimensions that keep their names: no expressions, and none that a new size might have."""

SMALL = 64
"""Elements up to which constants take part with their values; larger ones are not even read."""


def infer_types(graph: Graph) -> Inference:
    """Infer the types of all Values of a graph, whose nodes are in order, and of the graphs inside it.

    >>> from sardonyx.model.ir.text import parse_graph
    >>> graph = parse_graph("(float32[N,4] x) => (y) { h = Concat<axis = 1>(x, x)  y = Shape(h) }")
    >>> facts = infer_types(graph)
    >>> print(graph.nodes[0].outputs[0].type, facts.elements(graph.outputs[0]))
    float32[N,8] [N, 8]
    """
    facts = Inference(graph)
    facts.infer_all(graph)
    return facts


class Inference:
    """Records `Value.type` node by node; `array` and `elements` tell what a type cannot say.

    Dimensions get names: those of the graph's inputs, expressions of these, or new names for sizes of which nothing is
    known. Equal names are equal sizes. A type without a shape is one whose rank is not known.

    Arrays of which the same is known are one object, so that layers which repeat are expanded once.
    """

    def __init__(self, graph: Graph) -> None:
        self._arrays: dict[Value, Array | None] = {}
        self._unique: dict[Hashable, Array] = {}
        self._types: dict[Array, TensorType] = {}
        self._expanded: dict[Hashable, list[Array | None]] = {}
        self._reads = 0
        self._symbols: dict[str, Size] = {}
        self._texts: dict[Poly, str] = {}
        self._count = 0
        self.strings = StringTable()
        """The ids of strings in the Arrays that are known."""
        self._declared: set[Value] = set()
        """Outputs of graphs inside, whose declared types hold."""
        for value in graph.inputs:
            if isinstance(value.type, TensorType) and (array := self._of_type(value.type)) is not None:
                self._arrays[value] = self._one(array)

    # ---- asking

    def array(self, value: Value) -> Array | None:
        """What is known of a Value: element type, sizes and, if they are sizes themselves or constant, elements."""
        if value not in self._arrays and value.constant is not None:
            self._arrays[value] = self._one(self._of_tensor(value.constant))
        return self._arrays.get(value)

    def elements(self, value: Value) -> list[Size] | None:
        """The elements of an integer Value that is constant or computed from sizes."""
        array = self.array(value)
        if array is None or not array.dtype.is_int:
            return None
        elements = array.sizes if array.sizes is not None else array.value
        return None if elements is None else list(elements.reshape(-1).tolist())

    # ---- telling

    def infer(self, node: Node) -> None:
        """Find out what the outputs of a node are; its inputs and its subgraphs come before it."""
        branches = list(node.subgraphs())
        outputs: Sequence[Array | None] = ()
        if node.op_type == "Constant" and isinstance(tensor := node.attribute("value"), Tensor):
            outputs = [self._of_tensor(tensor)]
        elif branches:
            if node.op_type == "If":
                columns = zip(*([self.array(value) for value in graph.outputs] for graph in branches), strict=False)
                outputs = [self._merge([Case(array) for array in column]) for column in columns]
        elif node.op_type not in NO_TENSORS:
            operands = [None if value is None else self.array(value) for value in node.inputs]
            if all(array is not None or value is None for array, value in zip(operands, node.inputs)):
                outputs = self._results(node, operands)
        for value, array in zip(node.outputs, [*outputs, *[None] * len(node.outputs)], strict=False):
            self.record(value, array)

    def _results(self, node: Node, operands: Sequence[Array | None]) -> Sequence[Array | None]:
        """The Arrays of a node's outputs for the Arrays of its operands."""
        if (array := same_as_operand(node, operands)) is not None:
            return [array]
        key = call_key(node, tuple(operands))
        if key not in self._expanded:
            reads = self._reads
            results = list(map(self._one, self._expand(node)))
            if self._reads > reads:  # sizes that depend on data differ from node to node
                return results
            self._expanded[key] = results
        return self._expanded[key]

    def _one(self, array: Array | None) -> Array | None:
        """The one Array that stands for all equal ones."""
        return None if array is None else self._unique.setdefault(_array_key(array), array)

    def inferred(self, value: Value) -> Value:
        """Infer the type of a new node's output, and return the output."""
        if value.producer is not None:
            self.infer(value.producer)
        return value

    def infer_all(self, graph: Graph) -> None:
        """Infer every node of a graph, after those of the graphs inside it."""
        for node in graph.nodes:
            for inner in node.subgraphs():
                self.enter(inner, node)
                self.infer_all(inner)
            self.infer(node)

    def record(self, value: Value, array: Array | None) -> None:
        self._arrays[value] = array = self._one(array)
        if array is not None:
            if array not in self._types:
                self._types[array] = TensorType(array.dtype, tuple(map(self._show, array.shape)))
            value.type = self._types[array]
        elif isinstance(value.type, TensorType) and value not in self._declared:
            value.type = TensorType(value.type.dtype)

    def enter(self, graph: Graph, holder: Node) -> None:
        """Forget the shapes of a subgraph's inputs: those declared may not hold for every iteration, unless the
        operator says so."""
        operator = ops.find(holder.domain, holder.op_type)
        if operator is not None and operator.declared:
            self._declared.update(graph.inputs, graph.outputs)
        kinds = [None] * len(graph.inputs) if operator is None else operator.given(graph)
        for value, kind in zip(graph.inputs, kinds, strict=True):
            self.record(value, None if kind is None else self._of_type(kind))

    def _of_type(self, kind: TensorType) -> Array | None:
        """The Array that a type describes; None where the type has no shape."""
        if kind.dtype is None or kind.shape is None:
            return None
        return Array(kind.dtype, tuple(map(self._size, kind.shape)))

    def adopt(self, value: Value, old: Value) -> None:
        """Record for a Value the Array of the one that it replaces, unless it has its own."""
        array = self.array(old)
        if array is not None and self.array(value) is None:
            self.record(value, array)

    def agree(self, one: Value, other: Value) -> bool:
        """Whether the inferred types and sizes of two Values allow them to be equal."""
        a, b = self.array(one), self.array(other)
        if a is None or b is None:
            return True
        compatible = all(isinstance(i, Dim) or isinstance(j, Dim) or i == j for i, j in zip(a.shape, b.shape))
        return a.dtype is b.dtype and a.rank == b.rank and compatible

    def _of_tensor(self, tensor: Tensor) -> Array:
        with self.strings:
            return of_tensor(tensor) if prod(tensor.shape) <= SMALL else Array(tensor.dtype, tensor.shape)

    # ---- sizes

    def _size(self, dim: DimLike) -> Size:
        """The size that a declared dimension stands for."""
        if isinstance(dim, int):
            return dim
        if dim in (None, "", "?"):
            return self.new_size()
        if dim not in self._symbols:
            self._symbols[dim] = size(symbol(dim)) if NAMES.fullmatch(dim) else self.new_size()
        return self._symbols[dim]

    def new_size(self, negative: bool = False) -> Dim:
        """A size, or a number that may be negative, of which nothing else is known."""
        self._count += 1
        return Dim(symbol(f"{'?' if negative else ''}d{self._count}"))

    def _show(self, dim: Size) -> DimLike:
        if not isinstance(dim, Dim):
            return dim
        if dim.poly not in self._texts:
            self._texts[dim.poly] = str(dim)
        return self._texts[dim.poly]

    # ---- expanding

    def _expand(self, node: Node) -> list[Array | None]:
        cases: list[list[Case]] = []
        answers: list[bool] | None = []
        tried = 0
        while answers is not None:
            guards = Answers(answers)
            try:
                arrays = self._run(node, guards)
            except RuntimeException as error:
                if not isinstance(error.__cause__, ValueError):
                    return []
                arrays = None
            except Exception:  # what cannot be inferred must not keep a model from running
                return []
            if arrays is not None:
                cases.append([Case(array, list(guards)) for array in arrays])
            answers = guards.next()
            tried += 1
            if tried == MOST_CASES:
                return []
        return [self._merge(column) for column in zip(*cases, strict=True)]

    def _run(self, node: Node, guards: Guards) -> list[Array | None]:
        trace = _InferenceTrace(guards, self)
        environment: Environment = {}
        for value in node.inputs:
            if value is not None and (array := self.array(value)) is not None:
                has_elements = array.value is not None or array.sizes is not None
                environment[value] = array if has_elements else trace.input(array.dtype, array.shape)
        with trace, np.errstate(all="ignore"):
            expand(node, environment)
        items = (environment.get(value) for value in node.outputs)
        return [
            Array(each.dtype, each.shape, each.value, each.sizes) if isinstance(each, Array) else None for each in items
        ]

    def _merge(self, cases: Sequence[Case]) -> Array | None:
        """The Array that is right in every case, with new symbols for sizes that differ."""
        arrays = [case.array for case in cases if case.array is not None]
        if not arrays or len(arrays) < len(cases):
            return None
        first = arrays[0]
        if len(arrays) == 1:
            return first
        if any(array.dtype is not first.dtype or array.rank != first.rank for array in arrays):
            return None
        shape = tuple(self._agree(list(sizes), cases) for sizes in zip(*(array.shape for array in arrays)))
        lists = [_listed(array) for array in arrays]
        if len({len(items) for items in lists}) > 1 or not lists[0]:
            return Array(first.dtype, shape)
        elements = np.empty(len(lists[0]), dtype=object)
        elements[:] = [self._agree(list(items), cases, True) for items in zip(*lists)]
        return of_sizes(elements.reshape(first.shape), first.dtype, shape)

    def _agree(self, sizes: list[Size], cases: Sequence[Case], negative: bool = False) -> Size:
        """The one of these sizes that the others are equal to, each in its case; a new symbol if there is none."""
        for candidate in sizes:
            if all(case.equal(other, candidate) for other, case in zip(sizes, cases)):
                return candidate
        extreme = bound(sizes, cases) if len(cases) == 2 else None
        return self.new_size(negative) if extreme is None else extreme


def _array_key(array: Array) -> Hashable:
    """A key that is equal for Arrays with equal type, sizes and elements."""
    shape = tuple([item.poly if isinstance(item, Dim) else item for item in array.shape])
    if array.sizes is not None:
        return array.dtype, shape, tuple(map(poly, array.sizes.reshape(-1).tolist()))
    if array.value is None:
        return array.dtype, shape
    return array.dtype, shape, id(array) if array.value.dtype == object else array.value.tobytes()


def _listed(array: Array) -> list[Size]:
    """The elements of sizes, where they are known and there are few."""
    if not array.dtype.is_int or array.rank > 1:
        return []
    elements = array.sizes if array.sizes is not None else array.value
    return [] if elements is None or elements.size > 64 else list(elements.reshape(-1).tolist())


class _InferenceTrace(Trace):
    """A trace whose new symbols are those of an Inference, for it is not the only one there."""

    def __init__(self, guards: Guards, facts: Inference) -> None:
        super().__init__(guards, strings=facts.strings)
        self.facts = facts

    def fresh_symbol(self, guess: int, stem: str = "n") -> Dim:
        self.facts._reads += 1
        return self.facts.new_size(stem.startswith("?"))
