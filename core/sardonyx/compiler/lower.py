"""From primitives to kernels: what is one element of this Array, as a scalar expression of its index?

`KernelBuilder.element` follows an Array back through its equations until it meets buffers. Movement turns into index
arithmetic on the way, element-wise primitives into scalar functions; the one reduction of a kernel becomes its fold.
Rules are tables from primitive to function. Indices are polynomials over the loop axes (`i0`, `r0`), sizes and
data-dependent integers (`e5`: the value of node 5), simplified by what is known of their ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from sardonyx.code import scalar
from sardonyx.code.folds import identity
from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.compiler.indices import Indices, Node, aligned, computed, flat_index, stretched
from sardonyx.compiler.whole import as_float, moved
from sardonyx.primitives.array import Array, Equation
from sardonyx.sizes.functions import apply
from sardonyx.sizes.joining import joined
from sardonyx.sizes.polynomial import ONE, ZERO, Atom, Operation, Poly, Ranges, constant, symbol
from sardonyx.sizes.symbolic import Size, hint, poly, same


class KernelBuilder:
    """Builds one kernel. `is_buffer` says which Arrays are read from memory, `core` is the reduction to fold here, or
    the result of a Routine, if this is the epilogue. `place` says in which Array's buffer an element is, and where."""

    def __init__(
        self,
        is_buffer: Callable[[Array], bool],
        core: Array | None = None,
        place: Callable[[Array, Indices], tuple[Array, Indices]] = lambda array, index: (array, index),
    ) -> None:
        self.is_buffer = is_buffer
        self.core = core
        self.where = place
        self.root: Array | None = None
        self.nodes: list[Node] = []
        self.ranges = Ranges()
        self.space: list[Poly] = []
        self.reduce: list[Poly] = []
        self.folds: list[tuple[str, str, int]] = []
        self.reads: list[Array] = []
        self.writes: list[Array] = []
        self.stores: list[tuple[int, Poly, int]] = []
        self.origins: set[int] = set()
        self.place = ZERO
        self.in_order = True
        """Whether what is stored is made of the elements of a Routine's result in row-major order."""
        self.known: dict[Any, int] = {}  # the numbers of nodes, by what they are
        self._elements: dict[Any, int] = {}

    # ---- nodes

    def add(self, function: str, dtype: DType, operands: tuple[int, ...] = (), detail: Any = None) -> int:
        dtype = dtype.lowered
        key = (function, dtype.name, operands, repr(detail) if isinstance(detail, (float, bool)) else detail)
        if key not in self.known:
            self.known[key] = len(self.nodes)
            self.nodes.append((function, dtype.name, operands, detail))
        return self.known[key]

    def const(self, value: Any, dtype: DType) -> int:
        if dtype.is_float:
            number = float(value)
            return self.add("const", dtype, (), number if number - number == 0 else str(number))
        if dtype.kind == "complex":
            return self.add("const", dtype, (), str(complex(value)))
        return self.add("const", dtype, (), int(value))

    def cast(self, node: int, dtype: DType) -> int:
        return node if self.nodes[node][1] == dtype.lowered.name else self.add("cast", dtype, (node,))

    def call(self, function: str, *operands: int) -> int:
        dtype = dtypes.bool_ if scalar.FUNCTIONS[function].result == "bool" else self.dtype(operands[-1])
        return self.add(function, dtype, operands)

    def dtype(self, node: int) -> DType:
        return dtypes.by_name(self.nodes[node][1])

    def index(self, value: Poly) -> int:
        """An int32 node with the value of a polynomial."""
        return self.add("index", dtypes.int32, (), value)

    def data_index(self, node: int, size: Poly) -> Poly:
        """A polynomial for an integer node, clamped to 0..size - 1."""
        position = computed(self.nodes, node)
        if position is not None and all(each.is_nonnegative(self.ranges) for each in (position, size - ONE - position)):
            return position
        number = self.cast(node, dtypes.int32)
        limited = self.call("max", self.index(ZERO), self.call("min", number, self.index(size - ONE)))
        name = f"e{limited}"
        self.ranges[name] = (ZERO, size - ONE)
        return symbol(name)

    def axis(self, size: Size, reduce: bool = False) -> Poly:
        """A new loop axis, as a polynomial; an axis of size 1 is always at 0."""
        extent = poly(size)
        if extent == ONE:
            return ZERO
        axes = self.reduce if reduce else self.space
        name = f"{'r' if reduce else 'i'}{len(axes)}"
        axes.append(extent)
        self.ranges[name] = (ZERO, extent - ONE)
        if not reduce:
            self.ranges.walk(extent)
        return symbol(name)

    def know(self, sizes: Sequence[Size], shape: Sequence[Size], index: Indices) -> None:
        """Of sizes that a guard says are equal, what is broadcast has one, and its operand the other: that bounds the
        axis as well, and it is by that that the operand's reshapes divide."""
        for size, other, at in zip(sizes, shape, index, strict=True):
            match at.terms:
                case (((str() as name,), 1),) if (
                    name in self.ranges and not same(size, other) and hint(size) == hint(other) != 1
                ):
                    self.ranges[name] = ZERO, poly(size) - ONE

    def inside(self, position: Poly, size: Poly) -> tuple[Poly, int | None]:
        """A position clamped into 0..size - 1, and a bool node that says whether it was there; None if always."""
        low = position.is_nonnegative(self.ranges)
        gap = size - ONE - position
        high = gap.is_nonnegative(self.ranges)
        tests, clamped = [], position
        if not low:
            tests.append(self.call("ge", self.index(position), self.index(ZERO)))
        if not high:
            tests.append(self.call("lt", self.index(position), self.index(size)))
            clamped = apply("min", clamped, size - ONE, self.ranges)
        if not low or not high:
            clamped = apply("max", clamped, ZERO, self.ranges)
            match clamped.terms:
                case (((Operation() as atom,), 1),):
                    self.ranges[atom] = ZERO, size - ONE  # of an empty axis nothing is loaded
        return clamped, self.all(tests)

    def all(self, tests: Sequence[int]) -> int | None:
        result: int | None = None
        for test in tests:
            result = test if result is None else self.call("and", result, test)
        return result

    def load(self, array: Array, index: Indices) -> int:
        whole, index = self.where(array, index)
        return self.load_at(whole, flat_index(whole.shape, index))

    def load_at(self, array: Array, place: Poly) -> int:
        """The element at a row-major position of a buffer."""
        if array not in self.reads:
            self.reads.append(array)
        return self.add("load", array.dtype, (), (self.reads.index(array), place))

    def has_own_buffer(self, array: Array) -> bool:
        """Whether an Array is read from memory that is its own, in row-major order."""
        return self.is_buffer(array) and self.where(array, (ZERO,) * array.rank)[0] is array

    # ---- elements

    def element(self, array: Array, index: Indices) -> int:
        """The node with the element of an Array at an index."""
        if array is self.core:
            return self._fold(array, index)
        if array is self.root:
            return self._computed(array, index)
        if array.value is not None and array.value.size == 1:
            return self._scalar(array.value.reshape(-1)[0], array)
        if self.is_buffer(array):
            return self.load(array, index)
        return self._computed(array, index)

    def _computed(self, array: Array, index: Indices) -> int:
        key = (array, index)
        if key not in self._elements:
            equation = array.equation
            assert equation is not None, f"{array} is neither a buffer nor computed"
            self.origins.add(equation.origin)
            self._elements[key] = ELEMENT[equation.primitive.name](self, equation, index)
        return self._elements[key]

    def _scalar(self, number: Any, array: Array) -> int:
        """The node with a weight of one element; numbers that were learnt are parameters, so that kernels which differ
        in them are one kernel."""
        dtype = array.dtype.lowered
        if not dtype.is_native:
            return self.add("bitcast", dtype, (self.const(number, dtypes.of(dtype.storage)),))
        if dtype is dtypes.float32 and not (float(number) * 64).is_integer():
            bits = self.index(constant(int(number.view("int32"))))
            return self.add("bitcast", dtype, (bits,))
        return self.const(number, dtype)

    def _fold(self, array: Array, index: Indices) -> int:
        equation = array.equation
        assert equation is not None
        if equation.primitive.name not in FOLD:
            self.in_order &= joined(flat_index(array.shape, index)) == self.place
            return self.add("acc", array.dtype, (), 0)
        if not self.folds:
            self.origins.add(equation.origin)
            function, node = FOLD[equation.primitive.name](self, equation, index)
            dtype = self.dtype(node)
            if function in ("sum", "prod") and dtype.bits == 16 and dtype.is_float:
                node = self.cast(node, dtypes.float32)
            self.folds.append((function, self.dtype(node).name, node))
        function, name, _ = self.folds[0]
        found = dtypes.int32 if function.startswith("arg") else dtypes.by_name(name)
        return self.cast(self.add("acc", found, (), 0), array.dtype)

    def store_root(self, array: Array) -> None:
        """Compute an Array that has a buffer, and write it there."""
        self.root = array
        self.store(array, array)

    def store(self, array: Array, source: Array, axis: int = 0, start: Poly = ZERO) -> None:
        """Write all of `source` to the buffer of `array`, from `start` on along an axis."""
        index = tuple(self.axis(size) for size in source.shape)
        moved = tuple(at + start if k == axis else at for k, at in enumerate(index))
        self.place = flat_index(array.shape, moved)
        self.store_at(array, moved, self.element(source, index))

    def store_at(self, array: Array, index: Indices, value: int) -> None:
        """Write a node to the element of an Array at an index."""
        whole, index = self.where(array, index)
        if whole not in self.writes:
            self.writes.append(whole)
        self.stores.append((self.writes.index(whole), joined(flat_index(whole.shape, index)), value))


