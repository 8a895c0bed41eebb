"""Signal processing: Fourier transforms, windows, and the mel scale."""

from __future__ import annotations

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.ops.conversion import type_of
from sardonyx.ops.lift import defaulted, each, to_input
from sardonyx.ops.operator import Operator, sample
from sardonyx.primitives.array import Array
from sardonyx.primitives.fourier import count, fourier, grown, real_inverse, sine
from sardonyx.primitives.reading import known_sizes
from sardonyx.sizes.symbolic import Size, maximum

SIGNAL = np.linspace(-1, 2, 48, dtype=np.float32)


def _is_complex(x: Array) -> bool:
    if not (x.shape[-1] == 1 or x.shape[-1] == 2):
        raise ValueError(f"the last axis of {p.show(x.shape)} holds 1 part of real or 2 of complex numbers")
    return x.shape[-1] == 2


class DFT(Operator, since=17):
    """The discrete Fourier transform along an axis of x [..., 1 or 2], the real and imaginary parts coming last."""

    inverse: int = 0
    onesided: int = 0

    def expand(self, x: Array, dft_length: Array | None = None, axis: Array | None = None) -> Array:
        along = -2 if axis is None else int(known_sizes(axis)[0])
        along = p.normalize_axis(along, x.rank)
        if along == x.rank - 1:
            raise ValueError(f"axis {along} holds the parts of complex numbers; use one before it")
        halved = bool(self.onesided and self.inverse)
        if halved != _is_complex(x) and self.onesided:
            raise ValueError(f"onesided takes {'complex' if halved else 'real'} numbers, not x {p.show(x.shape)}")
        if dft_length is not None:
            (n,) = known_sizes(dft_length)
        else:
            n = (x.shape[along] - 1) * 2 if halved else x.shape[along]
        order = [k for k in range(x.rank - 1) if k != along] + [along, x.rank - 1]
        work = p.transpose(p.widen(x), order)
        bins = n // 2 + 1 if self.onesided else n
        if halved:
            result = real_inverse(_resized(work, bins), n) / n
        else:
            work = work if _is_part(work.shape[-2], n) else _resized(work, n)
            result = fourier(work, n, bins, bool(self.inverse))
        return p.cast(p.transpose(result, [order.index(k) for k in range(x.rank)]), x.dtype)

    upgrades = {20: each(defaulted("axis", 1), to_input("axis", 2, rank=0))}
    samples = [
        sample((2, 10, 1)),
        sample((2, 7, 3, 2), None, np.array(1)),
        sample((2, 7, 3, 2), None, np.array(-3), inverse=1),
        sample((9, 3, 1), None, np.array(0), onesided=1),
        sample((1, 5, 2), onesided=1, inverse=1),
        sample((1, 5, 2), np.array(9), onesided=1, inverse=1),
        sample((2, 6, 1), np.array(8), onesided=1),
        sample((2, 6, 2), np.array(4, np.int32)),
        sample((1, 1, 1)),
        sample(SIGNAL.reshape(1, 48, 1).astype(np.float64)),
    ]


def _is_part(rows: Size, n: Size) -> bool:
    """Whether rows are known to be no more than the length n of a transform, which then needs no slice of them."""
    return isinstance(rows, int) and isinstance(n, int) and rows <= n


def _resized(x: Array, rows: Size) -> Array:
    """x [..., rows, parts] cut, or with zeros at its end."""
    if x.shape[-2] >= rows:
        return p.slice_axis(x, -2, 0, rows)
    return grown(x, rows)


