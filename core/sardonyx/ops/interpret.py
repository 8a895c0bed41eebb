"""Walk an ONNX graph and expand every node into primitives, under the active trace or on known values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from sardonyx import ops
from sardonyx.common.memory import TooLargeError
from sardonyx.common.termination import poll
from sardonyx.errors import InvalidGraph, NotImplemented, RuntimeException, SardonyxError
from sardonyx.model.ir import Graph, Node, Value
from sardonyx.ops.stack import unstacked
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import of_sparse, of_tensor
from sardonyx.primitives.trace import TooEarlyError, active_trace
from sardonyx.sizes.symbolic import SolvedError, UndecidedSizeError

Environment: TypeAlias = dict[Value, Any]
"""Arrays, or what `sardonyx.model.structure` makes of them, by the identity of the Value that they belong to."""


def interpret(graph: Graph, environment: Environment) -> list[Any]:
    """The outputs of a graph; the environment holds its inputs and what it captures, and is extended."""
    for value in graph.initializers:
        if value not in environment and value.constant is not None and value.constant.product is None:
            environment[value] = of_tensor(value.constant)
    for value, sparse in graph.sparse_initializers:
        if value not in environment:
            environment[value] = of_sparse(sparse)
    trace = active_trace()
    origin = trace.origin if trace else -1
    for node in graph.nodes:
        poll()
        if trace is not None:
            trace.origin = len(trace.labels)
            trace.labels.append(node.label)
        expand(node, environment)
    if trace is not None:
        trace.origin = origin
    return [unstacked(_operand(value, environment, "the graph's output")) for value in graph.outputs]


def expand(node: Node, environment: Environment) -> None:
    """Evaluate one node into the environment."""
    operator = ops.find(node.domain, node.op_type)
    if operator is None:
        from sardonyx.ops.custom import unknown

        raise unknown(node)
    try:
        operands = [
            None if value is None else _operand(value, environment, node.label)
            for value in operator.operands(node.inputs)
        ]
        if not operator.stacked:
            operands = [unstacked(operand) for operand in operands]
        if not operator.structured:
            _refuse_structures(node, operands)
        instance = operator(node)
        instance.environment = environment
        results = instance.expand(*operands)
        if results is None:
            raise ValueError("an input is missing, without which the operator makes no sense")
    except TooLargeError as error:
        raise RuntimeException(f"{node.label}: {error}") from error
    except (SardonyxError, SolvedError, UndecidedSizeError, TooEarlyError):
        raise
    except NotImplementedError as error:
        raise NotImplemented(f"{node.label}: {error}") from error
    except (ValueError, TypeError) as error:
        raise RuntimeException(f"{node.label}: {error}") from error
    except Exception as error:
        raise RuntimeException(f"{node.label}: {type(error).__name__}: {error}") from error
    items: Sequence[Any] = [results] if isinstance(results, Array) else results
    for value, item in zip(node.outputs, items, strict=False):
        environment[value] = item
    for value in node.outputs[len(items) :]:
        if value.name:
            raise NotImplemented(f"{node.label}: output {value.name!r} is not computed by this release")


def _operand(value: Value, environment: Environment, reader: str) -> Any:
    if value not in environment:
        if value.constant is None:
            raise InvalidGraph(f"{reader} uses {value.name!r}, which nothing computes")
        environment[value] = of_tensor(value.constant)
    return environment[value]


def _refuse_structures(node: Node, operands: Sequence[Any]) -> None:
    """Raises ValueError where an operand is no tensor."""
    for value, operand in zip(node.inputs, operands):
        if value is None or isinstance(operand, Array):
            continue
        if operand is None:
            kind = "an optional without element; ask OptionalHasElement first, in the condition of an If"
        elif isinstance(operand, tuple):
            kind = "a sequence; take an element with SequenceAt, or join them with ConcatFromSequence"
        else:
            kind = "a map; make it a tensor with DictVectorizer or CastMap"
        raise ValueError(f"takes tensors, and {value.name!r} is {kind}")
