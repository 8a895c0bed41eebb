"""What becomes of index arithmetic: whatever axes can express is not computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sardonyx import primitives as p
from sardonyx.code.kernel import Kernel
from sardonyx.common import dtypes
from sardonyx.compiler.finish import finish
from sardonyx.compiler.lower import KernelBuilder
from sardonyx.primitives.array import Array
from sardonyx.primitives.trace import Trace
from sardonyx.sizes.polynomial import symbol
from sardonyx.sizes.symbolic import Dim, Guards, Size

Expression = Callable[..., Array]


def lowered(expression: Expression, *shapes: Sequence[Size], **hints: int) -> Kernel:
    """The kernel of an expression of inputs; `hints` are the numbers of the symbols in their shapes."""
    trace = Trace(Guards(hints))
    with trace:
        output = expression(*(trace.input(dtypes.float32, tuple(shape)) for shape in shapes))
        b = KernelBuilder(lambda array: array.equation is None)
        b.store_root(output)
        return finish(b, "kernel")[0]


def arithmetic(kernel: Kernel) -> list[str]:
    """The functions of integers in a kernel."""
    return [function for function, dtype, _, _ in kernel.nodes if dtype == "int32" and function != "index"]


BATCH, LENGTH, PAST = (Dim(symbol(name)) for name in ("batch", "length", "past"))


def test_quotients_and_remainders_of_an_axis_become_axes() -> None:
    heads = lowered(lambda x: p.reshape(p.transpose(x, [0, 2, 1, 3]), [14, 24]), [2, 3, 7, 8])
    assert not arithmetic(heads)
    assert len(heads.space) == 4
    shuffle = lowered(lambda x: p.reshape(p.transpose(p.reshape(x, [4, 2, 2, 9]), [0, 3, 1, 2]), [4, 36]), [4, 4, 9])
    assert not arithmetic(shuffle)
    nearest = lowered(lambda x: p.reshape(p.broadcast_to(p.unsqueeze(x, [2]), (5, 6, 2)), [5, 12]), [5, 6])
    assert not arithmetic(nearest)


def test_rows_of_a_batch_are_one_axis() -> None:
    def heads(x: Array) -> Array:
        return p.reshape(p.transpose(x, [0, 2, 1, 3]), [BATCH * LENGTH, 576])

    kernel = lowered(heads, [BATCH, 9, LENGTH, 64], batch=2, length=5)
    assert not arithmetic(kernel)

    def rows(x: Array) -> Array:
        return p.reshape(p.reshape(x, [BATCH, LENGTH, 8]) * 2.0, [BATCH * LENGTH, 8])

    kernel = lowered(rows, [BATCH * LENGTH, 8], batch=2, length=5)
    assert not arithmetic(kernel)
    assert len(kernel.space) == 1


def test_clamped_positions_are_within_their_axis() -> None:
    def windows(x: Array) -> Array:
        return p.pad(p.reshape(x, [BATCH, LENGTH, 8]), [0, 2, 0], [0, 2, 0])

    kernel = lowered(windows, [BATCH * LENGTH, 8], batch=2, length=5)
    assert sorted(arithmetic(kernel)) == ["max", "min"]


def test_sums_of_sizes_divide() -> None:
    total = LENGTH + PAST

    def scores(x: Array) -> Array:
        return p.reshape(x, [BATCH, 9, LENGTH, total]) * 2.0

    kernel = lowered(scores, [BATCH, 3, 3 * LENGTH, total], batch=2, length=5, past=3)
    assert not arithmetic(kernel)


def test_sizes_that_a_guard_says_are_equal_bound_an_axis() -> None:
    def masked(mask: Array, x: Array) -> Array:
        return mask + p.reshape(x, [BATCH, 9, LENGTH, LENGTH])

    kernel = lowered(masked, [LENGTH, PAST], [BATCH, 3, 3 * LENGTH, LENGTH], batch=2, length=5, past=5)
    assert not arithmetic(kernel)
