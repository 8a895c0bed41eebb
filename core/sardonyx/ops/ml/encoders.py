"""Encoders: operators that replace labels and categories by numbers, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.model.ir import Tensor
from sardonyx.ops.lookup import lookup
from sardonyx.ops.operator import Operator, sample
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.primitives.reading import known_sizes

_LISTS = {"strings": dtypes.string, "int64s": dtypes.int64, "floats": dtypes.float32}
NAMES = np.array([["cat", "dog"], ["bird", "cat"]], object)


class LabelEncoder(Operator, domain="ai.onnx.ml"):
    """The value that belongs to each element's key, or the default.

    In operator set 1 there was a list `classes_strings`, whose strings are keys of their places or the reverse.
    """

    keys_tensor: Tensor | None = None
    keys_strings: tuple[str, ...] | None = None
    keys_int64s: tuple[int, ...] | None = None
    keys_floats: tuple[float, ...] | None = None
    values_tensor: Tensor | None = None
    values_strings: tuple[str, ...] | None = None
    values_int64s: tuple[int, ...] | None = None
    values_floats: tuple[float, ...] | None = None
    default_tensor: Tensor | None = None
    default_string: str = "_Unused"
    default_int64: int = -1
    default_float: float = -0.0
    classes_strings: tuple[str, ...] | None = None

    def expand(self, x: Array) -> Array:
        if self.classes_strings is not None:
            return _between(x, self.classes_strings, range(len(self.classes_strings)), self)
        keys, _ = self._side("keys")
        values, dtype = self._side("values")
        if len(keys) != len(values):
            raise ValueError(f"there are {len(keys)} keys and {len(values)} values; give as many of both")
        default: Any = {"string": self.default_string, "float": self.default_float}.get(dtype.kind, self.default_int64)
        if self.default_tensor is not None:
            default = self.default_tensor.array()
        return lookup(x, keys, values, default, dtype)

    def _side(self, side: str) -> tuple[np.ndarray, DType]:
        tensor = getattr(self, f"{side}_tensor")
        if tensor is not None:
            return tensor.array().reshape(-1), tensor.dtype
        for name, dtype in _LISTS.items():
            items = getattr(self, f"{side}_{name}")
            if items is not None:
                return np.array(items, object if dtype is dtypes.string else dtype.storage), dtype
        raise ValueError(
            f"none of the attributes {side}_tensor, {', '.join(f'{side}_{name}' for name in _LISTS)} is given"
        )

    samples = [
        sample(NAMES, keys_strings=["dog", "cat"], values_int64s=[5, 7]),
        sample(NAMES, keys_strings=["dog", "cat"], values_strings=["Hund", "Katze"], default_string="?"),
        sample(np.array([3, -(2**40), 8, 0]), keys_int64s=[-(2**40), 8, 3], values_strings=["a", "b", "c"]),
        sample(np.array([1.5, np.nan, 0, 2], np.float32), keys_floats=[1.5, np.nan, 3], values_floats=[1, 2, 3]),
        sample(np.array([4, 5, 6, 7]), keys_int64s=[6, 5], values_floats=[0.5, 1.5], default_float=9.0),
        sample(np.zeros((0, 2), np.int64), keys_int64s=[6, 5], values_int64s=[1, 2]),
    ]


def _between(x: Array, names: Any, numbers: Any, operator: LabelEncoder | CategoryMapper) -> Array:
    """Strings as the integers that belong to them, or the reverse."""
    numbers = np.array(numbers, np.int64)
    if x.dtype is dtypes.string:
        return lookup(x, np.array(names, object), numbers, operator.default_int64, dtypes.int64)
    return lookup(x, numbers, np.array(names, object), operator.default_string, dtypes.string)


class CategoryMapper(Operator, since=1, domain="ai.onnx.ml"):
    """Strings as the integers at the same places of a list, or the reverse."""

    cats_int64s: tuple[int, ...]
    cats_strings: tuple[str, ...]
    default_int64: int = -1
    default_string: str = "_Unused"

    def expand(self, x: Array) -> Array:
        return _between(x, self.cats_strings, self.cats_int64s, self)

    samples = [
        sample(NAMES, cats_strings=["cat", "bird"], cats_int64s=[3, 1000]),
        sample(np.array([1000, 4, 3]), cats_strings=["cat", "bird"], cats_int64s=[3, 1000], default_string="none"),
    ]


class OneHotEncoder(Operator, since=1, domain="ai.onnx.ml"):
    """A new last axis with a 1 at the place of the element's category; numbers lose their fraction before."""

    cats_int64s: tuple[int, ...] | None = None
    cats_strings: tuple[str, ...] | None = None
    zeros: int = 1

    def expand(self, x: Array) -> Array:
        strings = x.dtype is dtypes.string
        values = self.cats_strings if strings else self.cats_int64s
        if values is None:
            raise ValueError(f"x is {x.dtype}; the attribute {'cats_strings' if strings else 'cats_int64s'} is missing")
        categories = constant(np.array(values, object if strings else np.int64))
        places = p.equal(p.unsqueeze(x if strings else p.cast(x, dtypes.int64), [x.rank]), categories)
        if not self.zeros:
            (is_complete,) = known_sizes(p.cast(_all_rows(places), dtypes.int64))
            if is_complete == 0:
                raise ValueError("x has an element of no category; zeros=1 would give a row of zeros")
        return p.cast(places, dtypes.float32)

    samples = [
        sample(NAMES, cats_strings=["cat", "dog", "fish"]),
        sample(np.array([[3.7], [1.0]], np.float32), cats_int64s=[1, 3]),
        sample(np.array([1, 3, 2], np.int64), cats_int64s=[1, 3]),
        sample(np.array([1, 3]), cats_int64s=[1, 3], zeros=0),
    ]


def _all_rows(places: Array) -> Array:
    """Whether every line along the last axis has an element that is true."""
    lines = p.reduce(places, "any", [places.rank - 1])
    return p.reduce(lines, "all", range(lines.rank))
