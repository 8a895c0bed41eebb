"""The primitive of discrete Fourier transforms, and its spelling as products with matrices of roots of unity.

NumPy has it; it is spelled out for other providers, and for sizes that only the run tells. A complex number is a last
axis of two parts. Short transforms are one matrix product, of real numbers two of half the length or four of a quarter;
long ones are split into two shorter ones (Gentleman and Sande, 1966), or, if the length is prime or not known, become a
convolution whose length is a power of two (Bluestein, 1970).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import isqrt, pi
from typing import Any

import numpy as np

from sardonyx import primitives as p
from sardonyx.common.dtypes import DType, int64
from sardonyx.primitives.array import Array, Primitive, primitive
from sardonyx.primitives.binding import bind, constant
from sardonyx.primitives.elementwise import Types, Values
from sardonyx.sizes.symbolic import Size

MATRIX_LIMIT = 1 << 20
"""Pairs of numbers up to which a plan holds a matrix of roots."""
FEWEST_FOLDED = 64
"""The length from which on a transform of real numbers is two products: they read half, and are one launch more."""
FEWEST_FOLDED_TWICE = 256
"""The length from which on these are four products of a quarter of it."""
FOLDED = 1.5
"""By how much the length may be above what there is of x, as all of it is folded."""
UNKNOWN_LIMIT = 512
"""The unknown length up to which a transform is one product, with a matrix that the run has to make."""
CONVOLUTIONS = [1 << k for k in range(11, 25, 2)]
"""Lengths of the convolutions that transforms of unknown length become: few, since each is a plan of its own, and since
inference tries all answers to what it cannot compare."""
PRODUCT = {1: np.array([[1, 0], [2, 1]]), -1: np.array([[1, 2], [0, 1]])}
"""By sign, the quarter turns that make (cos, sin) and (-sin, cos) of a sine: what the real and the imaginary part of a
number contribute to its product with a root."""


class Fourier(Primitive):
    """The first bins of a transform of length n, or of the inverse: [..., rows <= n, parts] to [..., bins, 2]."""

    name = "fourier"

    def infer(self, x: Array, n: int, bins: int, inverse: bool) -> Types:
        return [(x.dtype, (*x.shape[:-2], bins, 2))]

    def numpy(self, x: np.ndarray, n: int, bins: int, inverse: bool) -> Values:
        numbers = x[..., 0] + 1j * x[..., 1] if x.shape[-1] == 2 else x[..., 0]
        # Of real numbers the first and the middle bin are real, which models that look at phases rely on.
        real = x.shape[-1] == 1 and not inverse and bins <= n // 2 + 1
        spectrum = (np.fft.rfft if real else np.fft.ifft if inverse else np.fft.fft)(numbers, n)[..., :bins]
        return [np.stack([spectrum.real, spectrum.imag], -1).astype(x.dtype)]

    def expand(self, x: Array, n: int, bins: int, inverse: bool) -> list[Array]:
        return [_spelled(x, n, bins, inverse)]


FOURIER = primitive(Fourier)


def fourier(x: Array, n: Size, bins: Size, inverse: bool = False) -> Array:
    """Bins k < bins of the transform of x [..., rows <= n, parts]: [..., bins, 2].

    They are the sums of x_t exp(-2 pi i t k / n) over t, or, inverse, the means of x_t exp(2 pi i t k / n).
    """
    if isinstance(n, int) and isinstance(bins, int) and n and isinstance(x.shape[-2], int):
        return bind(FOURIER, x, n=n, bins=bins, inverse=inverse)[0]
    return _spelled(x, n, bins, inverse)


def _spelled(x: Array, n: Size, bins: Size, inverse: bool) -> Array:
    return _transform(x, n, bins, 1) / n if inverse else _transform(x, n, bins, -1)


def _transform(x: Array, n: Size, bins: Size, sign: int) -> Array:
    """Sum of x_t exp(sign 2 pi i t k / n) over t."""
    rows, parts = x.shape[-2], int(x.shape[-1])
    if (
        (isinstance(n, int) and isinstance(bins, int) and isinstance(rows, int))
        and (parts == 1 and FEWEST_FOLDED <= n < FOLDED * rows)
        and (bins <= n // 2 + 1 and _is_short(n, parts, bins))
    ):
        return _folded(x, n, bins, sign)
    if _is_short(n, parts, bins):
        return _contract(x, _matrix(rows, bins, n, sign, parts, x.dtype))
    x = grown(x, n)
    if isinstance(n, int) and (factor := _factor(n)) > 1:
        whole = _split(x, factor, n // factor, sign)
    else:
        whole = _convolve(x, n, sign)
    return p.slice_axis(whole, -2, 0, bins)


def _folded(x: Array, n: int, bins: int, sign: int) -> Array:
    """The first half of the bins of real numbers, by two products of half the length: what x_t and x_(n - t) have in
    common meets cosines alone, and their difference sines."""
    pairs, half = (n - 1) // 2, n // 2 + 1
    line = p.squeeze(grown(x, n), [-1])
    back = p.slice_axis(line, -1, n - 1, pairs, -1)
    none, last = [0] * (line.rank - 1), half - pairs - 1
    even = p.slice_axis(line, -1, 0, half) + p.pad(back, [*none, 1], [*none, last])
    odd = p.slice_axis(line, -1, 1, pairs) - back
    if n >= FEWEST_FOLDED_TWICE and n % 4 == 0:
        return _folded_twice(even, odd, n, bins, sign)
    cosine, turned = PRODUCT[sign][0].tolist()
    return _beside([_product(even, 0, range(bins), n, cosine), _product(odd, 1, range(bins), n, turned)])


def _folded_twice(even: Array, odd: Array, n: int, bins: int, sign: int) -> Array:
    """The same by four products of a quarter of the length: what t and n / 2 - t have in common, or do not, meets waves
    of even or of odd bins alone."""
    half, quarter = n // 2, n // 4
    cosine, turned = PRODUCT[sign][0].tolist()
    evens, odds = range(0, bins, 2), range(1, bins + 1, 2)  # as many, of which the last may be one too many
    next_ = [0] * (even.rank - 1) + [1]
    back = p.slice_axis(even, -1, half, quarter, -1)
    also = p.slice_axis(odd, -1, half - 2, quarter - 1, -1)
    none = [0] * even.rank
    products = [
        _product(p.slice_axis(even, -1, 0, quarter + 1) + p.pad(back, none, next_), 0, evens, n, cosine),
        _product(p.slice_axis(odd, -1, 0, quarter - 1) - also, 1, evens, n, turned),
        _product(p.slice_axis(even, -1, 0, quarter) - back, 0, odds, n, cosine),
        _product(p.slice_axis(odd, -1, 0, quarter) + p.pad(also, none, next_), 1, odds, n, turned),
    ]
    pairs = _beside(products)
    return p.slice_axis(p.reshape(pairs, (*pairs.shape[:-2], 2 * len(evens), 2)), -2, 0, bins)


def _product(x: Array, first: int, bins: range, n: int, quarters: int) -> Array:
    """The sums of x_t sin(2 pi t k / n + quarters pi / 2) over t from `first` on, for these k."""
    return p.dot_general(x, constant(_waves(first, int(x.shape[-1]), bins, n, quarters, x.dtype)), ([x.rank - 1], [0]))


def _beside(parts: Sequence[Array]) -> Array:
    """Arrays of one shape as one with a last axis more."""
    return p.concat([p.unsqueeze(part, [part.rank]) for part in parts], -1)


def real_inverse(x: Array, n: Size) -> Array:
    """n times the real signal [..., n, 1] whose transform begins with x [..., n // 2 + 1, 2]."""
    rows = x.shape[-2]
    if _is_short(n, 2, rows):
        once = p.equal(count(rows), 0) | p.equal(count(rows) * 2, n)
        weights = 2 - p.cast(p.unsqueeze(once, [1]), x.dtype)
        return _contract(x * weights, p.slice_axis(_matrix(rows, n, n, 1, 2, x.dtype), -1, 0, 1))
    mirrored = p.slice_axis(x, -2, n - rows, n - rows, -1) * constant(np.array([1, -1]), x.dtype)
    return p.slice_axis(_transform(p.concat([x, mirrored], -2), n, n, 1), -1, 0, 1)


def sine(places: Array, n: Size, quarters: Any, dtype: DType) -> Array:
    """sin(2 pi places / n + quarters pi / 2) of integers from 0 on, for n from 1 on.

    The angle is reduced while it is an integer, so that float32 loses none of it, and zeros are zeros.

    >>> from sardonyx.common.dtypes import float32
    >>> sine(constant([0, 1, 2, 7]), 4, 0, float32).value
    array([ 0.,  1.,  0., -1.], dtype=float32)
    """
    if places.value is not None and isinstance(n, int):
        return constant(np.sin(_angle(places.value, n, quarters)), dtype)
    return p.sin(p.cast(_reduced(places, n, constant(quarters, places.dtype), p.absolute), dtype) / n * (pi / 2))


def _angle(places: np.ndarray, n: int, quarters: Any) -> np.ndarray:
    """The angle in -pi / 2..pi / 2 that has the same sine."""
    return np.asarray(_reduced(places, n, quarters, np.abs) * (pi / 2 / n))


def _reduced(places: Any, n: Size, quarters: Any, absolute: Any) -> Any:
    """The same in units of pi / 2n."""
    return n - absolute((places % n * 4 + (quarters + 1) * n) % (n * 4) - n * 2)


def _roots(places: Array, n: Size, sign: int, parts: int, dtype: DType) -> Array:
    """exp(sign 2 pi i places / n) as matrices that multiply by it: [..., parts, 2]."""
    return sine(p.unsqueeze(places, [places.rank, places.rank + 1]), n, PRODUCT[sign][:parts], dtype)


def _matrix(rows: Size, bins: Size, n: Size, sign: int, parts: int, dtype: DType) -> Array:
    """exp(sign 2 pi i t k / n) for rows t and columns k: [rows, bins, parts, 2]."""
    if isinstance(rows, int) and isinstance(bins, int) and isinstance(n, int) and rows * bins * parts <= MATRIX_LIMIT:
        return constant(_known_matrix(rows, bins, n, sign, parts, dtype))
    return _roots(p.iota((rows, 1), 0) * p.iota((1, bins), 1), n, sign, parts, dtype)


@lru_cache(maxsize=8)
def _known_matrix(rows: int, bins: int, n: int, sign: int, parts: int, dtype: DType) -> np.ndarray:
    """The same object for all nodes and sessions that need it, so that they share its memory."""
    places = np.multiply.outer(np.arange(rows), np.arange(bins))[:, :, None, None]
    return np.asarray(np.sin(_angle(places, n, PRODUCT[sign][:parts])), dtype.storage)


@lru_cache(maxsize=16)
def _waves(first: int, rows: int, bins: range, n: int, quarters: int, dtype: DType) -> np.ndarray:
    """sin(2 pi t k / n + quarters pi / 2) for rows t from `first` on and columns k."""
    places = np.multiply.outer(np.arange(first, first + rows), np.array(bins))
    return np.asarray(np.sin(_angle(places, n, quarters)), dtype.storage)


def _contract(x: Array, matrix: Array) -> Array:
    return p.dot_general(x, matrix, ([x.rank - 2, x.rank - 1], [0, 2]))


def _multiply(x: Array, roots: Array) -> Array:
    """Element by element: x [..., parts] times roots [..., 2, 2]."""
    real, *imaginary = (
        p.slice_axis(x, -1, part, 1) * p.squeeze(p.slice_axis(roots, -2, part, 1), [-2])
        for part in range(int(x.shape[-1]))
    )
    return real + imaginary[0] if imaginary else real


def _split(x: Array, a: int, b: int, sign: int) -> Array:
    """The transform of length a * b by b transforms of length a, then a of length b: [..., a * b, 2]."""
    outer, parts = x.shape[:-2], x.shape[-1]
    swapped = [*range(len(outer)), len(outer) + 1, len(outer), len(outer) + 2]
    columns = p.transpose(p.reshape(x, (*outer, a, b, parts)), swapped)
    twiddled = _multiply(_transform(columns, a, a, sign), _matrix(b, a, a * b, sign, 2, x.dtype))
    lines = _transform(p.transpose(twiddled, swapped), b, b, sign)
    return p.reshape(p.transpose(lines, swapped), (*outer, a * b, 2))


def _convolve(x: Array, n: Size, sign: int) -> Array:
    """The transform of any length: since 2 t k = t^2 + k^2 - (k - t)^2, it is a convolution with a chirp."""
    lengths = [1 << (2 * n - 2).bit_length()] if isinstance(n, int) else CONVOLUTIONS
    size = next((size for size in lengths if n * 2 - 1 <= size), None)
    if size is None:
        raise ValueError(f"a transform of {n} elements is too long; {CONVOLUTIONS[-1] // 2} are the most")
    places = count(size) if isinstance(n, int) else p.iota((size,), 0)
    lags = p.minimum(places, -places + size)
    chirp = p.slice_axis(_roots(places * places, n * 2, sign, 2, x.dtype), 0, 0, n)
    inverse = p.where(p.unsqueeze(lags, [1, 2]) < n, _roots(lags * lags, n * 2, -sign, 2, x.dtype), 0)
    spectrum = p.transpose(_transform(p.transpose(inverse, [1, 0, 2]), size, size, -1), [1, 0, 2])
    product = _multiply(_transform(grown(_multiply(x, chirp), size), size, size, -1), spectrum)
    return _multiply(p.slice_axis(_transform(product, size, size, 1), -2, 0, n) / size, chirp)


def grown(x: Array, rows: Size) -> Array:
    """x [..., rows, parts] with zeros at its end."""
    return p.pad(x, [0] * x.rank, [*[0] * (x.rank - 2), rows - x.shape[-2], 0])


def _is_short(n: Size, parts: int, bins: Size) -> bool:
    if isinstance(n, int) and isinstance(bins, int):
        return n * bins * parts <= MATRIX_LIMIT
    return n <= UNKNOWN_LIMIT


def _factor(n: int) -> int:
    """The largest divisor of n that is not above its square root."""
    return next(k for k in range(isqrt(n), 0, -1) if n % k == 0)


def count(size: Size) -> Array:
    """0, 1, 2, ..., known if the size is."""
    return constant(np.arange(size), int64) if isinstance(size, int) else p.iota((size,), 0)
