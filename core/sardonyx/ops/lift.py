"""Upgrades that many operators share: what older operator sets said by attributes, newer ones say by inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from sardonyx.ir import Node
from sardonyx.ir.build import attribute
from sardonyx.ops.operator import Rewriter, Upgrade


def to_input(name: str, place: int, dtype: type[np.generic] = np.int64) -> Upgrade:
    """Turns an attribute, if it is there, into a constant input at this place."""

    def lift(node: Node, make: Rewriter) -> None:
        found = node.attributes.pop(name, None)
        if found is not None:
            node.inputs += [None] * (place + 1 - len(node.inputs))
            node.inputs[place] = make.constant(found.value, dtype)

    return lift


def renamed(old: str, new: str) -> Upgrade:
    """Gives an attribute another name."""

    def lift(node: Node, make: Rewriter) -> None:
        found = node.attributes.pop(old, None)
        if found is not None:
            node.attributes[new] = attribute(new, found.value)

    return lift


def defaulted(name: str, value: Any) -> Upgrade:
    """Spells out a default that later operator sets no longer have."""

    def lift(node: Node, make: Rewriter) -> None:
        node.attributes.setdefault(name, attribute(name, value))

    return lift


def without(name: str) -> Upgrade:
    """Drops an attribute that has lost its meaning."""

    def lift(node: Node, make: Rewriter) -> None:
        node.attributes.pop(name, None)

    return lift


def each(*upgrades: Upgrade) -> Upgrade:
    """Several upgrades that change a node in place, in this order."""

    def lift(node: Node, make: Rewriter) -> None:
        for upgrade in upgrades:
            upgrade(node, make)

    return lift