# ---- element rules: primitive -> node


def _elementwise(b: KernelBuilder, e: Equation, index: Indices) -> int:
    shape = e.outputs[0].shape
    for x in e.inputs:
        b.know(x.shape, shape[len(shape) - x.rank :], index[len(shape) - x.rank :])
    operands = [b.element(x, aligned(x, shape, index)) for x in e.inputs]
    function = e.params["function"]
    fewer = moved(b, function, *operands) if len(operands) == 2 else None
    return b.call(function, *operands) if fewer is None else fewer


def _cast(b: KernelBuilder, e: Equation, index: Indices) -> int:
    node, dtype = b.element(e.inputs[0], index), e.params["dtype"]
    same = as_float(b, node) if dtype is dtypes.float32 else None
    return b.cast(node, dtype) if same is None else same


def _bitcast(b: KernelBuilder, e: Equation, index: Indices) -> int:
    node, dtype = b.element(e.inputs[0], index), e.params["dtype"]
    return node if b.dtype(node) is dtype.lowered else b.add("bitcast", dtype, (node,))


def _sizes(b: KernelBuilder, e: Equation, index: Indices) -> int:
    dtype = e.params["dtype"]
    items = [b.cast(b.index(poly(size)), dtype) for size in e.params["sizes"]]
    if len(items) == 1:
        return items[0]
    where = b.index(flat_index(e.params["shape"], index))
    node = items[-1]
    for k in range(len(items) - 2, -1, -1):
        node = b.call("where", b.call("eq", where, b.index(constant(k))), items[k], node)
    return node


