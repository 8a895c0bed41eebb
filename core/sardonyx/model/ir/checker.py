"""The rules of ONNX that hold for every model, whatever its operators."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from typing import Any

from sardonyx.common.record import field, record
from sardonyx.errors import InvalidGraph
from sardonyx.model.ir.model import Attribute, Function, FunctionKey, Graph, Model, Node, SparseTensor, Tensor, Value
from sardonyx.model.ir.types import MapType, OpaqueType, OptionalType, SequenceType, SparseTensorType, TensorType

_SORTS: dict[str, tuple[type, ...]] = {
    "float": (float, int),
    "int": (int,),
    "string": (str, bytes),
    "tensor": (Tensor,),
    "graph": (Graph,),
    "sparse_tensor": (SparseTensor,),
    "type_proto": (TensorType, SparseTensorType, SequenceType, MapType, OptionalType, OpaqueType),
}


def check(model: Model) -> None:
    """Raises InvalidGraph, which names node and value, for the first broken rule; takes time linear in the model.

    Every Value is defined once and before it is used; domains in use are imported; attributes hold what their kind
    says; initializers agree with their declared types; functions do not call themselves.
    """
    if model.graph.nodes and not model.opset_imports:
        raise InvalidGraph("the model imports no operator set; opset_imports={'': 21} would import ai.onnx 21")
    functions = set(model.functions)
    _Walk(model.opset_imports, functions, None).graph(model.graph)
    for function in model.functions.values():
        _Walk(function.opset_imports, functions, function).graph(function.graph)
        for attribute in function.defaults.values():
            _check_attribute(attribute, f"function '{function.name}'", None)
    called_first(model.functions)


def called_first(functions: Mapping[FunctionKey, Function]) -> list[FunctionKey]:
    """The functions, each after those that it calls; InvalidGraph where a function calls itself."""
    done: dict[FunctionKey, None] = {}

    def calls(key: FunctionKey) -> Iterator[FunctionKey]:
        nodes = functions[key].graph.all_nodes()
        return (node.function_key for node in nodes if node.function_key in functions)

    for start in functions:
        path = {} if start in done else {start: calls(start)}
        while path:
            caller = next(reversed(path))
            called = next(path[caller], None)
            if called is None:
                done[caller] = None
                del path[caller]
            elif called in path:
                chain = list(path)
                names = [name for _, name, _ in (*chain[chain.index(called) :], called)]
                raise InvalidGraph(f"a function calls itself: {' -> '.join(names)}")
            elif called not in done:
                path[called] = calls(called)
    return list(done)


@record
class _Visit:
    """A graph that is being checked: the Values defined so far, the current node, and its subgraphs yet to check."""

    graph: Graph
    own: set[Value]
    node: Node | None = None
    subgraphs: Iterator[Graph] = field(default_factory=lambda: iter(()))

    def __post_init__(self) -> None:
        self.nodes = iter(self.graph.nodes)


class _Walk:
    """One pass over a graph and its subgraphs, with the Values that are in sight."""

    def __init__(self, imports: dict[str, int], functions: set[FunctionKey], inside: Function | None) -> None:
        self.imports = imports
        self.functions = functions
        self.inside = inside
        self.sight: set[Value] = set()
        self.defined: set[Value] = set()

    def graph(self, graph: Graph) -> None:
        frames = [_Visit(graph, self.enter(graph))]
        while frames:
            frame = frames[-1]
            inner = next(frame.subgraphs, None)
            if inner is not None:
                frames.append(_Visit(inner, self.enter(inner)))
                continue
            for value in frame.node.outputs if frame.node else ():
                self.define(value, frame.own, frame.node)
            frame.node = next(frame.nodes, None)
            if frame.node is not None:
                self.node(frame.node)
                frame.subgraphs = frame.node.subgraphs()
            else:
                self.leave(frames.pop())

    def enter(self, graph: Graph) -> set[Value]:
        own: set[Value] = set()
        for value in graph.inputs:
            self.define(value, own, None)
        inputs = set(own)
        for value in graph.initializers:
            _check_initializer(value)
        for value in (*graph.initializers, *(value for value, _ in graph.sparse_initializers)):
            if value in inputs:
                inputs.discard(value)
            else:
                self.define(value, own, None)
        return own

    def leave(self, frame: _Visit) -> None:
        for value in frame.graph.outputs:
            if value not in self.sight:
                raise InvalidGraph(f"graph '{frame.graph.name}': its output '{value.name}' is not defined in it")
        self.sight -= frame.own

    def define(self, value: Value, own: set[Value], node: Node | None) -> None:
        if value in self.defined or value.producer is not node:
            where = node.label if node else "the graph, as an input or initializer"
            if value in self.defined:
                raise InvalidGraph(f"'{value.name}' is defined a second time by {where}; a Value is defined once")
            raise InvalidGraph(f"'{value.name}' is defined by {where}, but its producer is {value.producer}")
        self.defined.add(value)
        self.sight.add(value)
        own.add(value)

    def node(self, node: Node) -> None:
        for position, value in enumerate(node.inputs):
            if value is None or value in self.sight:
                continue
            by = (
                f"is made later, or out of sight, by {value.producer.label}" if value.producer else "is defined nowhere"
            )
            raise InvalidGraph(
                f"{node.label}: input {position}, '{value.name}', {by}; nodes stand in the order of their use"
            )
        if node.domain not in self.imports and node.function_key not in self.functions:
            domains = ", ".join(f"'{domain or 'ai.onnx'}'" for domain in self.imports)
            raise InvalidGraph(
                f"{node.label}: the domain '{node.domain or 'ai.onnx'}' is not among the opset imports ({domains})"
            )
        for attribute in node.attributes.values():
            _check_attribute(attribute, node.label, self.inside)


def _check_attribute(attribute: Attribute, owner: str, inside: Function | None) -> None:
    place = f"{owner}: attribute '{attribute.name}'"
    kind, value = attribute.kind, attribute.value
    if attribute.reference:
        if inside is None:
            raise InvalidGraph(f"{place} refers to '{attribute.reference}', which only a function's node may do")
        if attribute.reference not in inside.attributes and attribute.reference not in inside.defaults:
            raise InvalidGraph(
                f"{place} refers to '{attribute.reference}', which function '{inside.name}' does not have"
            )
        return
    single = kind in _SORTS
    if not single and kind.removesuffix("s") not in _SORTS:
        raise InvalidGraph(f"{place} has the unknown kind '{kind}'")
    if single:
        sound = isinstance(value, _SORTS[kind])
    elif isinstance(value, array):
        sound = kind == ("ints" if value.typecode in "bhilq" else "floats")
    else:
        sound = isinstance(value, (list, tuple)) and all(isinstance(element, _SORTS[kind[:-1]]) for element in value)
    if not sound:
        raise InvalidGraph(f"{place} is of kind {kind}, its value is {_shown(value)}")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 else f"{text[:57]}..."


def _check_initializer(value: Value) -> None:
    tensor, declared = value.constant, value.type
    if tensor is None:
        raise InvalidGraph(f"initializer '{value.name}' has no constant")
    if isinstance(declared, TensorType) and _fits(tensor, declared):
        return
    if declared is not None:
        raise InvalidGraph(
            f"initializer '{value.name}' is {TensorType(tensor.dtype, tensor.shape)}, declared is {declared}"
        )


def _fits(tensor: Tensor, declared: TensorType) -> bool:
    if declared.dtype not in (None, tensor.dtype):
        return False
    if declared.shape is None:
        return True
    same = (not isinstance(dim, int) or dim == size for dim, size in zip(declared.shape, tensor.shape))
    return len(declared.shape) == len(tensor.shape) and all(same)
