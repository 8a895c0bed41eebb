"""Preprocessing of features: scaling, imputing missing values, selecting."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.ops.ml.scores import floats
from sardonyx.ops.operator import Operator, sample
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.sizes.symbolic import Size

ML = "ai.onnx.ml"
COUNTS = np.array([[3, -4, 0], [0, 0, 0]], np.int64)
GAPS = np.array([[np.nan, 2, -1], [0, np.nan, 5]], np.float32)


def of_features(values: np.ndarray, x: Array, name: str) -> Array:
    """An attribute with one number, or one for each feature, as an Array that broadcasts along the features."""
    if values.size != 1 and x.shape[1 if x.rank > 1 else 0] != values.size:
        raise ValueError(f"{name} has {values.size} numbers; {p.show(x.shape)} wants one, or one for each feature")
    return constant(values.reshape([-1] + [1] * (x.rank - 2)))


class Scaler(Operator, domain=ML):
    """(x - offset) * scale, in float32."""

    scale: Sequence[float] = ()
    offset: Sequence[float] = ()

    def expand(self, x: Array) -> Array:
        if len(self.scale) != len(self.offset) or not len(self.scale):
            raise ValueError(f"scale has {len(self.scale)} numbers, and offset {len(self.offset)}; they need as many")
        wide = p.cast(x, dtypes.float64 if x.dtype is dtypes.float64 else dtypes.float32)
        offset, scale = (p.cast(of_features(floats(v), x, "scale"), wide.dtype) for v in (self.offset, self.scale))
        return p.cast((wide - offset) * scale, dtypes.float32)

    samples = [
        sample((4, 3), scale=[2.0, 0.5, 1.0], offset=[1.0, 0.0, -1.0]),
        sample(np.linspace(-3, 3, 4), scale=[2.0], offset=[1.0]),
        sample(COUNTS, scale=[0.5], offset=[1.0]),
        sample((3,), scale=[1.0, 2.0, 3.0], offset=[0.0, 1.0, 2.0]),
    ]


class Normalizer(Operator, domain=ML):
    """Rows divided by their largest element, the sum of magnitudes, or the Euclidean norm, unless that is 0."""

    norm: str = "MAX"

    def expand(self, x: Array) -> Array:
        if self.norm not in ("MAX", "L1", "L2"):
            raise ValueError(f"norm {self.norm!r} is not one of MAX, L1, L2")
        if x.rank not in (1, 2):
            raise ValueError(f"takes rows of features, or one row, not {p.show(x.shape)}")
        wide = p.cast(x, dtypes.float32)
        if self.norm == "MAX":
            norm = p.max_(wide, [-1], keepdims=True)
        elif self.norm == "L1":
            norm = p.sum_(p.absolute(wide), [-1], keepdims=True)
        else:
            norm = p.sqrt(p.sum_(wide * wide, [-1], keepdims=True))
        return p.where(p.not_equal(norm, 0.0), wide / norm, wide)

    samples = [
        *(sample((4, 3), norm=norm) for norm in ("MAX", "L1", "L2")),
        *(sample(COUNTS, norm=norm) for norm in ("MAX", "L1", "L2")),
        sample((3,), norm="L2"),
        sample(np.linspace(-3, 3, 6).reshape(2, 3), norm="L1"),
    ]


class Imputer(Operator, domain=ML):
    """What equals one value, which may be NaN, replaced by another: one for all, or one for each feature."""

    imputed_value_floats: Sequence[float] = ()
    imputed_value_int64s: Sequence[int] = ()
    replaced_value_float: float = 0.0
    replaced_value_int64: int = 0

    def expand(self, x: Array) -> Array:
        wanted, old = self._values(x.dtype.is_float)
        if not len(wanted):
            name = "imputed_value_floats" if x.dtype.is_float else "imputed_value_int64s"
            raise ValueError(f"{name} is missing, which inputs of {x.dtype} need")
        imputed = np.asarray(wanted, x.dtype.storage)
        features = x.shape[1 if x.rank > 1 else 0]
        new = of_features(imputed if features == len(imputed) else imputed[:1], x, "imputed values")
        missing = p.isnan(x) if old != old else p.equal(x, old)
        return p.where(missing, new, x)

    def _values(self, of_floats: bool) -> tuple[Sequence[float], float]:
        if of_floats:
            return self.imputed_value_floats, self.replaced_value_float
        return self.imputed_value_int64s, self.replaced_value_int64

    samples = [
        sample(GAPS, imputed_value_floats=[7.0, 8.0, 9.0], replaced_value_float=float("nan")),
        sample(GAPS, imputed_value_floats=[7.0], replaced_value_float=-1.0),
        sample(COUNTS, imputed_value_int64s=[5, 6, 7], replaced_value_int64=0),
        sample(COUNTS, imputed_value_int64s=[5, 6], replaced_value_int64=-4),
    ]


class Binarizer(Operator, domain=ML):
    """1 where x is above the threshold, else 0."""

    threshold: float = 0.0

    def expand(self, x: Array) -> Array:
        threshold = self.threshold
        return p.cast(p.cast(x, dtypes.float32) > threshold if x.dtype.is_int else x > threshold, x.dtype)

    samples = [sample((4, 3)), sample((4, 3), threshold=0.5)]


class ArrayFeatureExtractor(Operator, domain=ML):
    """The elements at these places of the last axis; a vector becomes one row."""

    def expand(self, x: Array, places: Array) -> Array:
        if not x.rank:
            raise ValueError("a scalar has no features")
        _check(places, x.shape[-1])
        features = p.gather(x, [p.reshape(places, [places.size])], [x.rank - 1], x.rank - 1)
        return p.unsqueeze(features, [0]) if x.rank == 1 else features

    samples = [
        sample((2, 5), np.array([0, 4, 1])),
        sample((5,), np.array([[3, 0]])),
        sample(np.arange(12).reshape(2, 2, 3), np.array([2])),
    ]


def _check(places: Array, size: Size) -> None:
    if places.value is not None and places.size and not size > int(places.value.max()):
        raise ValueError(f"index {int(places.value.max())} is out of range for {size} features")