def _full(b: KernelBuilder, e: Equation, index: Indices) -> int:
    return b.const(e.params["value"], e.params["dtype"])


def _iota(b: KernelBuilder, e: Equation, index: Indices) -> int:
    return b.cast(b.index(index[e.params["axis"]]), e.params["dtype"])


def _reshape(b: KernelBuilder, e: Equation, index: Indices) -> int:
    (x,) = e.inputs
    flat = joined(flat_index(e.outputs[0].shape, index))
    if x is not b.core and x.value is None and b.has_own_buffer(x):
        return b.load_at(x, flat)
    return b.element(x, unflatten(flat, x.shape, b))


def unflatten(flat: Poly, shape: Sequence[Size], b: KernelBuilder) -> Indices:
    """The index at a row-major position."""
    symbols = flat.symbols()
    known = tuple(
        [
            (atom, limits)
            for atom, limits in b.ranges.items()
            if (atom in symbols if isinstance(atom, str) else not symbols.isdisjoint(atom.symbols))
        ]
    )
    return _unflattened(flat, tuple(map(poly, shape)), known, tuple(b.ranges.least.items()))


@lru_cache(1 << 12)
def _unflattened(
    flat: Poly,
    shape: tuple[Poly, ...],
    known: tuple[tuple[Atom, tuple[Poly, Poly]], ...],
    least: tuple[tuple[Atom, int], ...],
) -> Indices:
    """`unflatten` where so much is known of the symbols: layers that repeat ask for the same."""
    ranges = Ranges(known, dict(least))
    result: list[Poly] = []
    wide = [k for k, size in enumerate(shape) if size != ONE]
    for k in range(len(shape) - 1, -1, -1):
        size = shape[k]
        if size == ONE:
            result.append(ZERO)
        elif k == wide[0]:
            result.append(flat)
        else:
            result.append(flat.mod(size, ranges))
            flat = flat.floordiv(size, ranges)
    return tuple(reversed(result))


