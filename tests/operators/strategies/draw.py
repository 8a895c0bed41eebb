"""What strategies draw with: shapes, types and values, numbers of attributes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import helper

from sardonyx.common import dtypes

VERSIONS = {"": 28, "ai.onnx.ml": 5, "ai.onnx.preview": 1, "com.microsoft": 1}
DROPPED = {"Scatter": 10, "Upsample": 9, "TreeEnsembleClassifier": 3, "TreeEnsembleRegressor": 3}
"""The last operator sets of those that ONNX dropped."""
SIZES = (2, 1, 3, 5, 0, 7, 4)
"""Sizes of axes, the simplest first."""
WORDS = ["", "a", "bb", "A b", "ünï", "x,y", "0", "Zz"]

DRAWERS: dict[tuple[str, str], Callable[[Draw], Any]] = {}
"""What draws the parts of a `Call`, by domain and name."""


def draws(*names: str, domain: str = "") -> Callable[[Callable[[Draw], Any]], Callable[[Draw], Any]]:
    """Registers a function that draws calls of these operators."""

    def register(function: Callable[[Draw], Any]) -> Callable[[Draw], Any]:
        DRAWERS.update(((domain, name), function) for name in " ".join(names).split())
        return function

    return register


class Draw:
    """The draw function of a strategy, for one operator."""

    def __init__(self, draw: Any, domain: str, name: str) -> None:
        self.draw, self.domain, self.name = draw, domain, name

    @cached_property
    def schema(self) -> Any:
        return onnx.defs.get_schema(self.name, DROPPED.get(self.name, VERSIONS[self.domain]), self.domain)

    @cached_property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.draw(st.integers(0, 255)))

    def of(self, *options: Any) -> Any:
        """One of these, the first being the simplest."""
        return self.draw(st.sampled_from(options))

    def flag(self) -> bool:
        return bool(self.draw(st.booleans()))

    def between(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def permuted(self, items: Sequence[Any]) -> list[Any]:
        """These in any order."""
        return list(self.draw(st.permutations(list(items)))) if len(items) else []

    def maybe(self, value: Any) -> Any:
        """The value, or None."""
        return value if self.flag() else None

    def attributes(self, **options: Sequence[Any]) -> dict[str, Any]:
        """Some of these attributes, with one of the values that each may have."""
        return {name: self.of(*values) for name, values in options.items() if self.flag()}

    def dtype(self, variable: str, *without: str) -> np.dtype[Any]:
        """A type of a variable of the schema, but those whose names begin so."""
        return self.of(*(t for t in types(self.schema, variable) if not t.name.startswith(without or ("none",))))

    def shape(self, low: int = 0, high: int = 4, sizes: Sequence[int] = SIZES) -> tuple[int, ...]:
        """A shape of a rank between these, of at most about a thousand elements."""
        rank = self.between(low, high)
        shape = self.draw(st.lists(st.sampled_from(sizes), min_size=rank, max_size=rank))
        while np.prod([*shape, 1.0]) > 1000:
            shape[int(np.argmax(shape))] = 2
        return tuple(shape)

    def broadcast(self, count: int, high: int = 4) -> list[tuple[int, ...]]:
        """Shapes that broadcast to one, either way."""
        whole = self.shape(0, high)
        return [self.part(whole) for _ in range(count)]

    def part(self, whole: tuple[int, ...]) -> tuple[int, ...]:
        """A shape that broadcasts to this one: leading axes are left out, and others are 1."""
        kept = whole[self.draw(st.integers(0, len(whole))) if self.flag() else 0 :]
        ones = self.draw(st.integers(0, 2 ** len(kept) - 1)) if self.flag() else 0
        return tuple(1 if ones >> k & 1 else size for k, size in enumerate(kept))

    def axis(self, rank: int, low: int | None = None) -> int:
        """An axis, counted from either end."""
        return self.between(-rank if low is None else low, rank - 1)

    def axes(self, rank: int, low: int = 0) -> list[int]:
        """Some axes in any order, each counted from either end."""
        chosen = self.permuted(range(rank))[: self.between(min(low, rank), rank)]
        return [k - rank if self.flag() else k for k in chosen]

    def values(self, shape: Sequence[int], dtype: Any, edges: bool | None = None) -> np.ndarray:
        """Elements of a type; with `edges`, or by chance, some are the type's extremes, NaN and infinities."""
        dtype = np.dtype(dtype)
        edges = self.flag() if edges is None else edges
        found = plain(self.rng, shape, dtype)
        if edges and found.size and dtype.kind not in "Ob":
            pool = extremes(dtype)
            picked = pool[self.rng.integers(len(pool), size=tuple(shape))]
            found = np.where(self.rng.random(tuple(shape)) < 0.4, picked, found).astype(dtype)
        return np.asarray(found)

    def finite(self, shape: Sequence[int], dtype: Any) -> np.ndarray:
        """Small multiples of a quarter; by chance some floats are NaN or infinite."""
        found = self.dyadic(shape, dtype)
        if dtypes.of(found.dtype).is_float and found.dtype.itemsize > 1 and self.flag():
            pool = np.array(self.of([np.nan], [np.inf], [-np.inf, np.inf], [np.nan, np.inf, 0.0]))
            picked = pool[self.rng.integers(len(pool), size=found.shape)]
            found = np.where(self.rng.random(found.shape) < 0.2, picked, found.astype(np.float64)).astype(found.dtype)
        return np.asarray(found)

    def noise(self, *shape: int, dtype: Any = np.float32) -> np.ndarray:
        """Plain values."""
        return plain(self.rng, shape, np.dtype(dtype))

    def dyadic(self, shape: Sequence[int], dtype: Any) -> np.ndarray:
        """Small multiples of a quarter, or small integers: sums of products of them are exact in float32."""
        dtype = np.dtype(dtype)
        kind = dtypes.of(dtype).kind
        if kind == "bool":
            return self.rng.random(tuple(shape)) < 0.5
        if kind in ("int", "uint", "string", "complex"):
            return plain(self.rng, shape, dtype)
        return np.asarray(self.rng.integers(-8, 9, size=tuple(shape)) / 4).astype(dtype)

    def settled(self, *places: int) -> frozenset[int]:
        """These inputs as constants, or none."""
        return frozenset(places) if self.flag() else frozenset()


