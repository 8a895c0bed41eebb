"""Patterns: expressions over operators that a rewriting rule looks for.

    x, w, b = variables("x w b")
    op.MatMul(x, w) + b                      an Add of a MatMul, in either order
    op.Relu(op.Conv(x, w, b.optional).once)  the Conv has no other user, its bias may be missing
    op.Transpose(x, perm=[0]).named("node")  an attribute has this value, the Node is bound
    x * 0.5                                  a scalar constant, but for rounding
    op.Cast(x) | x                           one or the other

A name is bound to a Value, or to a Node where `named` gave it; what occurs twice must be the same. With Values for
arguments, the same expressions make new nodes: `op.Gemm(x, w, b, alpha=0.5)` is the output of a new Gemm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import EllipsisType
from typing import Any, TypeAlias, overload

from sardonyx import ops
from sardonyx.common.cached import cached_property
from sardonyx.common.record import field, record, replace
from sardonyx.model.ir import Node, Value
from sardonyx.model.ir.build import node as new_node

Bindings: TypeAlias = dict[str, Any]
"""The Value or Node that each name of a pattern is bound to in one match."""

Uses: TypeAlias = Mapping[Value, int]
"""How often each Value is used, as an input or as a graph's output."""


def makers(node: Node) -> set[str]:
    """The operators that make the inputs of a node; an empty name stands for a constant.

    A pattern cannot match a node that lacks one of its `NodePattern.makers`, so it need not be tried.
    """
    op_types = set()
    for value in node.inputs:
        if value is not None:
            if value.constant is not None:
                op_types.add("")
            elif value.producer is not None:
                op_types.add(value.producer.op_type)
    return op_types


COMMUTATIVE = frozenset({"Add", "Mul", "Max", "Min", "Sum", "And", "Or", "Xor", "Equal"})
ROUNDING = 1e-3
"""How far, relatively, a constant may be from a number with a fraction: float16 and tanh-Gelu's shortened constants."""


class Pattern:
    """What a Value may look like."""

    @property
    def is_constant(self) -> bool:
        """Whether nothing but constants matches."""
        return False

    def match(self, value: Value | None, bindings: Bindings, uses: Uses) -> Iterator[Bindings]:
        """Extend the bindings in every way in which the Value matches this pattern."""
        raise NotImplementedError

    def may_match(self, value: Value | None) -> bool:
        """Whether a quick look at the Value does not rule a match out."""
        return value is not None

    def names(self) -> set[str]:
        return set()

    def __or__(self, other: Pattern) -> Either:
        return Either((self, other))

    def __add__(self, other: Operand) -> NodePattern:
        return op.Add(self, _pattern(other))

    def __sub__(self, other: Operand) -> NodePattern:
        return op.Sub(self, _pattern(other))

    def __mul__(self, other: Operand) -> NodePattern:
        return op.Mul(self, _pattern(other))

    def __truediv__(self, other: Operand) -> NodePattern:
        return op.Div(self, _pattern(other))

    def __pow__(self, other: Operand) -> NodePattern:
        return op.Pow(self, _pattern(other))

    __radd__ = __add__
    __rmul__ = __mul__

    def __rtruediv__(self, other: float) -> NodePattern:
        return op.Div(_pattern(other), self)


Operand: TypeAlias = "Pattern | float"


def _pattern(operand: Operand) -> Pattern:
    return operand if isinstance(operand, Pattern) else Literal(operand)


@record(frozen=True, eq=False)
class Variable(Pattern):
    """Any Value, or any that is constant; an optional one may be missing, and is None then."""

    name: str
    constant: bool = False
    missing: bool = False

    @property
    def is_constant(self) -> bool:
        return self.constant and not self.missing

    @property
    def optional(self) -> Variable:
        return replace(self, missing=True)

    def may_match(self, value: Value | None) -> bool:
        return self.missing if value is None else not self.constant or value.constant is not None

    def match(self, value: Value | None, bindings: Bindings, uses: Uses) -> Iterator[Bindings]:
        if self.may_match(value) and (self.name not in bindings or bindings[self.name] is value):
            yield {**bindings, self.name: value}

    def names(self) -> set[str]:
        return {self.name}


def variables(names: str) -> list[Variable]:
    """A pattern for each of the names."""
    return [Variable(name) for name in names.split()]


def constants(names: str) -> list[Variable]:
    """A pattern for each of the names, that only constants match."""
    return [Variable(name, constant=True) for name in names.split()]


@record(frozen=True, eq=False)
class Literal(Pattern):
    """A scalar constant: an integer exactly, a fraction but for rounding."""

    number: float
    is_constant = True

    def may_match(self, value: Value | None) -> bool:
        return value is not None and value.constant is not None

    def match(self, value: Value | None, bindings: Bindings, uses: Uses) -> Iterator[Bindings]:
        number = scalar(value)
        if number is not None and math.isclose(number, self.number, rel_tol=ROUNDING if self.number % 1 else 0.0):
            yield bindings


def scalar(value: Value | None) -> float | None:
    """The number in a constant of rank 0, if this is one."""
    tensor = value.constant if value is not None else None
    if tensor is None or tensor.shape or not tensor.dtype.is_native or tensor.dtype.kind in ("string", "complex"):
        return None
    return float(tensor.array())