def _transpose(b: KernelBuilder, e: Equation, index: Indices) -> int:
    perm = e.params["perm"]
    return b.element(e.inputs[0], tuple(index[perm.index(axis)] for axis in range(len(perm))))


def _broadcast(b: KernelBuilder, e: Equation, index: Indices) -> int:
    (x,) = e.inputs
    return b.element(x, stretched(x.shape, e.params["shape"], e.params["axes"], index))


def _slice(b: KernelBuilder, e: Equation, index: Indices) -> int:
    starts, steps = e.params["starts"], e.params["steps"]
    moved = (poly(start) + at.scaled(step) for start, step, at in zip(starts, steps, index, strict=True))
    return b.element(e.inputs[0], tuple(moved))


def _pad(b: KernelBuilder, e: Equation, index: Indices) -> int:
    (x,) = e.inputs
    places, tests = [], []
    for low, high, size, at in zip(e.params["low"], e.params["high"], x.shape, index, strict=True):
        place, test = (at, None) if same(low, 0) and same(high, 0) else b.inside(at - poly(low), poly(size))
        places.append(place)
        if test is not None:
            tests.append(test)
    value = b.element(x, tuple(places))
    test = b.all(tests)
    return value if test is None else b.call("where", test, value, b.const(e.params["value"], x.dtype))


def _concat(b: KernelBuilder, e: Equation, index: Indices) -> int:
    axis = e.params["axis"]
    at, start, result = index[axis], ZERO, None
    for x in reversed(e.inputs):
        start = start + poly(x.shape[axis])
    end = start
    for x in reversed(e.inputs):
        start = end - poly(x.shape[axis])
        place, _ = b.inside(at - start, poly(x.shape[axis]))
        value = b.element(x, (*index[:axis], place, *index[axis + 1 :]))
        result = value if result is None else b.call("where", b.call("lt", b.index(at), b.index(end)), value, result)
        end = start
    assert result is not None
    return result


def _gather(b: KernelBuilder, e: Equation, index: Indices) -> int:
    x, *indices = e.inputs
    axes, place, rank = e.params["axes"], e.params["place"], e.inputs[1].rank
    inner = index[place : place + rank]
    kept = iter((*index[:place], *index[place + rank :]))
    position: list[Poly] = [ZERO] * x.rank
    for axis in range(x.rank):
        if axis not in axes:
            position[axis] = next(kept)
    for axis, data in zip(axes, indices, strict=True):
        position[axis] = _position(b, data, inner, poly(x.shape[axis]))
    return b.element(x, tuple(position))


def _position(b: KernelBuilder, data: Array, index: Indices, size: Poly) -> Poly:
    """An index Array's element as a polynomial: iota and constants stay what they are."""
    while data.equation is not None and not b.is_buffer(data) and data.equation.primitive.name == "broadcast":
        params = data.equation.params
        (data,) = data.equation.inputs
        index = stretched(data.shape, params["shape"], params["axes"], index)
    if data.equation is not None and data.equation.primitive.name == "iota" and not b.is_buffer(data):
        axis: int = data.equation.params["axis"]
        return index[axis]
    if data.value is not None and data.value.size == 1 and size.constant is not None:
        return constant(max(0, min(int(data.value.reshape(-1)[0]), size.constant - 1)))
    return b.data_index(b.element(data, index), size)


ELEMENT: dict[str, Callable[[KernelBuilder, Equation, Indices], int]] = {
    "elementwise": _elementwise,
    "cast": _cast,
    "bitcast": _bitcast,
    "sizes": _sizes,
    "full": _full,
    "iota": _iota,
    "reshape": _reshape,
    "transpose": _transpose,
    "broadcast": _broadcast,
    "slice": _slice,
    "pad": _pad,
    "concat": _concat,
    "gather": _gather,
}


