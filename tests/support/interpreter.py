"""Runs Programs and Functions with NumPy, all points of the grid at once: what generated code is compared with.

A value is an array with one element per point of the grid, or with one for all. bfloat16 is float32, rounded after
each step. Statements under a condition run for the points where it holds; an active load out of bounds is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sardonyx.code import scalar
from sardonyx.code.approximation import Approximation
from sardonyx.code.program import Program
from sardonyx.common import dtypes

Array = np.ndarray


def run(program: Program, buffers: Sequence[Array], params: Sequence[int] = ()) -> None:
    """Run a program on one-dimensional buffers of their dtypes' storage; those written change in place."""
    frame = _Frame((*program.reads, *program.writes), buffers, params)
    extents = [int(frame.value(extent)[0]) for extent in program.grid]
    axes = np.indices(extents, dtype=np.int32).reshape(len(extents), -1) if extents else np.zeros((0, 1), np.int32)
    frame.grid = list(axes)
    frame.points = axes.shape[1]
    with np.errstate(all="ignore"):
        frame.run(program.body, np.ones(frame.points, bool))


def apply(code: Approximation, *operands: Array) -> Array:
    """A Approximation of arrays, element by element."""
    frame = _Frame((), (), ())
    frame.points = operands[0].size
    frame.variables = {name: operand.ravel() for (name, _), operand in zip(code.params, operands)}
    with np.errstate(all="ignore"):
        frame.run(code.body[:-1], np.ones(frame.points, bool))
        result = np.broadcast_to(frame.value(code.body[-1][1]), frame.points).reshape(operands[0].shape)
        if code.beyond and (large := np.abs(operands[0]) > code.beyond.limit).any():
            result = np.where(large, apply(code.beyond.function, *operands), result)
        return result


def storage(dtype: str) -> np.dtype[Any]:
    """The NumPy type in which the interpreter computes with this dtype."""
    return np.dtype("f4") if dtype == "bfloat16" else dtypes.by_name(dtype).storage


def to_bfloat16(x: Array) -> Array:
    """float32 as the bits of bfloat16, rounded to nearest even; NaN stays NaN.

    >>> hex(to_bfloat16(np.float32([1.00390625]))[0]), hex(to_bfloat16(np.float32([1.01171875]))[0])
    ('0x3f80', '0x3f82')
    """
    bits = x.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(x), (bits >> np.uint32(16)) | np.uint32(0x40), rounded).astype(np.uint16)


def from_bfloat16(bits: Array) -> Array:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def convert(x: Array, source: str, target: str) -> Array:
    """What the language's `cast` does."""
    if target == "bfloat16":
        # Through a float32 rounded to odd, so that float64 is rounded once.
        return from_bfloat16(to_bfloat16(_to_odd(x) if x.dtype == np.float64 else scalar.cast(x, np.dtype("f4"))))
    return np.asarray(scalar.cast(x, storage(target)))


def _to_odd(x: Array) -> Array:
    near = x.astype(np.float32)
    inexact = (near.astype(np.float64) != x) & np.isfinite(near)
    toward_zero = np.where(np.abs(near) > np.abs(x), np.nextafter(near, np.float32(0)), near).astype(np.float32)
    return np.where(inexact, (toward_zero.view(np.uint32) | np.uint32(1)).view(np.float32), near).astype(np.float32)


class _Frame:
    def __init__(self, types: tuple[str, ...], buffers: Sequence[Array], params: Sequence[int]) -> None:
        self.types = types
        self.buffers = buffers
        self.params = params
        self.grid: list[Array] = []
        self.points = 1
        self.variables: dict[str, Array] = {}

    def run(self, statements: Sequence[Any], active: Array) -> None:
        for statement in statements:
            getattr(self, f"_{statement[0]}")(active, *statement[1:])

    def _let(self, active: Array, name: str, expression: Any) -> None:
        self.variables[name] = np.broadcast_to(self.value(expression, active), self.points)

    def _set(self, active: Array, name: str, expression: Any) -> None:
        self.variables[name] = np.where(active, self.value(expression, active), self.variables[name])

    def _for(self, active: Array, name: str, count: Any, block: Any) -> None:
        counts = np.broadcast_to(self.value(count, active), self.points)
        for index in range(int(counts[active].max(initial=0))):
            self.variables[name] = np.full(self.points, index, np.int32)
            self.run(block, active & (index < counts))

    def _while(self, active: Array, condition: Any, block: Any) -> None:
        while (active := active & self.value(condition, active)).any():
            self.run(block, active)

    def _if(self, active: Array, condition: Any, yes: Any, no: Any) -> None:
        holds = np.broadcast_to(self.value(condition, active), self.points)
        for block, where in ((yes, active & holds), (no, active & ~holds)):
            if where.any():
                self.run(block, where)

    def _store(self, active: Array, buffer: int, index: Any, value: Any) -> None:
        where = np.broadcast_to(self.value(index, active), self.points)[active]
        assert ((where >= 0) & (where < self.buffers[buffer].size)).all(), (
            f"a store to buffer {buffer} is out of bounds"
        )
        result = np.broadcast_to(self.value(value, active), self.points)[active]
        self.buffers[buffer][where] = to_bfloat16(result) if self.types[buffer] == "bfloat16" else result

    def value(self, expression: Any, active: Array | None = None) -> Array:
        kind, dtype, *operands = expression
        match kind:
            case "const":
                return np.full(1, operands[0], storage(dtype))
            case "param":
                return np.full(1, self.params[operands[0]], np.int32)
            case "grid":
                index: np.ndarray = self.grid[operands[0]]
                return index
            case "var":
                return self.variables[operands[0]]
            case "load":
                return self._load(operands[0], self.value(operands[1], active), active)
            case "cast":
                return convert(self.value(operands[0], active), operands[0][1], dtype)
            case "pick":
                numbers, first = np.asarray(operands[0], storage(dtype)), operands[1]
                picked: Array = numbers[np.clip(self.value(operands[2], active) - first, 0, len(numbers) - 1)]
                return picked
            case "bitcast":
                return _bitcast(self.value(operands[0], active), operands[0][1], dtype)
        result = scalar.FUNCTIONS[kind].numpy(*(self.value(operand, active) for operand in operands))
        return convert(result, "float32", dtype) if dtype == "bfloat16" else result

    def _load(self, buffer: int, index: Array, active: Array | None) -> Array:
        array = self.buffers[buffer]
        inside = (index >= 0) & (index < array.size)
        assert active is None or (inside | ~active).all(), f"a load from buffer {buffer} is out of bounds"
        loaded = array[np.where(inside, index, 0)] if array.size else np.zeros(index.shape, array.dtype)
        return from_bfloat16(loaded) if self.types[buffer] == "bfloat16" else loaded


def _bitcast(x: Array, source: str, target: str) -> Array:
    bits = to_bfloat16(x) if source == "bfloat16" else x
    return from_bfloat16(bits.view(np.uint16)) if target == "bfloat16" else bits.view(storage(target))