class STFT(Operator, since=17):
    """Fourier transforms of frames of a signal [batch, length, 1 or 2], `frame_step` apart, each times a window:
    [batch, frames, bins, 2]."""

    onesided: int = 1

    def expand(
        self, signal: Array, frame_step: Array, window: Array | None = None, frame_length: Array | None = None
    ) -> Array:
        x = p.widen(signal if signal.rank == 3 else p.unsqueeze(signal, [signal.rank]))
        is_onesided = self.onesided and not _is_complex(x)
        (step,) = known_sizes(frame_step)
        n: Size = x.shape[1] if window is None else window.shape[0]
        if frame_length is not None:
            (n,) = known_sizes(frame_length)
        if not x.shape[1] >= n:
            raise ValueError(f"frames of {n} elements do not fit into a signal of {x.shape[1]}")
        places = p.iota(((x.shape[1] - n) // step + 1, 1), 0) * step + p.iota((1, n), 1)
        frames = p.gather(x, [places], [1], 1)
        if window is not None:
            frames = frames * p.unsqueeze(p.widen(window), [1])
        return p.cast(fourier(frames, n, n // 2 + 1 if is_onesided else n), signal.dtype)

    samples = [
        sample((2, 20, 1), np.array(4), None, np.array(8)),
        sample((2, 20, 1), np.array(3), (7,)),
        sample((1, 20, 1), np.array(5), (6,), np.array(6), onesided=0),
        sample((1, 12, 2), np.array(2, np.int32), (4,), onesided=0),
    ]


class _Window(Operator, abstract=True):
    """A symmetric window of `size` points; a periodic one is one longer, without the last point."""

    output_datatype: int = 1
    periodic: int = 1

    def expand(self, size: Array) -> Array:
        (length,) = known_sizes(size)
        dtype = type_of(self.output_datatype)
        work = dtypes.float64 if dtype is dtypes.float64 else dtypes.float32
        period = length if self.periodic else maximum(length - 1, 1)
        return p.cast(self.weights(count(length), period, work), dtype)

    def weights(self, places: Array, period: Size, dtype: DType) -> Array:
        raise NotImplementedError

    samples = [
        sample(np.array(10)),
        sample(np.array(9, np.int32), periodic=0),
        sample(np.array(4), output_datatype=dtypes.float64.number),
    ]


class HannWindow(_Window, since=17):
    """sin^2(pi t / period)."""

    def weights(self, places: Array, period: Size, dtype: DType) -> Array:
        wave = sine(places, period * 2, 0, dtype)
        return wave * wave


class HammingWindow(_Window, since=17):
    """25/46 - 21/46 cos(2 pi t / period)."""

    def weights(self, places: Array, period: Size, dtype: DType) -> Array:
        return 25 / 46 - 21 / 46 * sine(places, period, 1, dtype)


class BlackmanWindow(_Window, since=17):
    """0.42 - 0.5 cos(2 pi t / period) + 0.08 cos(4 pi t / period)."""

    def weights(self, places: Array, period: Size, dtype: DType) -> Array:
        return 0.42 - 0.5 * sine(places, period, 1, dtype) + 0.08 * sine(places * 2, period, 1, dtype)


class MelWeightMatrix(Operator, since=17):
    """Triangles over the bins of a spectrum, their corners evenly spaced in mel(f) = 2595 log10(1 + f / 700):
    [dft_length // 2 + 1, num_mel_bins]."""

    output_datatype: int = 1

    def expand(self, num_mel_bins: Array, dft_length: Array, sample_rate: Array, lower: Array, upper: Array) -> Array:
        (bands,), (n,) = known_sizes(num_mel_bins), known_sizes(dft_length)
        rate, low, high = (p.reshape(p.cast(x, dtypes.float64), ()) for x in (sample_rate, lower, upper))
        low, high = p.log(low / 700 + 1), p.log(high / 700 + 1)
        corners = p.cast(count(bands + 2), dtypes.float64) * ((high - low) / (bands + 2)) + low
        places = p.floor((p.exp(corners) - 1) * 700 * (n + 1) / rate)
        left, peak, right = (p.slice_axis(places, 0, k, bands) for k in range(3))
        bin_ = p.unsqueeze(p.cast(count(n // 2 + 1), dtypes.float64), [1])
        rising, falling = (bin_ - left) / p.maximum(peak - left, 1), (right - bin_) / p.maximum(right - peak, 1)
        slopes = p.maximum(p.minimum(rising, falling), 0)
        return p.cast(p.where(p.equal(bin_, peak), 1, slopes), type_of(self.output_datatype))

    samples = [
        sample(np.array(8), np.array(16), np.array(8192), np.array(0.0, np.float32), np.array(4096.0, np.float32)),
        sample(
            np.array(10, np.int32),
            np.array(200, np.int32),
            np.array(16000, np.int32),
            np.array(20.0, np.float32),
            np.array(7600.0, np.float32),
            output_datatype=dtypes.float64.number,
        ),
    ]
