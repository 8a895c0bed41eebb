"""Types of a model's tensors, by the engine's own inference, whatever operator sets the model is written in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sardonyx.common.dtypes import DType
from sardonyx.model.ir import Graph, Model, TensorType, Value
from sardonyx.model.serde.inline import inline_functions
from sardonyx.passes.copy import copy_graph, densify
from sardonyx.passes.infer import infer_types
from sardonyx.passes.upgrade import NEWEST, lift, upgrade
from sardonyx.quantization.element_types import infer_element_types


def inferred_types(model: Model) -> dict[Value, TensorType]:
    """What is found out of the tensors of a model, in its subgraphs too; the model itself stays as it is.

    Dimensions are numbers, the names of the inputs' own, expressions of these, or new names. Where the model calls
    functions of its own, tensors of subgraphs are left out.

    >>> from sardonyx.model.ir.text import parse_model
    >>> graph = "(float32[N,4] x) => (y) { h = Concat<axis = 1>(x, x)  y = Relu(h) }"
    >>> model = parse_model(f'<opset_import: ["": 11]> main {graph}')
    >>> {value.name: str(kind) for value, kind in inferred_types(model).items()}
    {'x': 'float32[N,4]', 'h': 'float32[N,8]', 'y': 'float32[N,8]'}
    """
    copies: dict[Value, Value] = {}
    work = Model(copy_graph(model.graph, copies), dict(model.opset_imports), model.functions)
    if model.functions:
        work = inline_functions(work, lift=lift, newest=NEWEST)
        named = {value.name: value for value in _values(work.graph)}
        copies = {value: named[value.name] for value in _values(model.graph) if value.name in named}
    densify(work.graph)
    infer_types(upgrade(work).graph)
    pairs = ((value, copy.type) for value, copy in copies.items())
    found = {value: kind for value, kind in pairs if isinstance(kind, TensorType) and kind.dtype is not None}
    _add_element_types(model, model.graph, {}, found)
    return found


def _add_element_types(model: Model, graph: Graph, outer: Mapping[str, DType], found: dict[Value, TensorType]) -> None:
    """Add the types, without shapes, of what inference does not reach: it needs shapes, which loops may change."""
    names = {**outer, **{value.name: value.constant.dtype for value in graph.initializers if value.constant}}
    names |= infer_element_types(model, graph, names)
    for value in _values(graph):
        if value not in found and value.constant is None and value.name in names:
            found[value] = TensorType(names[value.name])
    for inner in (inner for node in graph.nodes for inner in node.subgraphs()):
        _add_element_types(model, inner, names, found)


def record_types(model: Model) -> None:
    """Record in the model what is found out of its tensors; what it declares of one and inference cannot tell stays."""
    for value, kind in inferred_types(model).items():
        declared = value.type
        if value.constant is not None or (kind.shape is None and declared is not None):
            continue
        if not (isinstance(declared, TensorType) and _says_more(declared, kind)):
            value.type = kind


def _says_more(declared: TensorType, found: TensorType) -> bool:
    """Whether a declared type has numbers where the one that was found has names."""
    if declared.dtype is not found.dtype or declared.shape is None or found.shape is None:
        return False
    pairs = list(zip(declared.shape, found.shape))
    known = all(isinstance(own, int) or not isinstance(other, int) for own, other in pairs)
    return len(declared.shape) == len(found.shape) and known and declared.shape != found.shape


def _values(graph: Graph) -> Iterator[Value]:
    yield from (*graph.inputs, *graph.initializers, *graph.outputs)
    for node in graph.nodes:
        yield from node.outputs
