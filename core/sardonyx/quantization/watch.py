"""An operator that shows a tensor to whoever listens, in the run that makes it: nothing of it is kept.

The node stands behind the one that makes the tensor, so a run needs no more memory than the tensor that is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import numpy as np

from sardonyx.common import dtypes
from sardonyx.model.ir import Node, TensorType, Value
from sardonyx.ops.custom import custom_op
from sardonyx.quantization.network import Network

DOMAIN = "sardonyx.quantization"
Listener: TypeAlias = Callable[[str, np.ndarray], None]
_listeners: list[Listener] = []


@custom_op(DOMAIN, "Watch", host=True, types=["float32[1]"], pure=False)
def watch(x: np.ndarray, *, tensor: str = "") -> np.ndarray:
    """Shows a tensor, by its name, to the listener; the result is 0."""
    if _listeners:
        _listeners[-1](tensor, x)
    return np.zeros(1, np.float32)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Have a function called with the name and the elements of each watched tensor."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def behind(network: Network, made: dict[str, Sequence[Node]]) -> None:
    """Put nodes behind those that make these tensors; behind inputs is the beginning."""
    computed = {value.name for node in network.graph.nodes for value in node.outputs}
    nodes = [new for name, several in made.items() if name not in computed for new in several]
    for node in network.graph.nodes:
        nodes.append(node)
        nodes += (new for value in node.outputs for new in made.get(value.name, ()))
    network.graph.nodes[:] = nodes


def add_watches(network: Network, tensors: Sequence[str]) -> None:
    """Have a model show these tensors; each gets a further output, which is 0."""
    made: dict[str, Sequence[Node]] = {}
    for name in tensors:
        output = f"{name}_Watch"
        made[name] = [network.node("Watch", [name], [output], output, domain=DOMAIN, tensor=name)]
        network.graph.outputs.append(_typed(network.value(output)))
    behind(network, made)
    network.model.opset_imports[DOMAIN] = 1


def _typed(value: Value) -> Value:
    value.type = TensorType(dtypes.float32, (1,))
    return value