@cache
def types(schema: Any, variable: str) -> list[np.dtype[Any]]:
    """The types of a variable of a schema, float32 first."""
    allowed = next(c.allowed_type_strs for c in schema.type_constraints if c.type_param_str == variable)
    known = [dtype for dtype in dtypes.ALL if f"tensor({dtype.onnx_name})" in allowed]
    return [np.dtype(helper.tensor_dtype_to_np_dtype(dtype.number)) for dtype in known]


def plain(rng: np.random.Generator, shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
    """Normal numbers, integers from -9 to 9 or to the type's ends, words."""
    shape, known = tuple(shape), dtypes.of(dtype)
    if known is dtypes.string:
        found = np.empty(shape, object)
        found.flat = [WORDS[k] for k in rng.integers(len(WORDS), size=found.size)]
        return found
    if known.kind == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    if known.kind == "complex":
        return np.asarray(rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    if known.is_float:
        found = rng.normal(size=shape) * 2
        return np.asarray(np.abs(found) if known is dtypes.float8e8m0 else found).astype(dtype)
    low = 0 if known.kind == "uint" else -min(9, 2 ** (known.bits - 1))
    high = min(9, 2 ** (known.bits - (known.kind == "int")) - 1)
    return np.asarray(rng.integers(low, high + 1, size=shape)).astype(dtype)


@cache
def extremes(dtype: np.dtype[Any]) -> np.ndarray:
    """The numbers of a type at which functions go wrong."""
    known = dtypes.of(dtype)
    if known.kind == "complex":
        return np.array([0, 1j, -1, np.inf], dtype)
    if known.is_float:
        numbers = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0]
        if known.bits > 8:
            numbers += [np.nan, np.inf, -np.inf, 1e-7, -6e4, 88.5, 1e4]
        if known.bits > 16:
            numbers += [3e38, -3e38, 1e-37, 1e20]
        return np.array(numbers).astype(dtype)
    low = -(1 << known.bits - 1) if known.kind == "int" else 0
    high = low + (1 << known.bits) - 1
    return np.array([low, low + 1, high - 1, high, 0, 1], dtype)
