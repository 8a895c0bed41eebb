"""Equations behind those that make what they read."""

from __future__ import annotations

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.compiler.rewriting import in_order
from sardonyx.primitives.trace import Trace
from sardonyx.sizes.symbolic import Guards


def test_what_is_read_comes_first() -> None:
    trace = Trace(Guards({}))
    x = trace.input(dtypes.float32, (4,), "x")
    with trace:
        a = p.exp(x)
        b = p.sin(a)
        c = p.cos(x)
        d = b + c
    made = [y.equation for y in (a, b, c, d)]
    assert in_order(trace.equations) == made
    assert in_order([made[3], made[1], made[0], made[2]]) == made
    assert in_order([made[2], made[1], made[0]]) == [made[2], made[0], made[1]]
