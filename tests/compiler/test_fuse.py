"""Which Arrays are written to memory, and which vanish into what reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.compiler.fuse import fuse
from sardonyx.primitives.array import Array
from sardonyx.primitives.trace import Trace
from sardonyx.providers.registry import NUMPY, load
from sardonyx.sizes.symbolic import Guards


def written(function: Callable[[Array], Sequence[Array]], device: int = 0) -> list[bool]:
    """Whether each of the Arrays that a function gives is written: the last one is an output, made on this device."""
    trace = Trace(Guards())
    with trace:
        arrays = function(trace.input(dtypes.float32, (4, 6)))
        device_of = dict.fromkeys(trace.equations, 0) | {arrays[-1].equation: device}
        fusion = fuse(trace.equations, arrays[-1:], device_of, [load(NUMPY)] * 2)
    return [fusion.is_written(array) for array in arrays]


def chain(x: Array) -> list[Array]:
    doubled = x + x
    return [doubled, p.exp(doubled)]


@pytest.mark.parametrize(("device", "expected"), [(0, [False, True]), (1, [True, True])])
def test_what_another_device_reads_is_written(device: int, expected: list[bool]) -> None:
    assert written(chain, device) == expected


def shared(function: Callable[[Array], Array], x: Array) -> list[Array]:
    made = function(x)
    return [made, made / p.reduce(made, "sum", [1], keepdims=True)]


def test_what_is_dear_is_computed_once_and_what_is_cheap_again() -> None:
    assert written(lambda x: shared(p.exp, x)) == [True, True]
    assert written(lambda x: shared(lambda x: x + 1.0, x)) == [False, True]


def normal(x: Array) -> list[Array]:
    total = p.reduce(x, "sum", [1], keepdims=True)
    return [total, x / total]


def test_what_many_elements_read_is_written() -> None:
    assert written(normal) == [True, True]
