"""Attention: the scores of some queries to some keys are made, become weights, and weigh the values, in scratch memory.

Scores of all queries to all keys never exist. After each block of keys the results so far are scaled to what is the
largest score by then (M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax", 2018). Queries of
heads that share keys are rows of one matrix. A unit is a row of queries; keys are put into panels where enough rows
need them, else multiplied in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from sardonyx.code.fits import FITS, LN2, ONE, parts
from sardonyx.code.kernel import Routine

from .. import vectors
from ..abi import SCRATCH, WEIGHED, WEIGHED_ROW
from ..assembler import Expr, Function, Operand, ValueType, Variable, f32, f32x4, i32, i32x4, op, v128
from ..code import Code, Unit
from ..primitives import ATTEND
from ..scalars.values import kind
from ..vectors.lanes import words
from . import channels, frame, tile

_QUERIES, _KEYS, _ROWS = 48, 256, 1024
"""Rows whose scores are made at once, keys of a block, rows for which keys are put into panels once."""

# Places in the scratch memory; a row's state is its largest score and the sum of its weights.
_WEIGHTS, _OFFSETS, _EDGE, _FACTORS, _STATE = 256, 500, 512, 1024, 2048
_MADE = _STATE + 8 * _ROWS
_SCORES = _MADE + 4 * _QUERIES * ATTEND.LARGEST
_PANELS = _SCORES + 4 * _QUERIES * _KEYS
assert _PANELS + 4 * _KEYS * ATTEND.LARGEST <= SCRATCH

_FLOAT = kind("float32")
_LOWEST = float("-inf")
_LEAST, _SHIFT = -86.0, 1.5 * 2**23 + 127


def attend(unit: Unit, routine: Routine) -> Code:
    """q [B, H, S, D], scaled, k [B, G, T, D], v [B, G, T, E], maybe what is added to the scores [B or 1, H or 1, S or
    1, T] -> [B, H, S, E]; attribute causal: the place of the first query among the keys, or None. D and E are known.

    With the attribute keys, that is T, and k and v have room behind their first T places: they are caches."""
    (batch, heads, length, depth), (_, groups, room, _), (_, _, other_room, _) = routine.inputs[:3]
    width, causal = routine.outputs[0][-1], routine.attributes["causal"]
    keys = room if routine.attributes["keys"] is None else _given(routine.attributes["keys"])
    product, panel = tile.product(unit), tile.SHAPES[unit.target].width
    packed, dots, soften, combine, finish = (
        unit.once("attention", write.__name__, partial(write, unit))
        for write in (_packed, _dots, _soften, _combine, _finish)
    )
    with frame.function(unit, routine) as f:
        q, k, v, *bias, y = frame.buffers(f, routine)
        q_row, v_row = 4 * depth, 4 * width
        s, t = frame.size(f, length), frame.size(f, keys)
        key_rows, value_rows = frame.size(f, room), frame.size(f, other_room)
        per_matrix = f.let(s * (heads // groups))
        f.store(f.scratch, i32.const(0), offset=_OFFSETS)
        tile.table(f, f.scratch + _WEIGHTS, _QUERIES, f.scratch + _SCORES, i32.const(4 * _KEYS))
        scores, made, panels, factors = (f.let(f.scratch + at) for at in (_SCORES, _MADE, _PANELS, _FACTORS))

        def multiply(
            rows: Expr,
            count: Expr,
            depth: Operand,
            b: Expr,
            b_row: Operand,
            between: Operand,
            c: Expr,
            c_row: int,
            columns: Operand,
        ) -> None:
            operands = rows, count, f.scratch + _OFFSETS, 1, depth, b, b_row, between, c, c_row, columns
            f.call(product, *operands, f.scratch + _EDGE)

        def visible(begin: Expr, end: Expr, first: Operand) -> Expr:
            """The keys from `first` on that any of these rows may see."""
            return _visible(f, causal, s, t, begin, end) - first

        row, stop, block, first, at, many = (f.local(i32) for _ in range(6))
        f.set(many, per_matrix >= ATTEND.FEW)
        f.set(row, f.begin)
        with f.while_(i32.lt_u(row, f.end)):
            matrix = f.let(i32.div_u(row, per_matrix))
            f.set(stop, frame.least(f, frame.least(f, (matrix + 1) * per_matrix, f.end), row + _ROWS))
            f.do(op("memory.fill", y + row * v_row, 0, (stop - row) * v_row))
            with f.loop(at, 0, (stop - row) * 8, step=8):
                f.store(f.scratch + at, f32.const(_LOWEST), offset=_STATE)
                f.store(f.scratch + at, f32.const(0.0), offset=_STATE + 4)
            seen = f.let(visible(row, stop, 0))
            with f.loop(first, 0, seen, step=_KEYS):
                keys_at = f.let(k + (matrix * key_rows + first) * q_row)
                values_at = f.let(v + (matrix * value_rows + first) * v_row)
                left = f.let(frame.least(f, seen - first, _KEYS))
                with f.if_(many):
                    f.call(packed, panels, keys_at, left, q_row)
                with f.loop(block, row, stop, step=_QUERIES):
                    rows = f.let(frame.least(f, stop - block, _QUERIES))
                    count = f.let(visible(block, block + rows, first))
                    f.set(count, f.select(count < left, count, left))
                    with f.if_(count > 0):
                        wide = f.let((count * 4 + (panel - 1)) & -panel)
                        with f.if_(many):
                            tile.table(f, f.scratch, rows, q + block * q_row, i32.const(q_row))
                            multiply(f.scratch, rows, q_row, panels, panel, depth * panel, scores, 4 * _KEYS, wide)
                        with f.else_(), f.loop(at, 0, rows):
                            f.call(dots, q + (block + at) * q_row, keys_at, q_row, count, scores + at * (4 * _KEYS))
                        with f.loop(at, 0, rows):
                            query = f.let(block + at)
                            own = _own(f, causal, s, query, first, count)
                            added = _bias(f, routine, bias[0], query, first) if bias else i32.const(0)
                            state = f.scratch + _STATE + (query - row) * 8
                            factor = soften(scores + at * (4 * _KEYS), own * 4, wide, added, state)
                            f.store(factors + at * 4, factor)
                        multiply(f.scratch + _WEIGHTS, rows, count * 4, values_at, v_row, panel, made, v_row, v_row)
                        f.call(combine, y + block * v_row, made, factors, rows, v_row)
            f.call(finish, y + row * v_row, f.scratch + _STATE, stop - row, v_row)
            f.set(row, stop)
    return Code(f, frame.units((batch, heads, length)), tile.SHAPES[unit.target].height, SCRATCH)


def weigh(unit: Unit, routine: Routine) -> Code:
    """Scores of the queries of one matrix in the scratch memory, row by row, become weights whose sums are 1, or 0
    where a query sees nothing; operands and attributes are those of `attend`.

    A row has as many scores as any of them sees, and is filled up with zeros. A unit is a row.
    """
    (_, heads, length, _), (_, _, room, _), _ = routine.inputs[:3]
    causal = routine.attributes["causal"]
    keys = room if routine.attributes["keys"] is None else _given(routine.attributes["keys"])
    soften = unit.once("attention", _soften.__name__, partial(_soften, unit))
    with frame.function(unit, routine) as f:
        _, _, _, *bias, _ = frame.buffers(f, routine)
        s, t = frame.size(f, length), frame.size(f, keys)
        query, at, scores = f.local(i32), f.local(i32), f.let(f.scratch + WEIGHED)
        count = f.let(_visible(f, causal, s, t, f.begin, f.end))
        wide = f.let((count * 4 + (WEIGHED_ROW - 1)) & -WEIGHED_ROW)
        factor = f.local(f32x4)
        with f.loop(query, f.begin, f.end):
            f.store(f.scratch, f32.const(_LOWEST))
            f.store(f.scratch, f32.const(0.0), offset=4)
            own = _own(f, causal, s, query, 0, count)
            added = _bias(f, routine, bias[0], query, i32.const(0)) if bias else i32.const(0)
            f.do(soften(scores, own * 4, wide, added, f.scratch))
            total = f.let(f32.load(f.scratch, offset=4))
            divisor = f.select(total == f32.const(0.0), f32.const(1.0), total)
            f.set(factor, f32x4.splat(f32.const(1.0) / divisor))
            with f.loop(at, 0, wide, step=16):
                f.store(scores + at, f32x4.load(scores + at) * factor)
            f.set(scores, scores + wide)
    return Code(f, frame.units((heads, length)), 1, SCRATCH)


def _visible(f: Function, causal: Any, s: Expr, t: Expr, begin: Expr, end: Expr) -> Expr:
    """The keys that any of these rows may see."""
    if causal is None:
        return t
    last = f.select(i32.div_u(begin, s) == i32.div_u(end - 1, s), i32.rem_u(end - 1, s), s - 1)
    behind = f.let(last + (_place(f, causal) + 1))
    return f.select(behind < t, behind, t)


def _own(f: Function, causal: Any, s: Expr, query: Expr, first: Operand, count: Expr) -> Expr:
    """Those of `count` keys from `first` on that a query sees."""
    if causal is None:
        return count
    own = f.let(i32.rem_u(query, s) + (_place(f, causal) + 1) - first)
    f.set(own, f.select(own < count, own, count))
    f.set(own, f.select(own > 0, own, i32.const(0)))
    return own


def _place(f: Function, causal: Any) -> Expr:
    return frame.size(f, _given(causal))


def _given(size: Any) -> Any:
    """A size among attributes, as those of inputs are."""
    return size["size"] if isinstance(size, dict) else size


def _bias(f: Function, routine: Routine, bias: Expr, query: Expr, first: Expr) -> Expr:
    """Where that is which is added to the scores of a query, from the key `first` on."""
    _, heads, length, _ = routine.inputs[0]
    *own, keys = routine.inputs[3]
    rest, place = query, i32.const(0)
    step = frame.size(f, keys)
    for size, whole in zip(reversed(own), (length, heads, None)):
        if whole is None:
            index = rest
        else:
            above = f.let(i32.div_u(rest, frame.size(f, whole)))
            index = rest - above * frame.size(f, whole)
            rest = above
        if size != 1:
            place = place + index * step
            step = f.let(step * frame.size(f, size))
    return bias + (place + first) * 4


def _packed(unit: Unit) -> Function:
    """(target, source, count, row): `count` rows of keys as panels, whose last one may hold anything behind them."""
    panel = tile.SHAPES[unit.target].width
    with unit.module.function("attention_packed", dict.fromkeys(("target", "source", "count", "row"), i32)) as f:
        key, at, place = (f.local(i32) for _ in range(3))
        with f.loop(key, 0, f.count, step=4):
            lines = _lines(f, key)
            width = panel // 4
            f.set(place, f.target + i32.div_u(key, width) * width * f.row + i32.rem_u(key, width) * 4)
            with f.loop(at, 0, f.row, step=16):
                columns = _transposed(f, [f.let(f32x4.load(line + at)) for line in lines])
                for number, column in enumerate(columns):
                    f.store(place, column, offset=number * panel)
                f.set(place, place + 4 * panel)
    return f


def _dots(unit: Unit) -> Function:
    """(query, source, row, count, target): the products of a query with each of `count` keys."""
    params = dict.fromkeys(("query", "source", "row", "count", "target"), i32)
    with unit.module.function("attention_dots", params) as f:
        key, at = f.local(i32), f.local(i32)
        sums = [f.local(f32x4) for _ in range(4)]
        with f.loop(key, 0, f.count, step=4):
            lines = _lines(f, key)
            for total in sums:
                f.set(total, f32x4.const(0.0))
            with f.loop(at, 0, f.row, step=16):
                value = f.let(f32x4.load(f.query + at))
                for total, line in zip(sums, lines, strict=True):
                    f.set(total, channels.multiply_add(unit, value, f32x4.load(line + at), total))
            a, b, c, d = _transposed(f, sums)
            f.store(f.target + key * 4, (a + b) + (c + d))
    return f


def _lines(f: Function, key: Expr) -> list[Variable]:
    """Where four keys are from this one on; the last one stands for those behind it."""
    return [f.let(f.source + frame.least(f, key + k, f.count - 1) * f.row) for k in range(4)]


def _transposed(f: Function, rows: Sequence[Expr]) -> list[Expr]:
    """The columns of four vectors."""
    a, b, c, d = rows
    pairs = [f.let(words(x, y, *order)) for x, y in ((a, b), (c, d)) for order in ((0, 4, 1, 5), (2, 6, 3, 7))]
    left, right, low, high = pairs[0], pairs[1], pairs[2], pairs[3]
    return [words(x, y, *order) for x, y in ((left, low), (right, high)) for order in ((0, 1, 4, 5), (2, 3, 6, 7))]


def _soften(unit: Unit) -> Function:
    """(x, limit, wide, bias, state) -> factor: make weights of the scores of a query.

    All are bytes or addresses: scores behind `limit` are -inf, up to `wide`; `bias` is added if it is not 0. The factor
    is what scales all that was made with the state before.
    """
    params = dict.fromkeys(("x", "limit", "wide", "bias", "state"), i32)
    with unit.module.function("attention_soften", params, [f32]) as f:
        scope = vectors.FunctionScope(unit, f)
        at, total, peak, other = f.local(i32), f.local(f32x4), f.local(f32x4), f.local(f32x4)
        with f.if_(f.bias):
            for lanes, begin, end in ((f32x4, i32.const(0), f.limit & -16), (f32, f.limit & -16, f.limit)):
                with f.loop(at, begin, end, step=lanes.size):
                    _add(f, lanes, f.x + at, f.bias + at)
        with f.loop(at, f.limit, f.wide, step=4):
            f.store(f.x + at, f32.const(_LOWEST))
        old = f.let(f32.load(f.state))
        f.set(peak, f32x4.splat(old))
        f.set(other, peak)
        with f.loop(at, 0, f.wide, step=32):
            f.set(peak, f32x4.pmax(peak, f32x4.load(f.x + at)))
            f.set(other, f32x4.pmax(other, f32x4.load(f.x + at, offset=16)))
        f.set(peak, f32x4.pmax(peak, other))
        f.set(peak, f32x4.pmax(peak, words(peak, peak, 2, 3, 0, 1)))
        f.set(peak, f32x4.pmax(peak, words(peak, peak, 1, 0, 3, 2)))
        f.store(f.state, f32x4.extract_lane(peak, lane=0))
        f.set(peak, v128.andnot(peak, peak == f32x4.const(_LOWEST)).as_(f32x4))
        totals = total, other
        f.set(other, total)
        with f.loop(at, 0, f.wide, step=32):
            below = [f.let(f32x4.load(f.x + at, offset=16 * k) - peak) for k in range(2)]
            for k, power in enumerate(_powers(unit, f, below)):
                f.store(f.x + at, power, offset=16 * k)
                f.set(totals[k], totals[k] + power)
        f.set(total, total + other)
        (factors,) = vectors.apply(scope, "exp", _FLOAT, [(f32x4.splat(old) - peak,)])
        factor = f.let(f32x4.extract_lane(factors, lane=0))
        f.set(total, total + words(total, total, 2, 3, 0, 1))
        added = f32x4.extract_lane(total, lane=0) + f32x4.extract_lane(total, lane=1)
        f.store(f.state, f32.load(f.state, offset=4) * factor + added, offset=4)
        f.return_(factor)
    return f


def _powers(unit: Unit, f: Function, xs: Sequence[Expr]) -> list[Expr]:
    """exp(x) of numbers that are not positive, side by side; 0 from where it is hardly a normal number.

    x = n * log(2) + r, and exp(r) = 1 + r + r * r * polynomial(r), as `code.transcendental` has it. Added to a large
    number, n and the bias of exponents are its last bits.
    """
    high, low = parts(LN2, 15)
    first, *coefficients = reversed(FITS["float32"]["exp"])

    def multiply_add(x: Expr, y: Expr | float, z: Expr | float) -> Expr:
        y, z = (f32x4.const(value) if isinstance(value, float) else value for value in (y, z))
        return f.let(channels.multiply_add(unit, x, y, z))

    bounded = [f.let(f32x4.pmax(x, f32x4.const(_LEAST))) for x in xs]
    shifted = [multiply_add(x, ONE / LN2, _SHIFT) for x in bounded]
    whole = [f.let(x - f32x4.const(_SHIFT)) for x in shifted]
    rest = [multiply_add(n, -high, x) for n, x in zip(whole, bounded)]
    rest = [multiply_add(n, -low, r) for n, r in zip(whole, rest)]
    sums: list[Expr] = [f32x4.const(first)] * len(rest)
    for c in coefficients:
        sums = [multiply_add(total, r, c) for total, r in zip(sums, rest)]
    sums = [multiply_add(f.let(r * r), total, r) for total, r in zip(sums, rest)]
    powers = [(f32x4.const(1.0) + total) * (x.as_(i32x4) << 23).as_(f32x4) for total, x in zip(sums, shifted)]
    return [f.let(v128.andnot(power, x < f32x4.const(_LEAST)).as_(f32x4)) for power, x in zip(powers, xs)]


def _add(f: Function, lanes: ValueType, x: Expr, bias: Expr) -> None:
    """x + bias, and -inf where that is -inf, whatever x is."""
    added, lowest = f.let(lanes.load(bias)), lanes.const(_LOWEST)
    total = lanes.load(x) + added
    if lanes is f32:
        f.store(x, f.select(added == lowest, lowest, total))
    else:
        f.store(x, v128.bitselect(lowest, total, added == lowest))


def _combine(unit: Unit) -> Function:
    """(y, made, factors, rows, bytes): y = y * factor + made, for each row."""
    with unit.module.function("attention_combine", dict.fromkeys(("y", "made", "factors", "rows", "bytes"), i32)) as f:
        number, at = f.local(i32), f.local(i32)
        with f.loop(number, 0, f.rows):
            factor = f.let(f32x4.load32_splat(f.factors + number * 4))
            with f.loop(at, 0, f.bytes, step=16):
                made = f32x4.load(f.made + at)
                f.store(f.y + at, channels.multiply_add(unit, f32x4.load(f.y + at), factor, made))
            f.set(f.y, f.y + f.bytes)
            f.set(f.made, f.made + f.bytes)
    return f


def _finish(unit: Unit) -> Function:
    """(y, state, rows, bytes): divide each row by the sum of its weights, if that is not 0."""
    with unit.module.function("attention_finish", dict.fromkeys(("y", "state", "rows", "bytes"), i32)) as f:
        number, at = f.local(i32), f.local(i32)
        with f.loop(number, 0, f.rows):
            total = f.let(f32.load(f.state + number * 8, offset=4))
            divisor = f.let(f32x4.splat(f.select(total == f32.const(0.0), f32.const(1.0), total)))
            with f.loop(at, 0, f.bytes, step=16):
                f.store(f.y + at, f32x4.load(f.y + at) / divisor)
            f.set(f.y, f.y + f.bytes)
    return f
