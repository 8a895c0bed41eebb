"""What compilers, backends, gradients and tests know of one scalar function."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from sardonyx.common.record import field, record

Gradient: TypeAlias = Callable[..., tuple[Any, ...]]
"""Takes `f`, g, y and the operands, and gives the gradient of each operand, None for a condition. g is the gradient of
the result y. `f(name, *operands)` applies a scalar function to operands of which some may be numbers; Python's
operators do the rest, so that the same expression is one of Arrays, of NumPy's arrays or of a backend's values."""

FLOAT = frozenset({"float"})
NUMBER = frozenset({"float", "int", "uint"})
INTEGER = frozenset({"int", "uint"})
BITS = frozenset({"int", "uint", "bool"})
ANY = frozenset({"float", "int", "uint", "bool"})
ALL = ANY | {"string", "complex"}

STEPS = "is constant nearly everywhere"
NO_FLOATS = "takes no floats"


@record(frozen=True)
class Accuracy:
    """The largest error of what backends print, in units in the last place, in float32 and in float64.

    It holds for operands up to `limits`; of larger ones results stay in their range. GPUs may fuse products and sums
    and divide within 2.5 units, and so are up to 2 units further off. Functions of NumPy's own are within 4 units.
    """

    float32: float
    float64: float
    limits: tuple[float, float] = (math.inf, math.inf)


EXACT = Accuracy(0.5, 0.5)
"""Every bit is that of IEEE 754, or of integers."""


@record(frozen=True, eq=False, repr=False)
class ScalarFunction:
    """`kinds` are those of the operands' elements.

    `result` is `same` (as the operands), `bool` or `select` (as the second operand). `cost` is what an element takes,
    in additions, by which compilers choose what to compute twice, or side by side. `numpy` takes arrays, and the
    result's as `out`. Where there is no gradient, `no_gradient` says why.
    """

    name: str
    arity: int
    kinds: frozenset[str]
    result: Literal["same", "bool", "select"] = field(default="same", kw_only=True)
    cost: int = field(kw_only=True)
    accuracy: Accuracy = field(kw_only=True)
    numpy: Callable[..., Any] = field(kw_only=True)
    gradient: Gradient | None = field(default=None, kw_only=True)
    no_gradient: str = field(default="", kw_only=True)
