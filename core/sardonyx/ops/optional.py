"""Optionals: while the plan is made, an optional is its element, or None."""

from __future__ import annotations

from typing import Any

import numpy as np

from sardonyx.ops.operator import Operator
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant


class Optional(Operator, since=15):
    """An optional with this element, or with none."""

    structured = True
    type: Any = None

    def expand(self, element: Any = None) -> list[Any]:
        return [element]


class OptionalHasElement(Operator, since=15):
    """Whether there is an element: a bool scalar."""

    structured = True

    def expand(self, optional: Any = None) -> Array:
        return constant(np.bool_(optional is not None))


class OptionalGetElement(Operator, since=15):
    """The element, which there must be; what is no optional is its own element."""

    structured = True

    def expand(self, optional: Any) -> list[Any]:
        if optional is None:
            raise ValueError("the optional is empty; ask OptionalHasElement first, in the condition of an If")
        return [optional]
