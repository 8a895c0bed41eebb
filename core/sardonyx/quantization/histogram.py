"""Ranges by histograms: how many of a tensor's values lie where, counted array by array.

A collection goes over its arrays twice, for its extent and then for its counts, and gives what counting all of them at
once would give. Further collections widen the histogram by whole bins. The ways to a range are those of onnxruntime:
of TensorRT's calibration (Migacz, 8-bit inference with TensorRT, 2017), of percentiles, and of mean and spread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx.common.record import record
from sardonyx.errors import InvalidArgument
from sardonyx.quantization.tensors_data import TensorData

METHODS = ("entropy", "percentile", "distribution")


@record
class Extent:
    """The least and the greatest value, and the least and the greatest size, of what was seen; NaN is not seen."""

    low: Any
    high: Any
    nearest: Any
    farthest: Any
    size: int

    @property
    def is_finite(self) -> bool:
        """Whether there is a histogram between the ends: something is no NaN, and nothing is infinite."""
        return bool(np.isfinite(self.farthest))

    @classmethod
    def of(cls, array: np.ndarray) -> Extent:
        """The extent of an array; of an empty one nothing but zeros."""
        if not array.size:
            nothing = np.zeros((), array.dtype)[()]
            return cls(nothing, nothing, nothing, nothing, 0)
        sizes = np.abs(array)
        low, high = np.fmin.reduce(array, axis=None), np.fmax.reduce(array, axis=None)
        return cls(low, high, np.fmin.reduce(sizes, axis=None), np.fmax.reduce(sizes, axis=None), array.size)

    def joined(self, other: Extent) -> Extent:
        """The extent of both."""
        if not self.size or not other.size:
            return self if self.size else other
        return Extent(
            np.fmin(self.low, other.low),
            np.fmax(self.high, other.high),
            np.fmin(self.nearest, other.nearest),
            np.fmax(self.farthest, other.farthest),
            self.size + other.size,
        )


@record
class Histogram:
    """Counts between edges, and the least and the greatest value; `threshold` is half the width around 0."""

    counts: np.ndarray
    edges: np.ndarray
    low: Any
    high: Any
    threshold: Any = None


class _Counting:
    """One collection of one tensor: the edges, which the extent tells, and the counts so far."""

    def __init__(self, old: Histogram | None, extent: Extent, bins: int, absolute: bool) -> None:
        self.old = old
        self.extent = extent
        self.absolute = absolute
        self.edges: np.ndarray | None = None
        self.range: tuple[Any, Any] | None = None
        self.bins = bins
        self.offset = 0
        kind = np.asarray(extent.low).dtype
        self.threshold = np.array(max(abs(extent.low), abs(extent.high)), kind)
        if absolute and old is None:
            self.range = (extent.nearest, extent.farthest) if extent.size else (0, 1)
        elif absolute and old is not None:
            self.edges = old.edges
            if extent.farthest > old.edges[-1]:
                width = old.edges[1] - old.edges[0]
                more = np.arange(old.edges[-1] + width, extent.farthest + width, width)
                self.edges = np.hstack((old.edges, more))
        elif old is None:
            self.range = (-self.threshold, self.threshold)
        else:
            self._widen(old)
        self.counts: np.ndarray | None = None
        self.found: np.ndarray | None = None

    def _widen(self, old: Histogram) -> None:
        """Take the bins of a histogram around 0, and as many more on both sides as the threshold needs."""
        self.bins = len(old.counts)
        if self.threshold <= old.threshold:
            self.threshold = old.threshold
        elif old.threshold != 0:
            stride = 2 * old.threshold / self.bins
            self.offset = int((self.threshold - old.threshold) // stride + 1)
            self.bins += 2 * self.offset
            self.threshold = self.offset * stride + old.threshold
        self.range = (-self.threshold, self.threshold)

    def add(self, array: np.ndarray) -> None:
        values = np.abs(array) if self.absolute else array
        try:
            counts, self.found = self._counted(values)
        except ValueError:  # float16 has too few numbers in the range for so many bins
            if values.dtype != np.float16:
                raise
            counts, self.found = self._counted(values.astype(np.float32))
        self.counts = counts if self.counts is None else self.counts + counts

    def _counted(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self.edges is not None:
            return np.histogram(values, bins=self.edges)
        low, high = self.range or (0, 1)
        if values.dtype == np.float32:
            low, high = np.float32(low), np.float32(high)
        return np.histogram(values, self.bins, range=(low, high))

    def result(self) -> Histogram:
        """The histogram of this collection and of those before."""
        assert self.counts is not None
        assert self.found is not None
        old, extent = self.old, self.extent
        kind = np.asarray(extent.low).dtype
        coarse = self.absolute and not (kind == np.float16 and self.found.dtype == np.float32)
        edges = self.found.astype(kind) if coarse else self.found
        if old is None:
            return Histogram(self.counts, edges, extent.low, extent.high, self.threshold)
        if not self.absolute and self.threshold == old.threshold and not self.offset:
            edges = old.edges
        self.counts[self.offset : self.offset + len(old.counts)] += old.counts
        low, high = np.fmin(old.low, extent.low), np.fmax(old.high, extent.high)
        return Histogram(self.counts, edges, low, high, self.threshold)


class HistogramCollector:
    """The histograms of tensors by name, and ranges from them.

    `method` is entropy, percentile or distribution; `symmetric` percentiles are those of absolute values.
    """

    def __init__(
        self,
        method: str,
        symmetric: bool,
        num_bins: int,
        num_quantized_bins: int,
        percentile: float,
        scenario: str,
    ) -> None:
        if method not in METHODS:
            raise InvalidArgument(f"no method is called {method!r}; there are {', '.join(METHODS)}")
        if not 0 <= percentile <= 100:
            raise InvalidArgument("Invalid percentile. Must be in range 0 <= percentile <= 100.")
        if method == "distribution" and num_bins < 512:
            raise InvalidArgument("Invalid num_bins. Must be in range 512 <= num_bins.")
        if scenario not in ("same", "p3"):
            raise InvalidArgument("Invalid scenario. Must be in {'same', 'p3'}.")
        self.method = method
        self.symmetric = symmetric
        self.num_bins = num_bins
        self.num_quantized_bins = num_quantized_bins
        self.percentile = percentile
        self.scenario = scenario
        self.histograms: dict[str, Histogram] = {}
        self._extents: dict[str, Extent] = {}
        self._counting: dict[str, _Counting] = {}
        self._endless: dict[str, Extent] = {}
        """Tensors with infinity in them, or nothing but NaN: their ranges say so, and nothing is counted."""

    # ---- collecting

    def collect(self, name_to_arr: Mapping[str, np.ndarray | Sequence[np.ndarray]]) -> None:
        """Add arrays, or lists of them, to the histograms: one collection."""
        lists = {name: [given] if isinstance(given, np.ndarray) else given for name, given in name_to_arr.items()}
        for add in (self.measure, self.count):
            for name, arrays in lists.items():
                for array in arrays:
                    add(name, np.asarray(array))
        self.finish()

    def measure(self, name: str, array: np.ndarray) -> None:
        """The first pass of a collection: take the extent of an array in."""
        if array.dtype not in (np.float16, np.float32):
            raise TypeError(f"'{name}' gives {array.dtype}; float32 and float16 are calibrated")
        extent = Extent.of(array)
        self._extents[name] = self._extents[name].joined(extent) if name in self._extents else extent

    def count(self, name: str, array: np.ndarray) -> None:
        """The second pass: count the values of an array, which was measured."""
        if not self._extents[name].is_finite:
            self._endless[name] = self._extents[name]
            return
        if name not in self._counting:
            absolute = self.method == "percentile" and self.symmetric
            old = self.histograms.get(name)
            self._counting[name] = _Counting(old, self._extents[name], self.num_bins, absolute)
        self._counting[name].add(array)

    def finish(self) -> None:
        """End a collection."""
        self.histograms.update((name, each.result()) for name, each in self._counting.items())
        self._extents, self._counting = {}, {}

    # ---- ranges

    def compute_collection_result(self) -> dict[str, Any]:
        """What is known of each tensor; ValueError where nothing was collected."""
        if not self.histograms and not self._endless:
            raise InvalidArgument("Histogram has not been collected. Please run collect() first.")
        ways = {"entropy": self._entropy, "percentile": self._percentile, "distribution": self._distribution}
        found: dict[str, Any] = {name: ways[self.method](histogram) for name, histogram in self.histograms.items()}
        return found | {
            name: TensorData(lowest=np.asarray(each.low), highest=np.asarray(each.high))
            for name, each in self._endless.items()
        }

    def _percentile(self, histogram: Histogram) -> TensorData:
        counts, edges = histogram.counts, histogram.edges
        cumulated = np.cumsum(counts / counts.sum())
        if self.symmetric:
            high = np.array(edges[np.searchsorted(cumulated, self.percentile / 100.0)], edges.dtype)
            low: Any = -high
        else:
            cut = (100.0 - self.percentile) / 200.0
            high = np.array(edges[np.searchsorted(cumulated, 1.0 - cut)], edges.dtype)
            low = np.array(edges[np.searchsorted(cumulated, cut)], edges.dtype)
        return _clipped(histogram, low, high)

    def _entropy(self, histogram: Histogram) -> TensorData:
        low, high = entropy_range(histogram.counts, histogram.edges, self.num_quantized_bins)
        return _clipped(histogram, low, high)

    def _distribution(self, histogram: Histogram) -> TensorData:
        edges = histogram.edges
        mean, spread = _mean_and_spread(histogram.counts, edges, 1 if self.scenario == "same" else 1.0 / 3.0)
        low, high = (np.asarray(each, np.asarray(histogram.low).dtype) for each in (edges.min(), edges.max()))
        return TensorData(avg=mean, std=spread, hist=histogram.counts, hist_edges=edges, lowest=low, highest=high)


def _clipped(histogram: Histogram, low: Any, high: Any) -> TensorData:
    """A range, where it is not wider than what was seen."""
    kind = np.asarray(histogram.low).dtype
    low = np.asarray(histogram.low if low < histogram.low else low, kind)
    high = np.asarray(histogram.high if high > histogram.high else high, kind)
    return TensorData(lowest=low, highest=high, hist=histogram.counts, bins=histogram.edges)


def entropy_range(counts: np.ndarray, edges: np.ndarray, levels: int) -> tuple[Any, Any]:
    """The range around the middle that loses the least information when it is told in so many levels.

    What lies outside of a range counts for its first and last bin; the loss is the Kullback-Leibler divergence.
    """
    middle, half = len(counts) // 2, levels // 2
    losses = np.zeros(middle - half + 1)
    ranges = []
    for number, width in enumerate(range(half, middle + 1)):
        start, end = middle - width, min(middle + width + 1, len(counts))
        ranges.append((edges[start], edges[end]))
        inside = counts[start:end]
        exact = inside.copy()
        exact[0] += counts[:start].sum()
        exact[-1] += counts[end:].sum()
        each = inside.size // levels
        whole = levels * each
        merged = inside[:whole].reshape(levels, each).sum(axis=1)
        merged[-1] += inside[whole:].sum()
        present = (exact[:whole] != 0).reshape(levels, each).sum(axis=1)
        coarse = np.zeros(exact.size, np.int64)
        share = np.divide(merged, present, out=np.zeros(levels), where=present != 0).astype(np.int64)
        coarse[:whole] = np.repeat(share, each)
        losses[number] = np.array(_divergence(smooth_distribution(exact), smooth_distribution(coarse)), edges.dtype)
    low, high = ranges[int(np.argmin(losses))]
    return low, high


def smooth_distribution(p: np.ndarray, eps: float = 0.0001) -> np.ndarray | None:
    """Counts as float32, with a little in each empty bin that is taken from the others; None where all are empty."""
    empty = (p == 0).astype(np.float32)
    filled = (p != 0).astype(np.float32)
    zeros = empty.sum()
    others = p.size - zeros
    if not others:
        return None
    taken = eps * float(zeros) / float(others)
    if taken >= 1.0:
        raise InvalidArgument(f"{int(zeros)} of {p.size} bins are empty, too many to be smoothed by {eps}")
    smooth = p.astype(np.float32)
    smooth += eps * empty + (-taken) * filled
    return smooth


def _divergence(p: np.ndarray | None, q: np.ndarray | None) -> Any:
    """The Kullback-Leibler divergence of q from p, in float32; infinite where one is empty."""
    if p is None or q is None:
        return np.inf
    p, q = 1.0 * p / np.sum(p, keepdims=True), 1.0 * q / np.sum(q, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = p * np.log(p / q)
    terms[(p == 0) & (q >= 0)] = 0
    terms[~((p > 0) & (q > 0))] = np.inf
    return np.sum(terms).astype(p.dtype)


def _mean_and_spread(counts: np.ndarray, edges: np.ndarray, power: float) -> tuple[np.ndarray, np.ndarray]:
    """The mean and the standard deviation of the middles of bins, taken to a power with their signs."""
    values = (edges[:-1] + edges[1:]) * 0.5
    if power != 1:
        values = np.abs(values) ** power * np.where(values < 0, -1, 1).astype(values.dtype)
    total = counts.sum()
    mean = (counts * values).sum() / total
    spread = ((counts * values**2).sum() / total - mean**2) ** 0.5
    return np.array(mean, edges.dtype), np.array(spread, edges.dtype)
