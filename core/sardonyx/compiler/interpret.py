"""Walk an ONNX graph and expand every node into primitives, under the active trace or on known values."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx import dtypes, ops
from sardonyx.array import Array, active_trace
from sardonyx.errors import InvalidGraph, NotImplemented, RuntimeException, SardonyxError
from sardonyx.ir import Graph, Node, Tensor, Value
from sardonyx.symbolic import UndecidedSizeError

Environment = dict[int, Array | None]
"""Arrays by the identity of the Value that they belong to."""


def of_tensor(tensor: Tensor) -> Array:
    """The Array of a constant; its elements are a view of the model's bytes."""
    if tensor.dtype is dtypes.string:
        raise NotImplemented(f"constant {tensor.name!r} holds strings, which no provider here computes with")
    value = tensor.array()
    return Array(tensor.dtype, tuple(value.shape), value, name=tensor.name)


def interpret(graph: Graph, environment: Environment) -> list[Array]:
    """The outputs of a graph; the environment holds its inputs and what it captures, and is extended."""
    for value in graph.initializers:
        if id(value) not in environment and value.constant is not None:
            environment[id(value)] = of_tensor(value.constant)
    trace = active_trace()
    origin = trace.origin if trace else -1
    for node in graph.nodes:
        if trace is not None:
            trace.origin = len(trace.labels)
            trace.labels.append(node.label)
        expand(node, environment)
    if trace is not None:
        trace.origin = origin
    return [_operand(value, environment, "the graph's output") for value in graph.outputs]


def expand(node: Node, environment: Environment) -> None:
    """Evaluate one node into the environment."""
    operator = ops.find(node.domain, node.op_type)
    if operator is None:
        raise NotImplemented(
            f"{node.label}: no operator {node.op_type!r} is known in domain {node.domain or 'ai.onnx'!r}"
        )
    operands = [None if value is None else _operand(value, environment, node.label) for value in node.inputs]
    try:
        instance = operator(node)
        instance.environment = environment
        results = instance.expand(*operands)
    except (SardonyxError, UndecidedSizeError):
        raise
    except NotImplementedError as error:
        raise NotImplemented(f"{node.label}: {error}") from error
    except (ValueError, TypeError, IndexError) as error:
        raise RuntimeException(f"{node.label}: {error}") from error
    arrays: Sequence[Array] = [results] if isinstance(results, Array) else results
    for value, array in zip(node.outputs, arrays, strict=False):
        environment[id(value)] = array
    for value in node.outputs[len(arrays) :]:
        if value.name:
            raise NotImplemented(f"{node.label}: output {value.name!r} is not computed by this release")


def _operand(value: Value, environment: Environment, reader: str) -> Array:
    array = environment.get(id(value))
    if array is None and value.constant is not None:
        array = environment[id(value)] = of_tensor(value.constant)
    if array is None:
        raise InvalidGraph(f"{reader} uses {value.name!r}, which nothing computes")
    return array
