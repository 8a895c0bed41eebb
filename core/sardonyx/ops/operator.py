"""The operator: one class in one file that says all there is to say about an ONNX operator.

Attributes are annotated class variables with ONNX's defaults; `expand` spells the operator in primitives; `samples`
test it on every provider; `upgrades` lift the forms of older operator sets. Defining the class registers it.

    class Gelu(Operator, since=20):
        "y = x * P(X <= x), X standard normal."

        approximate: str = "none"

        def expand(self, x: Array) -> Array:
            if self.approximate == "tanh":
                return 0.5 * x * (1.0 + p.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))
            return 0.5 * x * (1.0 + p.erf(x * 0.7071067812))

        samples = [sample((3, 4)), sample((3, 4), approximate="tanh")]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import zip_longest
from types import FunctionType
from typing import Any, ClassVar

import numpy as np

from sardonyx.common.record import record
from sardonyx.errors import InvalidGraph
from sardonyx.model.ir import Graph, Node, Tensor, TensorType, Value
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant

REGISTRY: dict[tuple[str, str], type[Operator]] = {}


@record(frozen=True)
class Sample:
    """One call that tests an operator: an input is a shape (float32 noise), an array, or None where it is left out."""

    inputs: tuple[Any, ...]
    attributes: dict[str, Any]
    outputs: int = 1
    tolerance: float = 1e-5

    def arrays(self, seed: int = 0) -> list[np.ndarray | None]:
        rng = np.random.default_rng(seed)
        return [rng.normal(size=item).astype(np.float32) if isinstance(item, tuple) else item for item in self.inputs]


def sample(*inputs: Any, outputs: int = 1, tolerance: float = 1e-5, **attributes: Any) -> Sample:
    """A `Sample` of these inputs and attributes; `tolerance` is relative to the largest value of the reference."""
    return Sample(inputs, attributes, outputs, tolerance)


def scattered(*shape: int, seed: int = 0) -> np.ndarray:
    """float32 between 0 and 1 in no order, without `numpy.random`, which pages would load for it (Weyl, 1916).

    >>> [round(float(number), 2) for number in scattered(3)]
    [0.62, 0.24, 0.85]
    """
    steps = np.arange(1, 1 + math.prod(shape)) * (0.6180339887498949 + 0.1 * seed)
    return (steps % 1).reshape(shape).astype(np.float32)


KINDS = {
    "int": ("int",),
    "float": ("float", "int"),
    "str": ("string",),
    "tuple[int, ...]": ("ints",),
    "tuple[float, ...]": ("floats", "ints"),
    "tuple[str, ...]": ("strings",),
    "Graph": ("graph",),
    "Tensor": ("tensor",),
    "SparseTensor": ("sparse_tensor",),
}
"""The kinds of ONNX attributes that an annotation allows; any for others."""

Upgrade = Callable[[Node, "Rewriter"], Sequence[Value] | None]
"""Lifts a node to the form of a later operator set: in place, or by giving the values that replace its outputs."""


Downgrade = Callable[[Node], bool]
"""Gives a node of the newest form that of an earlier operator set, in place; False where that cannot say the same."""


class Rewriter:
    """What an upgrade makes new nodes with; they come before the node that is lifted."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def constant(self, array: Any, dtype: type[np.generic] | None = None) -> Value:
        """A Value that holds this array."""
        tensor = constant(np.asarray(array, dtype))
        assert tensor.value is not None
        held = Tensor.of(tensor.value, tensor.dtype)
        return Value("", TensorType(held.dtype, held.shape), constant=held)

    def emit(self, op_type: str, *inputs: Value | None, outputs: int = 1, **attributes: Any) -> list[Value]:
        """A new node of ai.onnx in its newest form, and its outputs."""
        from sardonyx.model.ir.build import node

        emitted = node(op_type, list(inputs), outputs, attributes)
        self.nodes.append(emitted)
        return emitted.outputs


class Lift:
    """An upgrade in place that knows its way back."""

    def __call__(self, node: Node, make: Rewriter) -> None:
        raise NotImplementedError

    def lower(self, node: Node) -> bool:
        """The `Downgrade` to this upgrade."""
        raise NotImplementedError


