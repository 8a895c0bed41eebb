"""Movement around Routines: operands that are views, results that go elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from sardonyx import primitives as p
from sardonyx.code.parameters import SizeTable
from sardonyx.common import dtypes
from sardonyx.compiler.finish import finish
from sardonyx.compiler.indices import flat_index
from sardonyx.compiler.lower import KernelBuilder
from sardonyx.compiler.views import View, carried, store_core, view
from sardonyx.primitives.array import Array, Primitive
from sardonyx.primitives.trace import Trace
from sardonyx.sizes.joining import joined
from sardonyx.sizes.polynomial import symbol
from sardonyx.sizes.symbolic import Dim, Guards, Size

BATCH, LENGTH = (Dim(symbol(name)) for name in ("b", "s"))
HINTS = {"b": 2, "s": 7}


class Product(Primitive):
    """A routine's."""

    name = "product"


def viewed(function: Callable[[Array], Array], shape: Sequence[Size], linear: int = 1) -> tuple[View, Array, Array]:
    """The view, the Array that is viewed, and what the function is given."""
    trace = Trace(Guards(HINTS))
    with trace:
        x = trace.input(dtypes.float32, tuple(shape))
        y = function(x)
        return view(y, linear, lambda _: False), y, x


def test_the_same_order_is_no_view() -> None:
    found, _, x = viewed(lambda x: p.reshape(x, (BATCH * LENGTH, 24)), (BATCH, LENGTH, 4, 6), 0)
    assert found == View(x)


@pytest.mark.parametrize("linear", [1, 2])
def test_heads_of_a_slice(linear: int) -> None:
    def heads(x: Array) -> Array:
        split = p.reshape(p.slice_axis(x, 2, 24, 24), (BATCH, LENGTH, 4, 6))
        return p.reshape(p.transpose(split, [0, 2, 1, 3]), (BATCH * 4, LENGTH, 6))

    found, _, x = viewed(heads, (BATCH, LENGTH, 72), linear)
    assert found.source is x
    table = SizeTable()
    nodes, (offset, axes, extra) = found.data(table)
    assert {node[0] for node in nodes if node[0] != "index"} == {"div", "rem"}  # of the axis of batch and heads
    assert table.params[int(offset[1:])].constant == 24
    assert {axis for axis, _ in axes} == {1, 2}
    assert len(extra) == 2


def test_what_is_not_linear_is_no_view() -> None:
    def merged(x: Array) -> Array:
        return p.reshape(p.transpose(x, [0, 2, 1, 3]), (BATCH, LENGTH, 24))

    found, y, _ = viewed(merged, (BATCH, 4, LENGTH, 6))
    assert found == View(y) or found.index is None


def test_padding_is_no_view() -> None:
    found, y, _ = viewed(lambda x: p.transpose(p.pad(x, [0, 1], [0, 1]), [1, 0]), (4, 6))
    assert found.source is y.equation.inputs[0]  # type: ignore[union-attr]


def test_weights_are_put_in_order_once() -> None:
    trace = Trace(Guards())
    with trace:
        x = trace.input(dtypes.float32, (4, 6))
        y = p.transpose(x, [1, 0])
    assert view(y, 2, lambda _: True) == View(y)


def test_results_go_where_movement_takes_them() -> None:
    trace = Trace(Guards(HINTS))
    with trace:
        shape = (BATCH * LENGTH, 24)
        (core,) = trace.append(Product(), (trace.input(dtypes.float32, shape),), {}, [(dtypes.float32, shape)])
        bias = trace.input(dtypes.float32, (24,))
        split = p.reshape(core + bias, (BATCH, LENGTH, 4, 6))
        goal = p.transpose(split, [0, 2, 1, 3])
        other = p.slice_axis(goal, 1, 0, 2)
    with trace.guards:
        b = KernelBuilder(lambda array: array.equation is None, core)
        assert store_core(b, goal)
        kernel, _ = finish(b, "epilogue")
        assert len(kernel.space) == 4
        assert not [node for node in kernel.nodes if node[0] in ("div", "rem")]
        assert carried(KernelBuilder(lambda _: False), core, other, (symbol("i0"), symbol("i1"))) is None


def test_quotient_and_remainder_make_the_whole() -> None:
    x, n = symbol("i0"), symbol("n")
    parts = x.floordiv(n), x.mod(n)
    assert joined(flat_index((BATCH, Dim(n)), parts)) == x
    assert joined(flat_index((BATCH, LENGTH), parts)) == flat_index((BATCH, LENGTH), parts)
