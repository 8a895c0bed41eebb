"""Types by inference: what is known of Values before the model runs.

A node is expanded under a trace whose sizes are symbols, so that inference and execution cannot disagree. Where the
expansion compares sizes that the algebra cannot order, every answer is tried, and what all of them agree on is known;
answers for which the expansion raises are left out, since no run survives them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from sardonyx.array import Array, Trace, of_sizes, of_tensor
from sardonyx.compiler.interpret import Environment, expand
from sardonyx.errors import RuntimeException
from sardonyx.ir import DimLike, Graph, Node, Tensor, TensorType, Value
from sardonyx.polynomial import ZERO, Poly, symbol
from sardonyx.strings import StringTable
from sardonyx.symbolic import Dim, Guards, Size, UndecidedSizeError, poly, size

MOST_ANSWERS = 64
"""Comparisons of sizes that are answered for one node."""
MOST_CASES = 16
"""Combinations of answers that are tried for one node."""

NAMES = re.compile(r"(?!d\d+$)[A-Za-z_][\w.:]*")
"""Declared dimensions that keep their names: no expressions, and none that a new size might have."""

SMALL = 64
"""Elements up to which constants take part with their values; larger ones are not even read."""


def infer_types(graph: Graph) -> Inference:
    """Infer the types of all Values of a graph, whose nodes are in order, and of the graphs inside it.

    >>> from sardonyx.ir.text import parse_graph
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
    """

    def __init__(self, graph: Graph) -> None:
        self._arrays: dict[Value, Array | None] = {}
        self._symbols: dict[str, Size] = {}
        self._texts: dict[Poly, str] = {}
        self._count = 0
        self.strings = StringTable()
        """The ids of strings in the Arrays that are known."""
        for value in graph.inputs:
            if value.dtype is not None and value.shape is not None:
                self._arrays[value] = Array(value.dtype, tuple(map(self._size, value.shape)))

    # ---- asking

    def array(self, value: Value) -> Array | None:
        """What is known of a Value: element type, sizes and, if they are sizes themselves or constant, elements."""
        if value not in self._arrays and value.constant is not None:
            self._arrays[value] = self._of_tensor(value.constant)
        return self._arrays.get(value)

    def elements(self, value: Value) -> list[Size] | None:
        """The elements of an integer Value that is constant or computed from sizes."""
        array = self.array(value)
        if array is None or not array.dtype.is_int:
            return None
        known = array.sizes if array.sizes is not None else array.value
        return None if known is None else list(known.reshape(-1).tolist())

    # ---- telling

    def infer(self, node: Node) -> None:
        """Find out what the outputs of a node are; its inputs and its subgraphs come before it."""
        branches = list(node.subgraphs())
        found: Sequence[Array | None] = ()
        if node.op_type == "Constant" and isinstance(tensor := node.attribute("value"), Tensor):
            found = [self._of_tensor(tensor)]
        elif branches:
            if node.op_type == "If":
                columns = zip(*([self.array(value) for value in graph.outputs] for graph in branches), strict=False)
                found = [self._merge([_Case(array) for array in column]) for column in columns]
        elif node.op_type == "Optional":
            found = ()  # its type is not that of its element, though an expansion cannot tell them apart
        elif all(value is None or self.array(value) is not None for value in node.inputs):
            found = self._expand(node)
        for value, array in zip(node.outputs, [*found, *[None] * len(node.outputs)], strict=False):
            self.record(value, array)

    def infer_all(self, graph: Graph) -> None:
        """Infer every node of a graph, after those of the graphs inside it."""
        for node in graph.nodes:
            for inner in node.subgraphs():
                self.enter(inner)
                self.infer_all(inner)
            self.infer(node)

    def record(self, value: Value, array: Array | None) -> None:
        self._arrays[value] = array
        if array is not None:
            value.type = TensorType(array.dtype, tuple(map(self._show, array.shape)))
        elif isinstance(value.type, TensorType):
            value.type = TensorType(value.type.dtype)

    def enter(self, graph: Graph) -> None:
        """Forget the shapes of a subgraph's inputs: those declared may not hold for every iteration."""
        for value in graph.inputs:
            self.record(value, None)

    def adopt(self, value: Value, old: Value) -> None:
        """Let a Value that replaces another be known at least as well."""
        known = self.array(old)
        if known is not None and self.array(value) is None:
            self.record(value, known)

    def agree(self, one: Value, other: Value) -> bool:
        """Whether two Values can be the same, for all that is known of them."""
        a, b = self.array(one), self.array(other)
        if a is None or b is None:
            return True
        known = all(isinstance(i, Dim) or isinstance(j, Dim) or i == j for i, j in zip(a.shape, b.shape))
        return a.dtype is b.dtype and a.rank == b.rank and known

    def _of_tensor(self, tensor: Tensor) -> Array:
        with self.strings:
            return of_tensor(tensor) if prod(tensor.shape) <= SMALL else Array(tensor.dtype, tensor.shape)

    # ---- sizes

    def _size(self, dim: DimLike) -> Size:
        """The size that a declared dimension stands for."""
        if isinstance(dim, int):
            return dim
        if dim is None:
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
        cases: list[list[_Case]] = []
        answers: list[bool] | None = []
        tried = 0
        while answers is not None:
            guards = _Answers(answers)
            try:
                arrays = self._run(node, guards)
            except RuntimeException as error:
                if not isinstance(error.__cause__, ValueError):
                    return []
                arrays = None
            except Exception:  # what cannot be inferred must not keep a model from running
                return []
            if arrays is not None:
                cases.append([_Case(array, guards.equations()) for array in arrays])
            answers = guards.next()
            tried += 1
            if tried == MOST_CASES:
                return []
        return [self._merge(column) for column in zip(*cases, strict=True)]

    def _run(self, node: Node, guards: Guards) -> list[Array | None]:
        trace = _Trace(guards, self)
        environment: Environment = {}
        for value in node.inputs:
            if value is not None and (array := self.array(value)) is not None:
                known = array.value is not None or array.sizes is not None
                environment[id(value)] = array if known else trace.input(array.dtype, array.shape)
        with trace, np.errstate(all="ignore"):
            expand(node, environment)
        found = (environment.get(id(value)) for value in node.outputs)
        return [
            Array(each.dtype, each.shape, each.value, each.sizes) if isinstance(each, Array) else None for each in found
        ]

    def _merge(self, cases: Sequence[_Case]) -> Array | None:
        """What holds in every case."""
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
        known = np.empty(len(lists[0]), dtype=object)
        known[:] = [self._agree(list(items), cases, True) for items in zip(*lists)]
        return of_sizes(known.reshape(first.shape), first.dtype, shape)

    def _agree(self, sizes: list[Size], cases: Sequence[_Case], negative: bool = False) -> Size:
        """The one of these sizes that the others are equal to, each in its case; a new symbol if there is none."""
        for candidate in sizes:
            if all(case.equal(other, candidate) for other, case in zip(sizes, cases)):
                return candidate
        return self.new_size(negative)


