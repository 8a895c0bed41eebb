"""Chance: operators whose results are drawn. With a `seed` each run draws the same, on every provider."""

from __future__ import annotations

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.ops.operator import Operator
from sardonyx.primitives.array import Array
from sardonyx.sizes.symbolic import Size

_FLOATS = (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16)


def _floats(number: int | None, own: DType) -> DType:
    """The type that the attribute `dtype` names, or the operand's own one."""
    dtype = own if number is None else dtypes.by_number(number)
    if dtype not in _FLOATS:
        raise ValueError(f"the type of the result is {own if number is None else number}; give a dtype of floats")
    return dtype


class _Normal(Operator, abstract=True):
    """Draws from the normal distribution."""

    dtype: int | None = None
    mean: float = 0.0
    scale: float = 1.0
    seed: float | None = None

    def draw(self, shape: tuple[Size, ...], dtype: DType) -> Array:
        return p.random_normal(p.random_key(self.seed), shape, dtype) * self.scale + self.mean


class _Uniform(Operator, abstract=True):
    """Draws from `low` to `high`."""

    dtype: int | None = None
    high: float = 1.0
    low: float = 0.0
    seed: float | None = None

    def draw(self, shape: tuple[Size, ...], dtype: DType) -> Array:
        return p.random_uniform(p.random_key(self.seed), shape, dtype) * (self.high - self.low) + self.low


class RandomNormal(_Normal):
    """A tensor of this shape, drawn from the normal distribution of `mean` and standard deviation `scale`."""

    shape: tuple[int, ...]

    def expand(self) -> Array:
        return self.draw(self.shape, _floats(self.dtype, dtypes.float32))


class RandomNormalLike(_Normal):
    """A tensor of the operand's shape, drawn from the normal distribution of `mean` and standard deviation `scale`."""

    def expand(self, x: Array) -> Array:
        return self.draw(x.shape, _floats(self.dtype, x.dtype))


class RandomUniform(_Uniform):
    """A tensor of this shape, drawn from `low` to `high`."""

    shape: tuple[int, ...]

    def expand(self) -> Array:
        return self.draw(self.shape, _floats(self.dtype, dtypes.float32))


class RandomUniformLike(_Uniform):
    """A tensor of the operand's shape, drawn from `low` to `high`."""

    def expand(self, x: Array) -> Array:
        return self.draw(x.shape, _floats(self.dtype, x.dtype))


class Bernoulli(Operator, since=15):
    """1 with the probability that each element is, else 0."""

    dtype: int | None = None
    seed: float | None = None

    def expand(self, x: Array) -> Array:
        dtype = x.dtype if self.dtype is None else dtypes.by_number(self.dtype)
        if dtype is None:
            raise ValueError(f"dtype {self.dtype} is none of ONNX's element types")
        chances = p.widen(x)
        return p.cast(p.random_uniform(p.random_key(self.seed), x.shape, chances.dtype) < chances, dtype)


class Multinomial(Operator, since=7):
    """Classes drawn for each row [batch, classes] of unnormalised logarithms of probabilities: [batch, sample_size]."""

    dtype: int = 6
    sample_size: int = 1
    seed: float | None = None

    def expand(self, x: Array) -> Array:
        dtype = dtypes.by_number(self.dtype)
        if x.rank != 2 or dtype not in (dtypes.int32, dtypes.int64):
            raise ValueError(f"x {p.show(x.shape)} must have two axes, and dtype {self.dtype} be 6 or 7, for integers")
        wide = p.widen(x)
        reached = p.cumulative(p.exp(wide - p.max_(wide, [1], keepdims=True)), "sum", 1)
        batch, classes = x.shape
        draws = p.random_uniform(p.random_key(self.seed), (batch, self.sample_size), wide.dtype)
        height = p.unsqueeze(draws * p.slice_axis(reached, 1, classes - 1, 1), [2])
        below = p.sum_(p.cast(p.unsqueeze(reached, [1]) <= height, dtypes.int32), [2])
        return p.cast(p.minimum(below, p.literal(classes - 1, dtypes.int32)), dtype)