# ---- fold rules: primitive -> (function, node that is folded)


def _reduce(b: KernelBuilder, e: Equation, index: Indices) -> tuple[str, int]:
    (x,) = e.inputs
    outer = iter(index)
    axes = e.params["axes"]
    place = tuple(b.axis(size, True) if axis in axes else next(outer) for axis, size in enumerate(x.shape))
    return e.params["function"], b.element(x, place)


def _dot_general(b: KernelBuilder, e: Equation, index: Indices) -> tuple[str, int]:
    left, right = e.inputs
    contract, batch, dtype = e.params["contract"], e.params["batch"], e.params["dtype"]
    inner = [b.axis(left.shape[axis], True) for axis in contract[0]]
    outer = list(index[: len(batch[0])])
    free = iter(index[len(batch[0]) :])
    operands = []
    for side, x in enumerate((left, right)):
        place = [ZERO] * x.rank
        for axis in range(x.rank):
            if axis in contract[side]:
                place[axis] = inner[contract[side].index(axis)]
            elif axis in batch[side]:
                place[axis] = outer[batch[side].index(axis)]
            else:
                place[axis] = next(free)
        value = b.cast(b.element(x, tuple(place)), dtype)
        operands.append(b.cast(value, dtypes.float32) if dtype.bits == 16 and dtype.is_float else value)
    return "sum", b.call("mul", *operands)


def _conv_general(b: KernelBuilder, e: Equation, index: Indices) -> tuple[str, int]:
    x, w = e.inputs
    groups = e.params["groups"]
    channel = b.axis(w.shape[1], True)
    per_group = poly(w.shape[0] // groups)
    group = index[1].floordiv(per_group, b.ranges) if groups != 1 else ZERO
    taps = [b.axis(size, True) for size in w.shape[2:]]
    place, tests = [], []
    for k, tap in enumerate(taps):
        at = index[2 + k].scaled(e.params["strides"][k]) + tap.scaled(e.params["dilations"][k])
        at = at - poly(e.params["low"][k])
        step, size = e.params["spread"][k], poly(x.shape[2 + k])
        wide = (size - ONE).scaled(step) + ONE
        at, test = b.inside(at, wide)
        if test is not None:
            tests.append(test)
        if step != 1:
            tests.append(b.call("eq", b.index(at.mod(constant(step), b.ranges)), b.index(ZERO)))
            at = at.floordiv(constant(step), b.ranges)
        place.append(at)
    value = b.element(x, (index[0], group * poly(w.shape[1]) + channel, *place))
    weight = b.element(w, (index[1], channel, *taps))
    if x.dtype.bits == 16 and x.dtype.is_float:
        value, weight = b.cast(value, dtypes.float32), b.cast(weight, dtypes.float32)
    product = b.call("mul", value, weight)
    test = b.all(tests)
    return "sum", product if test is None else b.call("where", test, product, b.const(0, b.dtype(product)))


def _reduce_window(b: KernelBuilder, e: Equation, index: Indices) -> tuple[str, int]:
    (x,) = e.inputs
    p = e.params
    outer = x.rank - len(p["window"])
    place, tests = list(index[:outer]), []
    for k, size in enumerate(p["window"]):
        tap = b.axis(size, True)
        at = index[outer + k].scaled(p["strides"][k]) + tap.scaled(p["dilations"][k]) - poly(p["low"][k])
        at, test = b.inside(at, poly(x.shape[outer + k]))
        place.append(at)
        if test is not None:
            tests.append(test)
    value, test = b.element(x, tuple(place)), b.all(tests)
    if test is not None:
        function = {"argmax": "max", "argmin": "min"}.get(p["function"], p["function"])
        value = b.call("where", test, value, b.const(identity(function, x.dtype), x.dtype))
    return p["function"], value


FOLD: dict[str, Callable[[KernelBuilder, Equation, Indices], tuple[str, int]]] = {
    "reduce": _reduce,
    "dot_general": _dot_general,
    "conv_general": _conv_general,
    "reduce_window": _reduce_window,
}

STORED = frozenset({"append"})
"""Primitives whose result lies where an operand does: what they add is stored there."""
GENERATED = STORED.union(ELEMENT, FOLD)
"""All primitives that become kernels."""
