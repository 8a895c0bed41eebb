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


def turned(x: Array) -> Array:
    return p.transpose(x, [1, 0])


def meeting(way: Callable[[Array], Array], x: Array) -> list[Array]:
    made = p.exp(x)
    return [made, made - way(made)]


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        (p.tanh, False),
        (lambda x: turned(p.tanh(turned(x))), False),
        (lambda x: p.reshape(turned(x), x.shape), True),
        (lambda x: turned(p.tanh(p.reshape(x, (6, 4)))), True),
    ],
)
def test_what_is_dear_is_computed_once_if_its_elements_meet_again(
    way: Callable[[Array], Array], expected: bool
) -> None:
    assert written(lambda x: meeting(way, x)) == [expected, True]


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        (lambda r: r + turned(p.tanh(turned(r))), False),
        (lambda r: r + turned(r), True),
        (lambda r: turned(r) * turned(p.tanh(r)), False),
        (lambda r: p.reshape(turned(r), (2, 8)) + p.reshape(turned(p.tanh(r)), (2, 8)), False),
        (lambda r: p.reshape(turned(r), (2, 8)) + p.reshape(r, (2, 8)), True),
    ],
)
def test_a_kernel_goes_on_with_a_reduction_whose_elements_meet_again(
    way: Callable[[Array], Array], expected: bool
) -> None:
    def square(x: Array) -> list[Array]:
        made = p.reduce(p.broadcast_to(p.unsqueeze(x, [0]), (4, 4, 6)) * 2.0, "sum", [2])
        return [made, way(made)]

    assert written(lambda x: square(p.slice_(x, [0, 0], [4, 6]))) == [expected, True]
