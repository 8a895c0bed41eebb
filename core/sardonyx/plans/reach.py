"""How far a launch reaches: which of its parameters are extents and steps, to be compared with its bytes.

A bundle's code is binary, or a shader, and its parameters come from the manifest. What a Kernel or a Routine says of
its parameters is stored with the code: lists of extents, the product of each of which is not more than the launch has
bytes, and single steps (strides and offsets). So a manifest that lies cannot have a launch run for hours, or far beyond
its buffers; what is left is for WebAssembly and WebGPU, which keep code in their memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from sardonyx.code.kernel import Kernel, Routine, Rows
from sardonyx.errors import UnsoundError
from sardonyx.providers.contract import Address

SLACK = 1 << 16
"""Bytes by which a launch may exceed its buffers: small launches take no time, and steps cross borders."""
TURNS = 1 << 24
"""How often a loop may turn in which another one has nothing to do."""
Reach = Sequence[Sequence[Any]]


def reach(code: Any) -> list[list[Any]]:
    """Lists of extents, and last the steps: `[["p0", "p1"], ["p2", "p3"]]`; an integer is written as it is."""
    match code:
        case Kernel():
            bounds = _kernel(code)
        case Rows():
            bounds = [each for part in code.parts() for each in _kernel(part)]
        case Routine():
            bounds = _routine(code)
        case _:
            return [[]]
    steps = sorted({size for kind, sizes in bounds if kind == "step" for size in sizes if isinstance(size, str)})
    extents: list[list[Any]] = []
    for kind, sizes in bounds:
        if kind == "extents" and any(isinstance(size, str) for size in sizes) and sizes not in extents:
            extents.append(sizes)
    return [*extents, steps]


def _kernel(kernel: Kernel) -> list[tuple[str, list[Any]]]:
    axes = (*kernel.space, *kernel.reduce)
    stored = [index for _, index, _ in kernel.stores]
    loaded = [detail[1] for function, _, _, detail in kernel.nodes if function == "load"]
    indices = [*stored, *loaded]
    seen = {axis for _, walked, _ in indices for axis, _ in walked}
    covered = {axis for _, walked, extra in stored if not extra for axis, _ in walked}
    space = range(len(kernel.space))
    bounds = [("extents", [axes[axis]]) for axis in sorted(seen)]
    if covered.issuperset(space):
        bounds.append(("extents", list(kernel.space)))
    bounds += [("step", [offset, *(stride for _, stride in walked)]) for offset, walked, _ in indices]
    return bounds


def _routine(routine: Routine) -> list[tuple[str, list[Any]]]:
    shapes = (*routine.inputs, *routine.outputs)
    views = [*routine.views, *[None] * len(shapes)]
    bounds = []
    for shape, view in zip(shapes, views):
        bounds += [("extents", [size]) for size in shape] if view else [("extents", list(shape))]
    return bounds


def check(code: Mapping[str, Any], addresses: Sequence[Address], params: Sequence[int]) -> None:
    """Raise UnsoundError where a launch of a bundle's code would go further than it has bytes."""
    if "reach" not in code:
        return
    name, (*extents, steps) = code["name"], code["reach"]
    most = SLACK + sum([address.nbytes for address in addresses])
    try:
        walked = [[size if type(size) is int else params[int(size[1:])] for size in sizes] for sizes in extents]
        is_empty = any(0 in values for values in walked)
        for values in walked:
            if min(values, default=0) < 0 or prod(values) > (max(most, TURNS) if is_empty else most):
                raise UnsoundError(f"{name} is to go over {values} elements of {most:,} bytes: the bundle is damaged")
        if steps and not is_empty and max([abs(params[int(step[1:])]) for step in steps]) > most:
            raise UnsoundError(f"{name} is to step further than its {most:,} bytes: the bundle is damaged")
    except IndexError:
        raise UnsoundError(f"{name} lacks parameters: the bundle is damaged") from None


class Limits:
    """What `check` asks of some launches, asked of all of them at once. `counts` are how many parameters each has."""

    def __init__(self, codes: Sequence[Mapping[str, Any]], counts: Sequence[int]) -> None:
        numbers: dict[int, int] = {1: 0}  # the empty product
        rows: list[list[int]] = []
        owners: list[int] = []
        steps: list[int] = []
        steppers: list[int] = []
        start, total = 0, sum(counts)
        self._lacks = False
        for owner, (code, count) in enumerate(zip(codes, counts, strict=True)):
            *extents, walked = code.get("reach", [[]])
            places = [[_place(size, start, total, numbers) for size in sizes] for sizes in extents]
            rows += places
            owners += [owner] * len(places)
            steps += [start + int(step[1:]) for step in walked]
            steppers += [owner] * len(walked)
            named = [int(size[1:]) for sizes in (*extents, walked) for size in sizes if type(size) is not int]
            self._lacks = self._lacks or any(not 0 <= place < count for place in named)
            start += count
        width = max(map(len, rows), default=0)
        padded = [row + [total] * (width - len(row)) for row in rows]
        self._extents = np.array(padded, np.int64).reshape(len(rows), width)
        self._numbers = np.array(list(numbers), np.float64)
        self._owners, self._steps, self._steppers = (np.array(x, np.int64) for x in (owners, steps, steppers))

    def most(self, buffers: Sequence[Sequence[Address]]) -> np.ndarray:
        """How far the launches may go with these buffers."""
        return np.array([SLACK + sum([address.nbytes for address in line]) for line in buffers], np.float64)

    def allow(self, most: np.ndarray, params: np.ndarray) -> bool:
        """Whether `check` finds nothing with these parameters of all launches; products beyond 2**53 are rounded."""
        if self._lacks:
            return False
        values = np.concatenate([params, self._numbers])[self._extents]
        is_empty = np.zeros(len(most), bool)
        is_empty[self._owners[(values == 0).any(1)]] = True
        turns = np.where(is_empty, np.maximum(most, TURNS), most)
        if (values < 0).any() or (values.prod(1) > turns[self._owners]).any():
            return False
        return not ((np.abs(params[self._steps]) > most[self._steppers]) & ~is_empty[self._steppers]).any()


def _place(size: Any, start: int, total: int, numbers: dict[int, int]) -> int:
    """Where a size stands behind the parameters of all launches, those of its own beginning at `start`."""
    return total + numbers.setdefault(size, len(numbers)) if type(size) is int else start + int(size[1:])