@record(frozen=True, eq=False)
class Either(Pattern):
    """A Value that matches one of several patterns; names that only the other patterns bind are None."""

    choices: tuple[Pattern, ...]

    def __or__(self, other: Pattern) -> Either:
        return Either((*self.choices, other))

    def names(self) -> set[str]:
        return {name for choice in self.choices for name in choice.names()}

    def may_match(self, value: Value | None) -> bool:
        return any(choice.may_match(value) for choice in self.choices)

    def match(self, value: Value | None, bindings: Bindings, uses: Uses) -> Iterator[Bindings]:
        for choice in self.choices:
            if choice.may_match(value):
                yield from choice.match(value, bindings, uses)


Condition: TypeAlias = "Callable[[Any], bool] | Any"


@record(frozen=True, eq=False)
class NodePattern(Pattern):
    """A node of an operator, or rather its first output; `rest` stands for any further inputs."""

    op_type: str
    domain: str
    inputs: tuple[Pattern, ...]
    rest: bool = False
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    name: str = ""
    output: int = 0
    single: bool = False

    @property
    def once(self) -> NodePattern:
        """Only where nothing else uses the Value."""
        return replace(self, single=True)

    def named(self, name: str) -> NodePattern:
        """Bind the Node to a name."""
        return replace(self, name=name)

    def __getitem__(self, output: int) -> NodePattern:
        """Another output of the node."""
        return replace(self, output=output)

    def names(self) -> set[str]:
        return {self.name} - {""} | {name for pattern in self.inputs for name in pattern.names()}

    @cached_property
    def makers(self) -> frozenset[str]:
        """The operators that make inputs of every node that matches; an empty name stands for a constant."""
        op_types = {pattern.op_type for pattern in self.inputs if isinstance(pattern, NodePattern)}
        return frozenset(op_types | {""} if any(each.is_constant for each in self.inputs) else op_types)

    def may_match(self, value: Value | None) -> bool:
        return value is not None and value.producer is not None and value.producer.op_type == self.op_type

    def match(self, value: Value | None, bindings: Bindings, uses: Uses) -> Iterator[Bindings]:
        node = value.producer if value is not None else None
        if node is None or self.output >= len(node.outputs) or node.outputs[self.output] is not value:
            return
        if not self.single or uses[value] == 1:
            yield from self.match_node(node, bindings, uses)

    def match_node(self, node: Node, bindings: Bindings, uses: Uses) -> Iterator[Bindings]:
        """Extend the bindings in every way in which a node matches this pattern."""
        if node.op_type != self.op_type or node.domain != self.domain:
            return
        if self.name:
            if bindings.get(self.name, node) is not node:
                return
            bindings = {**bindings, self.name: node}
        if all(_holds(node, name, condition) for name, condition in self.conditions.items()):
            yield from self._match_inputs(node.inputs, bindings, uses)
            if self.op_type in COMMUTATIVE and len(self.inputs) == len(node.inputs) == 2 and not self._symmetric:
                yield from self._match_inputs(node.inputs[::-1], bindings, uses)

    @cached_property
    def _symmetric(self) -> bool:
        """Whether both operands are one pattern, so that their order does not matter."""
        return self.inputs[0] is self.inputs[1]

    def _match_inputs(self, values: Sequence[Value | None], bindings: Bindings, uses: Uses) -> Iterator[Bindings]:
        count = len(self.inputs)
        operands = [*values[:count], *[None] * (count - len(values))]
        for pattern, value in zip(self.inputs, operands):
            if not pattern.may_match(value):
                return
        if not self.rest and any(value is not None for value in values[count:]):
            return
        matches = [bindings]
        for pattern, value in zip(self.inputs, operands):
            matches = [more for match in matches for more in pattern.match(value, match, uses)]
        yield from matches


def _holds(node: Node, name: str, condition: Condition) -> bool:
    operator = ops.find(node.domain, node.op_type)
    value = node.attribute(name, operator.attributes.get(name) if operator else None)
    if callable(condition):
        return bool(condition(value))
    return bool(value == (type(value)(condition) if isinstance(value, (list, tuple)) else condition))


@record(frozen=True)
class Factory:
    """An operator by name: of patterns it makes a pattern, of Values the output of a new node."""

    op_type: str
    domain: str = ""

    @overload
    def __call__(self, *inputs: Value | None, **attributes: Any) -> Value: ...
    @overload
    def __call__(self, *inputs: Operand | EllipsisType, **attributes: Any) -> NodePattern: ...
    def __call__(self, *inputs: Any, **attributes: Any) -> Any:
        if any(isinstance(item, (Pattern, EllipsisType)) for item in inputs):
            rest = inputs[-1] is ...
            patterns = tuple(map(_pattern, inputs[:-1] if rest else inputs))
            return NodePattern(self.op_type, self.domain, patterns, rest, attributes)
        operands = list(inputs)
        while operands and operands[-1] is None:
            operands.pop()
        return new_node(self.op_type, operands, attributes=attributes, domain=self.domain).outputs[0]


class Operators:
    """The operators of a domain as attributes."""

    def __init__(self, domain: str = "") -> None:
        self.domain = domain

    def __getattr__(self, op_type: str) -> Factory:
        if op_type.startswith("__"):
            raise AttributeError(op_type)
        return Factory(op_type, self.domain)


op = Operators()
microsoft = Operators("com.microsoft")


def changed(node: Node, *inputs: Value | None, factory: Factory | None = None, **attributes: Any) -> Value:
    """The first output of a new node like this one, with other inputs, some other attributes, or another operator."""
    make = factory or Factory(node.op_type, node.domain)
    inherited = {name: each for name, each in node.attributes.items() if name not in attributes}
    value = make(*inputs, **attributes)
    assert value.producer is not None
    value.producer.attributes |= inherited
    return value
