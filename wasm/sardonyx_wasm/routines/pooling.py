"""Windows of which the largest, the least or the sum is taken: down the rows first, then along what is left.

x [B, H, W, C] to y [B, Ho, Wo, C], both float32; attributes: `function`, and `window`, `strides`, `dilations` and
`low`, the border before, of both axes. Elements beyond the image count as the identity. A unit is a row of outputs: the
rows that it sees become one in the scratch memory, between borders, which is folded tap by tap then. So a window of
5 x 5 elements takes 10 steps in place of 25, all of them along elements that lie side by side, whatever C is.

Maxima that hand on NaN take several instructions, so the quick ones are used, and lanes where a NaN was seen become NaN
at the end.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from sardonyx.code.folds import identity
from sardonyx.code.kernel import Routine
from sardonyx.common import dtypes

from ..assembler import Expr, Function, f32, f32x4, i32, i32x4
from ..code import Code, Unit
from ..primitives import POOL
from . import frame

_PARTS = 4
"""Vectors that are folded side by side."""
_SCALARS = 4
"""Channels below which outputs that lie apart are found together with those between them."""
_COMBINE: dict[str, Callable[[Expr, Expr], Expr]] = {"max": f32.max, "min": f32.min, "sum": operator.add}
_QUICK: dict[str, Callable[[Expr, Expr], Expr]] = {"max": f32x4.pmax, "min": f32x4.pmin}
_FOLD = ("target", "source", "bytes", "step", "count")


def pool(unit: Unit, routine: Routine) -> Code:
    """x -> y."""
    given = routine.attributes
    function = given["function"]
    (high, wide), (down, across), (apart, beside), (above, before) = (
        given[name] for name in ("window", "strides", "dilations", "low")
    )
    batch, rows, columns, channels = routine.outputs[0]
    pixel, span = 4 * channels, (wide - 1) * beside + 1
    most = max(1, (POOL.most // channels - span) // across + 1)
    fold = unit.once("pool", function, lambda: _write_fold(unit, function))
    fill = unit.once("pool", f"fill {function}", lambda: _write_fill(unit, function))
    together = across > 1 and channels < _SCALARS
    with frame.function(unit, routine) as f:
        x, y = frame.buffers(f, routine)
        out, inside, width, length = (
            f.let(frame.size(f, size)) for size in (rows, routine.inputs[0][1], columns, routine.inputs[0][2])
        )
        row = f.let(length * pixel)
        number, start, first, count, begin, end, at, place = (f.local(i32) for _ in range(8))
        with f.loop(number, f.begin, f.end):
            image = f.let(i32.div_u(number, out))
            top = f.let((number - image * out) * down - above)
            f.set(first, f.select(top < 0, i32.div_s(apart - 1 - top, apart), 0))
            f.set(count, f.select(inside > top, i32.div_s(inside - top + (apart - 1), apart), 0))
            f.set(count, f.select(count < high, count, high) - first)
            source = f.let(x + (image * inside + top + first * apart) * row)
            with f.loop(start, 0, width, step=most):
                some = f.let(frame.least(f, width - start, most))
                left = f.let(start * across - before)
                seen = f.let((some - 1) * across + span)
                f.set(begin, f.select(left < 0, 0 - left, 0))
                f.set(begin, f.select((count > 0) & (begin < seen), begin, seen))
                f.set(end, f.select(left + seen < length, seen, length - left))
                f.set(end, f.select(end > begin, end, begin))
                f.call(fill, f.scratch, begin * pixel)
                f.call(fill, f.scratch + end * pixel, (seen - end) * pixel)
                seen_first = source + (left + begin) * pixel
                f.call(fold, f.scratch + begin * pixel, seen_first, (end - begin) * pixel, row * apart, count)
                target = f.let(y + (number * width + start) * pixel)
                step = i32.const(beside * pixel)
                if across == 1:
                    f.call(fold, target, f.scratch, some * pixel, step, wide)
                elif together:
                    every = f.let(f.scratch + seen * pixel)
                    f.call(fold, every, f.scratch, (seen - (span - 1)) * pixel, step, wide)
                    f.set(at, every)
                    f.set(end, target + some * pixel)
                    with f.loop(place, target, end, step=pixel, unsigned=True):
                        for channel in range(0, pixel, 4):
                            f.store(place, i32.load(at, offset=channel), offset=channel)
                        f.set(at, at + across * pixel)
                else:
                    f.set(at, f.scratch)
                    f.set(end, target + some * pixel)
                    with f.loop(place, target, end, step=pixel, unsigned=True):
                        f.call(fold, place, at, i32.const(pixel), step, wide)
                        f.set(at, at + across * pixel)
    room = (most - 1) * across * pixel + span * pixel
    return Code(f, frame.units([batch, rows]), scratch=2 * room if together else room)


def _write_fill(unit: Unit, function: str) -> Function:
    """A function (target, bytes) that stores identities."""
    number = float(identity(function, dtypes.float32))
    with unit.module.function(f"pool_fill_{function}", dict.fromkeys(("target", "bytes"), i32)) as f:
        word, end = f.let(f32.const(number)), f.let(f.target + f.bytes)
        with f.while_(f.target != end):
            f.store(f.target, word)
            f.set(f.target, f.target + 4)
    return f


def _write_fold(unit: Unit, function: str) -> Function:
    """A function: elements of `bytes` from `target` on become the fold of `count` of them, which are `step` apart."""
    quick = _QUICK.get(function)
    with unit.module.function(f"pool_{function}", dict.fromkeys(_FOLD, i32)) as f:
        at, number, back = f.local(i32), f.local(i32), f.let(f.bytes)

        def vectors(count: int) -> None:
            f.set(at, f.source)
            totals = [f.let(f32x4.load(at, offset=16 * k)) for k in range(count)]
            unordered = [f.let(total != total) for total in totals] if quick else []
            with f.loop(number, 1, f.count):
                f.set(at, at + f.step)
                for k, total in enumerate(totals):
                    x = f.let(f32x4.load(at, offset=16 * k))
                    f.set(total, quick(total, x) if quick else total + x)
                    if quick:
                        f.set(unordered[k], unordered[k] | (x != x))
            for k, total in enumerate(totals):
                made = (total.as_(i32x4) | unordered[k].as_(i32x4)).as_(f32x4) if quick else total
                f.store(f.target, made, offset=16 * k)
            move(i32.const(16 * count))

        def move(by: Expr) -> None:
            f.set(f.source, f.source + by)
            f.set(f.target, f.target + by)
            f.set(f.bytes, f.bytes - by)

        for count in (_PARTS, 1):
            with f.while_(f.bytes >= 16 * count):
                vectors(count)
        with f.if_((back >= 16) & (f.bytes > 0)):  # some are done again
            move(f.let(f.bytes - 16))
            vectors(1)
        with f.while_(f.bytes > 0):
            f.set(at, f.source)
            total = f.let(f32.load(at))
            with f.loop(number, 1, f.count):
                f.set(at, at + f.step)
                f.set(total, _COMBINE[function](total, f32.load(at)))
            f.store(f.target, total)
            move(i32.const(4))
    return f
