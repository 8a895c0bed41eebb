"""Histograms and the ranges from them, against onnxruntime's collector for the same arrays: equal to the last bit."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from onnxruntime.quantization.calibrate import HistogramCollector as Theirs

from sardonyx.quantization.histogram import HistogramCollector
from sardonyx.quantization.tensors_data import TensorData
from tests.quantization.both import quiet

WAYS: dict[str, dict[str, Any]] = {
    "entropy": {"method": "entropy", "symmetric": False, "num_bins": 128, "num_quantized_bins": 128},
    "entropy in many bins": {"method": "entropy", "symmetric": False, "num_bins": 1001, "num_quantized_bins": 128},
    "percentile": {"method": "percentile", "symmetric": False, "percentile": 99.0},
    "symmetric percentile": {"method": "percentile", "symmetric": True, "percentile": 99.9},
    "distribution": {"method": "distribution", "symmetric": False},
    "distribution of cubes": {"method": "distribution", "symmetric": False, "scenario": "p3"},
}
DEFAULTS = {"num_bins": 2048, "num_quantized_bins": 128, "percentile": 99.999, "scenario": "same"}


def collections(dtype: type, seed: int) -> list[list[np.ndarray]]:
    """Three collections: the second one is wider, the third one narrower."""
    random = np.random.default_rng(seed)
    return [[random.normal(0.3, width, (2, 50, 7)).astype(dtype) for _ in range(3)] for width in (1, 2.5, 0.7)]


def lists(found: Any) -> list[Any]:
    return [np.asarray(each).tolist() for each in found]


@pytest.mark.parametrize(
    ("way", "dtype", "times"),
    [*((way, np.float32, times) for way in WAYS for times in (1, 3)), ("entropy", np.float16, 1)],
)
def test_histograms_and_ranges_are_theirs(way: str, dtype: type, times: int) -> None:
    mine, its = HistogramCollector(**DEFAULTS | WAYS[way]), Theirs(**DEFAULTS | WAYS[way])
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for arrays in collections(dtype, 1)[:times]:
            for add in (mine.measure, mine.count):
                for array in arrays:
                    add("x", array)
            mine.finish()
            its.collect({"x": arrays})
        expected = its.compute_collection_result()["x"]
    histogram = mine.histograms["x"]
    assert lists([histogram.counts, histogram.edges]) == lists(its.histogram_dict["x"][:2])
    assert lists([histogram.low, histogram.high]) == lists(its.histogram_dict["x"][2:4])
    (found,) = mine.compute_collection_result().values()
    if isinstance(expected, tuple):
        assert lists(found.range_value) == lists(expected[:2])
    else:
        assert isinstance(found, TensorData)
        assert lists([found.avg, found.std, *found.range_value]) == lists(
            [expected.avg, expected.std, *expected.range_value]
        )


@pytest.mark.parametrize("way", ["percentile", "symmetric percentile", "distribution"])
def test_halves_are_counted_in_as_many_bins(way: str) -> None:
    """Theirs cannot: float16 has too few numbers. The ranges are near those of the same numbers in float32."""
    halves, wide = (HistogramCollector(**DEFAULTS | WAYS[way]) for _ in range(2))
    for arrays in collections(np.float16, 1):
        halves.collect({"x": arrays})
        wide.collect({"x": [each.astype(np.float32) for each in arrays]})
    found, expected = (each.compute_collection_result()["x"] for each in (halves, wide))
    assert np.asarray(found.range_value).dtype == np.float16
    np.testing.assert_allclose(found.range_value, expected.range_value, rtol=5e-3)


@pytest.mark.parametrize("way", ["entropy", "percentile", "symmetric percentile"])
@pytest.mark.parametrize(
    "values", [np.zeros((3, 4), np.float32), np.full(9, 2.5, np.float32), np.zeros((0, 4), np.float32)]
)
def test_tensors_of_one_value_and_of_none(way: str, values: np.ndarray) -> None:
    mine, its = HistogramCollector(**DEFAULTS | WAYS[way]), Theirs(**DEFAULTS | WAYS[way])
    mine.collect({"x": [values]})
    with quiet():
        its.collect({"x": [values]})
    assert lists([mine.histograms["x"].counts, mine.histograms["x"].edges]) == lists(its.histogram_dict["x"][:2])


def test_values_that_are_not_numbers_are_left_out() -> None:
    values = np.array([1.0, np.nan, -3.0, 2.0], np.float32)
    mine, its = HistogramCollector(**DEFAULTS | WAYS["entropy"]), Theirs(**DEFAULTS | WAYS["entropy"])
    mine.collect({"x": values})
    with quiet():
        its.collect({"x": [values]})
    assert lists([mine.histograms["x"].counts, mine.histograms["x"].low]) == lists(
        [its.histogram_dict["x"][0], its.histogram_dict["x"][2]]
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "middle"}, "no method is called 'middle'"),
        ({"method": "percentile", "percentile": 101.0}, "0 <= percentile <= 100"),
        ({"method": "distribution", "num_bins": 100}, "512 <= num_bins"),
        ({"method": "distribution", "scenario": "p4"}, "'same', 'p3'"),
    ],
)
def test_what_cannot_be_asked(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HistogramCollector(**DEFAULTS | {"symmetric": False} | changes)


def test_nothing_collected_has_no_ranges() -> None:
    with pytest.raises(ValueError, match="has not been collected"):
        HistogramCollector(**DEFAULTS | WAYS["entropy"]).compute_collection_result()
    with pytest.raises(TypeError, match="'x' gives float64"):
        HistogramCollector(**DEFAULTS | WAYS["entropy"]).collect({"x": np.zeros(3)})
