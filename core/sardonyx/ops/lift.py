"""Changes of form that many operators share: upgrades that know their way back, and ways back alone.

What older operator sets said by attributes, newer ones say by inputs, and the other way round when a model is written.
A `lower` changes a node of the newest form in place and tells whether the older form can say the same; where it cannot,
the node may be left half changed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sardonyx.model.ir import Node, Value
from sardonyx.model.ir.build import attribute
from sardonyx.ops.operator import Downgrade, Lift, Rewriter


class to_input(Lift):
    """Turns an attribute, if it is there, into a constant input at this place.

    The input is a line of numbers or, with `rank` 0, one number; the attribute is a list, or with `single` a number.
    """

    def __init__(
        self, name: str, place: int, dtype: type[np.generic] = np.int64, rank: int = 1, single: bool = False
    ) -> None:
        self.name, self.place, self.dtype, self.rank = name, place, dtype, rank
        self.single = single or not rank

    def __call__(self, node: Node, make: Rewriter) -> None:
        removed = node.attributes.pop(self.name, None)
        if removed is not None:
            node.inputs += [None] * (self.place + 1 - len(node.inputs))
            array = np.asarray(removed.value, self.dtype)
            node.inputs[self.place] = make.constant(np.atleast_1d(array) if self.rank else array)

    def lower(self, node: Node) -> bool:
        if len(node.inputs) <= self.place or node.inputs[self.place] is None:
            return True
        array = constant_array(node.inputs[self.place])
        if array is None:
            return False
        values = array.reshape(-1).tolist()
        node.attributes[self.name] = attribute(self.name, values[0] if self.single else values)
        node.inputs[self.place] = None
        while node.inputs and node.inputs[-1] is None:
            node.inputs.pop()
        return True


class renamed(Lift):
    """Gives an attribute another name."""

    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new

    def __call__(self, node: Node, make: Rewriter) -> None:
        removed = node.attributes.pop(self.old, None)
        if removed is not None:
            node.attributes[self.new] = attribute(self.new, removed.value)

    def lower(self, node: Node) -> bool:
        renamed(self.new, self.old)(node, Rewriter())
        return True


class defaulted(Lift):
    """Spells out a default that later operator sets no longer have."""

    def __init__(self, name: str, value: Any) -> None:
        self.name, self.value = name, value

    def __call__(self, node: Node, make: Rewriter) -> None:
        node.attributes.setdefault(self.name, attribute(self.name, self.value))

    def lower(self, node: Node) -> bool:
        return True


class without(Lift):
    """Drops an attribute that has lost its meaning; the forms that had it are not written."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, node: Node, make: Rewriter) -> None:
        node.attributes.pop(self.name, None)

    def lower(self, node: Node) -> bool:
        return False


class each(Lift):
    """Several changes of a node in place, in this order."""

    def __init__(self, *lifts: Lift) -> None:
        self.lifts = lifts

    def __call__(self, node: Node, make: Rewriter) -> None:
        for lift in self.lifts:
            lift(node, make)

    def lower(self, node: Node) -> bool:
        return all(lift.lower(node) for lift in reversed(self.lifts))


def constant_array(value: Value | None) -> np.ndarray | None:
    """The array that a Value holds, if it is a constant that no call can feed."""
    if value is None:
        return None
    if value.constant is not None:
        return value.constant.array()
    producer = value.producer
    tensor = producer.attribute("value") if producer is not None and producer.op_type == "Constant" else None
    return None if tensor is None else np.asarray(tensor.array())


def unset(name: str, default: Any) -> Downgrade:
    """The downgrade of a new attribute: it is dropped if it has its default, else there is none."""

    def lower(node: Node) -> bool:
        removed = node.attributes.pop(name, None)
        return removed is None or bool(removed.value == default)

    return lower