def _listed(array: Array) -> list[Size]:
    """The elements of sizes, where they are known and there are few."""
    if not array.dtype.is_int or array.rank > 1:
        return []
    known = array.sizes if array.sizes is not None else array.value
    return [] if known is None or known.size > 64 else list(known.reshape(-1).tolist())


class _Trace(Trace):
    """A trace whose new symbols are those of an Inference, for it is not the only one there."""

    def __init__(self, guards: Guards, facts: Inference) -> None:
        super().__init__(guards, strings=facts.strings)
        self.facts = facts

    def fresh_symbol(self, guess: int, stem: str = "n") -> Dim:
        return self.facts.new_size(stem.startswith("?"))


class _Answers(Guards):
    """Answers comparisons as it is told, and `yes` beyond that; the numbers of sizes are not to be had."""

    def __init__(self, answers: Sequence[bool]) -> None:
        super().__init__()
        self.answers = answers

    def decide(self, polynomial: Poly, relation: str) -> bool:
        place = len(self.facts)
        if place == MOST_ANSWERS and (polynomial, relation) not in self.facts:
            raise UndecidedSizeError(f"more than {MOST_ANSWERS} comparisons, as of a loop over a size")
        return self.facts.setdefault((polynomial, relation), self.answers[place] if place < len(self.answers) else True)

    def value(self, polynomial: Poly) -> int:
        raise UndecidedSizeError(f"the number of {polynomial} is not known")

    def next(self) -> list[bool] | None:
        """The answers to try next, or None if all combinations were tried."""
        answers = list(self.facts.values())
        while answers and not answers[-1]:
            answers.pop()
        return [*answers[:-1], False] if answers else None

    def equations(self) -> list[dict[str, Poly]]:
        """The equalities that were answered `yes`, each solved for a symbol."""
        equal = (polynomial for polynomial, relation, truth in self if truth and relation == "==")
        return [solution for polynomial in equal if (solution := _solved(polynomial))]


def _solved(polynomial: Poly) -> dict[str, Poly] | None:
    """What one symbol is if the polynomial is 0."""
    for monomial, factor in polynomial.terms:
        if len(monomial) == 1 and isinstance(monomial[0], str) and factor in (1, -1):
            rest = polynomial - Poly(((monomial, factor),))
            if monomial[0] not in rest.symbols():
                return {monomial[0]: rest.scaled(-factor)}
    return None


@dataclass
class _Case:
    """An output as it is when certain comparisons came out in a certain way."""

    array: Array | None
    equations: Sequence[Mapping[str, Poly]] = ()

    def equal(self, a: Size, b: Size) -> bool:
        difference = poly(a) - poly(b)
        for equation in self.equations:
            difference = difference.substitute(equation)
        return difference == ZERO
