"""The products that launches of a code are, wherever their operands lie: those of equal sizes are made once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import prod
from typing import TypeAlias

import numpy as np

from sardonyx.code.kernel import Routine
from sardonyx.common.cached import cached_property

from ..abi import own_of
from . import blas
from .blas import MOST_PLACES, Product, product, right_sides
from .operands import ArrayAt, Right, side_by_side
from .widths import broad

MOST_SIZES = 256
"""Sizes that are remembered, of a product and of all of a segment,"""
MOST_BOUND = 8192
"""where its steps for all of them are no more: one takes 1 to 4 kB."""

Forms: TypeAlias = dict[tuple[int, tuple[tuple[Right, ...], ...]], int]
"""Numbers of right sides, by the columns of a panel and what `Product.right` takes."""


class Whole:
    """All of a product with so many rows, for one thread: what NumPy is to call for operands that lie anywhere."""

    def __init__(self, model: Product, rows: int, forms: Forms) -> None:
        self._model, self.rows, self._forms = model, rows, forms
        self.work = model.count * model.depth * model.columns * rows
        self.form = -1
        """Which right sides it has, once it is laid out."""
        self.is_plain = False
        """Whether it then consists of plain products."""
        self.lefts: dict[int, list[np.ndarray]] = {}
        self.rights: dict[int, list[np.ndarray]] = {}
        """Those of no constants."""
        self.results: dict[int, list[np.ndarray]] = {}

    def lay_out(self) -> None:
        """Find out what to call NumPy with."""
        self._views, self._parts = _, parts = self._model.views(self.rows, self._model.panels)
        self._rights = tuple([part.rights for part in parts])
        self.is_plain = all(part.is_plain for part in parts)
        self.form = self._forms.setdefault((self._model.b.width, self._rights), len(self._forms))

    @cached_property
    def product(self) -> Product:
        """The product, at address 0."""
        return self._model if self.rows == self._model.rows else self._model.resized(self.rows)

    def left_sides(self, array: ArrayAt, address: int) -> list[np.ndarray]:
        """The left sides of all calls, which `lefts` then has."""
        if len(self.lefts) > MOST_PLACES:
            self.lefts.clear()
        views = [array(address + offset, sizes, strides) for offset, sizes, strides in self._views]
        found = self.lefts[address] = [views[k] for part in self._parts for k in part.lefts]
        return found

    def right_sides(self, array: ArrayAt, address: int) -> list[np.ndarray]:
        """The right sides of all calls."""
        found = [right_sides(self._model, array, address, keys) for keys in self._rights]
        return list(chain.from_iterable(found))

    def moving_right_sides(self, array: ArrayAt, address: int) -> list[np.ndarray]:
        """The right sides of all calls, which `rights` then has."""
        if len(self.rights) > MOST_PLACES:
            self.rights.clear()
        found = self.rights[address] = self.right_sides(array, address)
        return found

    def result_sides(self, array: ArrayAt, address: int) -> list[np.ndarray]:
        """The results of all calls, which `results` then has."""
        if len(self.results) > MOST_PLACES:
            self.results.clear()
        found = [side_by_side(array, address, part.results) for part in self._parts]
        all_ = self.results[address] = found[0] if len(found) == 1 else list(chain.from_iterable(found))
        return all_


class Products:
    """The products of a code."""

    def __init__(self, code: Routine) -> None:
        self._code = code
        self.primitive = code.primitive
        self._has_own, self._is_stored = own_of(code) is not None, code.primitive == "matmul_panels"
        self._forms: Forms = {}
        self._models: dict[int, Product] = {}
        """By the columns of a panel."""
        self.has_constant = not any(isinstance(size, str) for size in (*code.inputs[1], code.outputs[0][-1]))
        """Whether right sides have the same shape for any parameters."""
        outer = code.inputs[1][: -3 if "nr" in code.attributes else -2]
        self._is_one = self.has_constant and prod(outer) == 1 and code.primitive != "conv_winograd"
        """Whether there is but one of them, so that products of other rows are made from one."""
        rows = code.outputs[0][:-1]
        self._rows = prod(size for size in rows if not isinstance(size, str))
        self._more = [int(size[1:]) for size in rows if isinstance(size, str)]
        self.made: dict[tuple[int, ...], Whole] = {}
        """Those that there are, by parameters."""

    def is_light(self, whole: Whole) -> bool:
        """Whether the module does it."""
        return self._has_own and (whole.rows == 1 if self._is_stored else whole.work < blas.FEWEST)

    def of(self, params: tuple[int, ...]) -> Whole:
        """The product for other parameters."""
        if len(self.made) >= MOST_SIZES:
            self.made.clear()
        rows = self._rows
        for number in self._more:
            rows *= params[number]
        width = 0
        if self._is_one and not blas.in_blocks():
            width = broad(rows, self._code.inputs[1][-2], self._code.outputs[0][-1])
        model = self._models.get(width)
        if model is None:
            model = product(self._code, (0, 0, 0), params)
            rows = model.rows
            if self._is_one:
                self._models[width] = model
        found = self.made[params] = Whole(model, rows, self._forms)
        return found


def multiply(lefts: Sequence[np.ndarray], rights: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> None:
    """Multiply, product by product."""
    matmul = np.matmul
    for a, b, c in zip(lefts, rights, results):
        matmul(a, b, c, order="C")
