"""The model in memory, in ONNX's own nouns: Model, Graph, Function, Node, Value, Attribute, Tensor.

A graph owns its nodes in an order in which every Value is made before it is used. Values are compared by identity;
their names matter only to people and files. A subgraph may use Values of the graphs around it. `unread` are fields of a
file that the engine does not look at (training information, device placement ...), as they stood there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np

from sardonyx.common.dtypes import DType
from sardonyx.common.record import field, record
from sardonyx.common.spill import spilled
from sardonyx.errors import printable
from sardonyx.model.ir.types import DimLike, TensorType, ValueType

FunctionKey: TypeAlias = tuple[str, str, str]
"""Domain, name and overload of a function."""


@record(eq=False)
class Tensor:
    """A constant. `array()` is a read-only view wherever the bytes allow it; nothing is read before it is asked for.

    The array has `dtype.storage` as its NumPy type: bfloat16, float8 and 4-bit values are the integers that encode
    them, one element to an integer. It may be unaligned, for files align nothing.
    """

    dtype: DType
    shape: tuple[int, ...]
    load: Callable[[], np.ndarray]
    name: str = ""
    doc: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    unread: bytes = b""
    product: tuple[Tensor, np.ndarray] | None = field(default=None, repr=False)
    """The constant, and the factors broadcast to it, that this is the product of: a device may compute it instead."""
    typed: bool = field(default=False, repr=False)
    """Whether files have its elements as numbers in the field of their type, as `onnx.helper.make_tensor` writes them,
    and not as raw bytes."""
    _array: np.ndarray | None = field(default=None, repr=False)

    def array(self) -> np.ndarray:
        if self._array is None:
            self._array = spilled(self.load())
        return self._array

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=object)) if self.shape else 1

    @classmethod
    def of(cls, array: np.ndarray, dtype: DType, name: str = "") -> Tensor:
        """The constant that holds this array."""
        stored = spilled(array)
        return cls(dtype, tuple(array.shape), lambda: stored, name, _array=stored)

    def scaled(self, factors: np.ndarray) -> Tensor:
        """This constant of floats times factors of the same type that broadcast to it, computed when it is needed."""
        base, array = self, factors
        if self.product is not None:
            base, earlier = self.product
            array = earlier * factors
        return Tensor(base.dtype, base.shape, lambda: base.array() * array, product=(base, array))


@record(eq=False)
class SparseTensor:
    """A constant in coordinate form: `values` [n], `indices` [n] or [n, rank], and the dense shape."""

    values: Tensor
    indices: Tensor
    shape: tuple[int, ...]


@record
class Attribute:
    """A named constant of a node. `kind` is the name of ONNX's AttributeType in lower case (`int`, `floats`, `graph`);
    `reference` names the function's attribute that this one stands for, if any. Lists of more than 4096 numbers come
    from files as `array.array`s."""

    name: str
    kind: str
    value: Any
    reference: str = ""
    doc: str = ""
    unread: bytes = b""


@record(eq=False)
class Value:
    """What a node makes or a graph is given. `producer` is None for graph inputs, initializers and function inputs."""

    name: str
    type: ValueType | None = None
    producer: Node | None = None
    constant: Tensor | None = None
    doc: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    unread: bytes = b""

    @property
    def dtype(self) -> DType | None:
        return self.type.dtype if isinstance(self.type, TensorType) else None

    @property
    def shape(self) -> tuple[DimLike, ...] | None:
        return self.type.shape if isinstance(self.type, TensorType) else None

    def __repr__(self) -> str:
        return f"<Value {self.name!r}: {self.type or '?'}>"


@record(eq=False)
class Node:
    """One call of an operator. A missing optional input is None; an unused optional output has an empty name."""

    op_type: str
    inputs: list[Value | None]
    outputs: list[Value]
    attributes: dict[str, Attribute] = field(default_factory=dict)
    domain: str = ""
    name: str = ""
    overload: str = ""
    doc: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    unread: bytes = b""

    def __post_init__(self) -> None:
        for output in self.outputs:
            output.producer = self

    def attribute(self, name: str, default: Any = None) -> Any:
        """The value of an attribute, or the default where the node does not have it."""
        attribute = self.attributes.get(name)
        return default if attribute is None else attribute.value

    @property
    def function_key(self) -> FunctionKey:
        """The function that this node calls, where the model has it."""
        return self.domain, self.op_type, self.overload

    def subgraphs(self) -> Iterator[Graph]:
        for attribute in self.attributes.values():
            if attribute.kind == "graph":
                yield attribute.value
            elif attribute.kind == "graphs":
                yield from attribute.value

    @property
    def label(self) -> str:
        """How errors name this node: operator and name, or the first output where the node has no name."""
        name = self.name or next((value.name for value in self.outputs if value.name), "")
        operator = f"{self.domain}.{self.op_type}" if self.domain else self.op_type
        return printable(f"{operator} '{name}'")

    def __repr__(self) -> str:
        return f"<Node {self.label}>"


@record(eq=False)
class Graph:
    """Nodes from inputs and initializers to outputs."""

    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    initializers: list[Value] = field(default_factory=list)
    sparse_initializers: list[tuple[Value, SparseTensor]] = field(default_factory=list)
    name: str = ""
    doc: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    quantization: list[Any] = field(default_factory=list)
    unread: bytes = b""

    def all_nodes(self) -> Iterator[Node]:
        """Every node, those of subgraphs after the node that holds them."""
        stack = [iter(self.nodes)]
        while stack:
            node = next(stack[-1], None)
            if node is None:
                stack.pop()
                continue
            yield node
            stack.extend(iter(graph.nodes) for graph in reversed(list(node.subgraphs())))

    def captures(self) -> list[Value]:
        """The Values of surrounding graphs that this one, or a graph inside it, uses: in order of first use."""
        own: set[Value] = set()
        captured: dict[Value, None] = {}
        graphs: list[Graph] = [self]
        for graph in graphs:
            own.update((*graph.inputs, *graph.initializers))
            own.update(value for value, _ in graph.sparse_initializers)
            for node in graph.nodes:
                own.update(node.outputs)
                graphs.extend(node.subgraphs())
        for graph in graphs:
            used: Iterable[Value | None] = (value for node in graph.nodes for value in node.inputs)
            for value in (*used, *graph.outputs):
                if value is not None and value not in own:
                    captured.setdefault(value)
        return list(captured)


@record(eq=False)
class Function:
    """A model-local function: a graph whose nodes may refer to the attributes that a call gives."""

    domain: str
    name: str
    graph: Graph
    attributes: list[str] = field(default_factory=list)
    defaults: dict[str, Attribute] = field(default_factory=dict)
    opset_imports: dict[str, int] = field(default_factory=dict)
    overload: str = ""
    doc: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    unread: bytes = b""


@record(eq=False)
class Model:
    """A graph with the operator sets it is written in, its functions and its metadata."""

    graph: Graph
    opset_imports: dict[str, int] = field(default_factory=dict)
    functions: dict[FunctionKey, Function] = field(default_factory=dict)
    ir_version: int = 10
    producer_name: str = ""
    producer_version: str = ""
    domain: str = ""
    model_version: int = 0
    doc: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    unread: bytes = b""
