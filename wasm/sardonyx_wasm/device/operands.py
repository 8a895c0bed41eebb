"""Where the operands of products are, and how NumPy is to see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from itertools import product as outer_product
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sardonyx.common.record import record

Numbers: TypeAlias = Sequence[int]
Operands: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]
Rectangle: TypeAlias = tuple[Sequence[tuple[int, int, int]], tuple[int, int, int, int]]
Step: TypeAlias = Callable[[], Any]
ArrayAt: TypeAlias = Callable[[int, Numbers, Numbers], np.ndarray]
"""Makes an array of the elements of a product, of an address in a host's memory, a shape, and strides in bytes."""


class Rows(NamedTuple):
    """Matrices in memory: the address of the first, the bytes from one to the next, and from row to row."""

    address: int
    between: int
    row: int


class Panels(NamedTuple):
    """The same of right sides, with the bytes from panel to panel, the columns of one, and the bytes of an element."""

    address: int
    between: int
    row: int
    panel: int
    width: int
    itemsize: int = 4

    @property
    def stored(self) -> bool:
        """Whether panels lie one after another, the last one filled up with zeros."""
        return self.row == self.itemsize * self.width


View: TypeAlias = tuple[int, Numbers, Numbers]
"""An array somewhere in memory: its offset, sizes and strides, those of NumPy."""
Form: TypeAlias = tuple[int, int, int]
"""How many rows, and the first and last panel."""
Right: TypeAlias = tuple[int, int, int, int, bool, bool]
Rights: TypeAlias = dict[tuple[Right, ...], list[np.ndarray]]
"""Right sides by what `Product.right` takes for each part of a sweep."""


@record(slots=True)
class Part:
    """A sweep of any launch: the numbers of the left sides call by call, what `Product.right` takes, and the results,
    which have one axis more: call by call.
    """

    is_plain: bool
    lefts: list[int]
    rights: tuple[Right, ...]
    results: list[View]


class Sweep(NamedTuple):
    """Operands of calls one after another: left sides, right sides, results; `is_plain` if each is a product alone."""

    is_plain: bool
    lefts: list[np.ndarray]
    rights: list[np.ndarray]
    results: list[np.ndarray]


@record(slots=True)
class Sharing:
    """Rows and columns of left sides, and of right sides: where there are fewer, the last one is for all the rest."""

    left: Numbers
    right: Numbers

    def groups(self) -> Iterator[tuple[int, int, Numbers, Numbers]]:
        """Rectangles of left sides: the first left and right side, the rows and columns, the steps on the right."""
        axes = [
            [(0, n, 1)] if n == known else [(0, known - 1, 1), (known - 1, n - known + 1, 0)]
            for n, known in zip(self.left, self.right, strict=True)
        ]
        for (down, rows, y), (across, columns, x) in outer_product(*axes):
            first, other = down * self.left[1] + across, down * self.right[1] + across
            if rows * columns:
                yield first, other, (rows, columns), (y * self.right[1], x)


def side_by_side(array: ArrayAt, address: int, views: Sequence[View]) -> list[np.ndarray]:
    """The first of what each view has, the second of each, and so on."""
    arrays = [array(address + offset, sizes, strides) for offset, sizes, strides in views]
    return list(arrays[0]) if len(arrays) == 1 else list(chain.from_iterable(zip(*arrays)))


def view(offset: int, sizes: Numbers, strides: Numbers, times: Numbers = ()) -> View:
    """A view without outer axes of size 1, and with 1 where there is but one thing anyway.

    In front there may be one more axis: its size and stride.
    """
    front = (times,) if times else ()
    outer = [*front, *[(size if step else 1, step) for size, step in zip(sizes[:-2], strides) if size != 1]]
    return offset, (*[size for size, _ in outer], *sizes[-2:]), (*[step for _, step in outer], *strides[-2:])