class Operator:
    """Base class; see the module's text. `outputs` counts the outputs that the node asks for."""

    domain: ClassVar[str] = ""
    since: ClassVar[int] = 1
    """The operator set in which the operator came to ONNX."""
    attributes: ClassVar[dict[str, Any]] = {}
    kinds: ClassVar[dict[str, tuple[str, ...]]] = {}
    """The kinds of ONNX attribute that each attribute may come as."""
    required: ClassVar[frozenset[str]] = frozenset()
    samples: ClassVar[Sequence[Sample]] = ()
    upgrades: ClassVar[dict[int, Upgrade]] = {}
    downgrades: ClassVar[dict[int, Downgrade]] = {}
    """Ways back to what was before an operator set; those of `Lift`s in `upgrades` need no mention."""
    structured: ClassVar[bool] = False
    """Whether operands may be sequences, optionals and maps (`sardonyx.model.structure`); results are a list then."""
    stacked: ClassVar[bool] = False
    """Whether an operand may be a sequence whose length only the run tells, a `Stack` or `Ragged`."""
    declared: ClassVar[bool] = False
    """Whether the types that its graphs declare of their inputs hold for every call of them."""
    pure: ClassVar[bool] = True
    """Whether nodes that are given the same give the same; those that do not are neither folded nor merged."""

    node: Node
    outputs: int
    environment: dict[Value, Any]
    """What is known where the node stands, by the identity of their Values: what subgraphs capture."""

    expand: Callable[..., Array | Sequence[Any]]

    is_standard: ClassVar[bool] = False
    """Whether ONNX says what attributes there are: an operator of its own domain that is declared here."""

    def __init_subclass__(cls, *, since: int = 1, domain: str = "", name: str = "", abstract: bool = False) -> None:
        annotations: dict[str, Any] = {}
        for base in cls.__mro__[-2::-1]:
            annotations |= vars(base).get("__annotations__", {})
        own = [attr for attr in annotations if attr not in Operator.__annotations__]
        cls.kinds = {attr: KINDS.get(str(annotations[attr]).removesuffix(" | None"), ()) for attr in own}
        cls.attributes = {attr: getattr(cls, attr, None) for attr in own}
        cls.required = frozenset(attr for attr in own if not hasattr(cls, attr))
        cls.since, cls.domain = since, domain
        cls.is_standard = not domain and cls.__module__.startswith("sardonyx.ops.")
        if not abstract:
            REGISTRY[domain, name or cls.__name__] = cls

    def __init__(self, node: Node) -> None:
        self.node = node
        self.outputs = sum(1 for output in node.outputs if output.name) or len(node.outputs)
        for name, attribute in node.attributes.items():
            if name in self.attributes:
                value = attribute.value
                setattr(self, name, tuple(value) if isinstance(value, list) else value)
        missing = [name for name in self.required if name not in node.attributes]
        if missing:
            raise InvalidGraph(f"{node.label} lacks the attribute {missing[0]!r}, which has no default")

    @classmethod
    def check(cls, node: Node) -> None:
        """Raises InvalidGraph where an attribute of a node is of another kind than the operator's, or none of ONNX's,
        or the operator was for operator sets before the node's alone."""
        if not hasattr(cls, "expand"):
            raise InvalidGraph(f"{node.label}: the operator is no longer part of ONNX in this operator set")
        for name, attribute in node.attributes.items():
            if name not in cls.attributes and cls.is_standard:
                why = "the model may be written in an older one than it says"
                raise InvalidGraph(f"{node.label} has no attribute {name!r} in this operator set; {why}")
            kinds, value = cls.kinds.get(name, ()), attribute.value
            if isinstance(value, bytes) and "string" in kinds:
                raise InvalidGraph(f"{node.label}: the attribute {name!r} is no UTF-8")
            if kinds and attribute.kind not in kinds and value != []:  # an empty list has no kind
                raise InvalidGraph(f"{node.label}: the attribute {name!r} is {attribute.kind}, not {kinds[0]}")

    @classmethod
    def operands(cls, inputs: Sequence[Value | None]) -> list[Value | None]:
        """The arguments of `expand`: the inputs of a node, and None for optional ones that it does not have."""
        needed, most = _ARITIES.get(cls) or _ARITIES.setdefault(cls, _arity(cls))
        if len(inputs) > most or (not inputs and most == MANY):
            count = "at least one input" if most == MANY else f"at most {most:.0f} inputs"
            raise ValueError(f"the operator takes {count}, and gets {len(inputs)}")
        missing = [name for name, operand in zip_longest(needed, inputs[: len(needed)]) if name and operand is None]
        if missing:
            raise ValueError(f"the input {missing[0]!r} is missing, without which the operator makes no sense")
        return [*inputs, *[None] * (len(needed) - len(inputs))]

    @classmethod
    def given(cls, graph: Graph) -> Sequence[TensorType | None]:
        """The types that inputs of a graph inside have in every call of it; None where they may vary."""
        return [None] * len(graph.inputs)

    def subgraph(self, name: str) -> Graph:
        graph = self.node.attribute(name)
        if not isinstance(graph, Graph):
            raise InvalidGraph(f"{self.node.label} lacks the graph attribute {name!r}")
        return graph


MANY = math.inf
"""As many inputs as there are."""
VARIADIC = 4
"""The flag of code that takes any number of arguments (`inspect.CO_VARARGS`)."""


_ARITIES: dict[type[Operator], tuple[list[str], float]] = {}


def _arity(operator: type[Operator]) -> tuple[list[str], float]:
    """The inputs that `expand` has no default for, "" for one that may be None, and how many there may be in all."""
    written = next(vars(base)["expand"] for base in operator.__mro__ if "expand" in vars(base))
    is_static = isinstance(written, staticmethod)
    function = written.__func__ if is_static else written
    if not isinstance(function, FunctionType):  # of the module operator, "($module, a, b, /)"
        _, *required, _ = function.__text_signature__.strip("()").split(", ")
        return required, len(required)
    code = function.__code__  # a signature takes longer than expanding the node
    names = code.co_varnames[0 if is_static else 1 : code.co_argcount]
    defaults = len(function.__defaults__ or ())
    annotations = function.__annotations__
    needed = ["" if "None" in str(annotations.get(name)) else name for name in names[: len(names) - defaults]]
    return needed, MANY if code.co_flags & VARIADIC else len(names)
