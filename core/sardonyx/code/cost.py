"""What the nodes of kernels take to compute, in additions."""

from __future__ import annotations

from sardonyx.code.scalar import FUNCTIONS

_OTHERS = {"const": 0, "index": 0, "acc": 0, "row": 0, "cast": 1, "bitcast": 1, "load": 2}
"""Nodes that are no scalar functions."""


def cost(function: str) -> int:
    """What a node takes that has this function, which may also be `load`, `cast` or another kind of node.

    >>> cost("add"), cost("load"), cost("sigmoid")
    (1, 2, 10)
    """
    return _OTHERS[function] if function in _OTHERS else FUNCTIONS[function].cost
