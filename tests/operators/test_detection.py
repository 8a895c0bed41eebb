"""Boxes, regions, bent windows, determinants and unique elements, random ones, against onnxruntime and NumPy."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from sardonyx import InferenceSession
from sardonyx.errors import RuntimeException
from tests.engine.providers import NUMPY, PROVIDERS, require_provider
from tests.support import eager
from tests.support.single import judged, outputs_on, single


def boxes(rng: np.random.Generator, count: int, images: int = 1) -> np.ndarray:
    """Corners in any order; many boxes overlap."""
    centre, size = rng.uniform(0, 5, (2, images, count, 2))
    return np.concatenate([centre - size / 2, centre + size / 2], -1).astype(np.float32)[
        ..., rng.permutation([0, 1, 2, 3])
    ]


@pytest.mark.parametrize("seed", range(12))
def test_suppression(seed: int) -> None:
    rng = np.random.default_rng(seed)
    images, classes, count = 1 + seed % 2, 1 + seed % 3, 30
    scores = rng.uniform(0, 1, (images, classes, count)).astype(np.float32)
    if seed % 4 == 3:
        scores = scores.round(1)  # ties: the first one wins
    model, feeds = single(
        "NonMaxSuppression",
        boxes(rng, count, images),
        scores,
        np.array([3 + 4 * seed]),
        np.array([seed / 12], np.float32),
        np.array([0.4], np.float32) if seed % 3 else None,
        center_point_box=int(seed > 7),
    )
    (wanted,) = judged(model, feeds)
    np.testing.assert_array_equal(eager.evaluate(model, feeds)[0], wanted)
    np.testing.assert_array_equal(outputs_on(NUMPY, model, feeds)[0], wanted)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_suppression_of_more_and_fewer(provider: str) -> None:
    """One session; boxes come and go, all of them at last."""
    require_provider(provider)
    limits = np.array([20]), np.array([0.3], np.float32), np.array([0.5], np.float32)
    session = None
    for count, factor in ((20, 1.0), (50, 1.0), (10, 0.1), (31, 1.0)):
        rng = np.random.default_rng(count)
        scores = (rng.uniform(0, 1, (1, 2, count)) * factor).astype(np.float32)
        model, feeds = single("NonMaxSuppression", boxes(rng, count), scores, *limits, constants={2, 3, 4})
        session = session or InferenceSession(model.SerializeToString(), providers=[provider])
        np.testing.assert_array_equal(session.run(None, dict(feeds))[0], judged(model, feeds)[0])


def test_suppression_without_a_number_of_boxes() -> None:
    """ONNX's default is to select none."""
    rng = np.random.default_rng(0)
    model, feeds = single("NonMaxSuppression", boxes(rng, 5), rng.random((1, 1, 5), np.float32))
    assert outputs_on(NUMPY, model, feeds)[0].shape == (0, 3)


@pytest.mark.parametrize("seed", range(8))
def test_regions(seed: int) -> None:
    pick, rng = random.Random(seed), np.random.default_rng(seed)
    x = rng.normal(size=(2, 3, 9, 11)).astype(np.float32)
    corner, size = rng.uniform(-3, 10, (5, 2)), rng.uniform(0, 9, (5, 2))
    rois = np.concatenate([corner, corner + size], 1).astype(np.float32)
    attributes: dict[str, Any] = {
        "mode": ["avg", "max"][seed % 2],
        "coordinate_transformation_mode": pick.choice(["half_pixel", "output_half_pixel"]),
        "sampling_ratio": pick.choice([0, 0, 1, 3]),
        "spatial_scale": pick.choice([1.0, 0.7]),
        "output_height": pick.randint(1, 4),
        "output_width": pick.randint(1, 4),
    }
    model, feeds = single("RoiAlign", x, rois, rng.integers(0, 2, 5), **attributes)
    (wanted,) = judged(model, feeds)
    np.testing.assert_allclose(outputs_on(NUMPY, model, feeds)[0], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_regions_of_other_sizes(provider: str) -> None:
    """How many samples there are depends on the regions: one session serves them all."""
    require_provider(provider)
    x = np.random.default_rng(1).normal(size=(1, 2, 8, 8)).astype(np.float32)
    session = None
    for side in (3, 7.5, 1, 0):
        rois = np.array([[0, 1, side, side], [2, 0, 2 + side, 3]], np.float32)[: int(side * 3)]
        model, feeds = single("RoiAlign", x, rois, np.zeros(len(rois), np.int64), output_height=2, output_width=2)
        session = session or InferenceSession(model.SerializeToString(), providers=[provider])
        (found,) = session.run(None, dict(feeds))
        assert found.shape == (len(rois), 2, 2, 2)
        if len(rois):
            np.testing.assert_allclose(found, judged(model, feeds)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_largest_elements_of_regions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(2, 3, 9, 11)).astype(np.float32)
    corner, size = rng.uniform(-2, 7, (6, 2)), rng.uniform(0, 8, (6, 2))
    rois = np.concatenate([rng.integers(0, 2, (6, 1)), corner, corner + size], 1).astype(np.float32)
    model, feeds = single("MaxRoiPool", x, rois, pooled_shape=[3, 2], spatial_scale=1.0 - seed / 8)
    np.testing.assert_array_equal(outputs_on(NUMPY, model, feeds)[0], judged(model, feeds)[0])


def test_unknown_mode() -> None:
    x, rois = np.zeros((1, 1, 2, 2), np.float32), np.zeros((1, 4), np.float32)
    with pytest.raises(RuntimeException, match="mode 'median' is unknown; use avg or max"):
        eager.evaluate(*single("RoiAlign", x, rois, np.zeros(1, np.int64), mode="median"))


def bent(x: np.ndarray, w: np.ndarray, offset: np.ndarray, pads: int, stride: int) -> np.ndarray:
    """A deformable convolution in as many axes as there are, element by element."""
    rank, kernel = x.ndim - 2, w.shape[2:]
    y = np.zeros((len(x), len(w), *offset.shape[2:]))
    offset = offset.reshape(len(x), -1, rank, *offset.shape[2:])
    for n, *out in np.ndindex(len(x), *y.shape[2:]):
        for number, tap in enumerate(np.ndindex(*kernel)):
            place = np.array(out) * stride - pads + tap + offset[(n, number, slice(None), *out)]
            for corner in np.ndindex(*[2] * rank):
                at = np.floor(place).astype(int) + corner
                if (at >= 0).all() and (at < x.shape[2:]).all():
                    weight = np.prod(1 - np.abs(at - place))
                    y[(n, slice(None), *out)] += w[(slice(None), slice(None), *tap)] @ x[(n, slice(None), *at)] * weight
    return y


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_bent_windows_in_many_axes(rank: int, provider: str) -> None:
    require_provider(provider)
    rng = np.random.default_rng(rank)
    x, w = rng.normal(size=(2, 3, *[5] * rank)), rng.normal(size=(4, 3, *[2] * rank))
    offset = rng.normal(size=(2, 2**rank * rank, *[3] * rank))
    arrays = [array.astype(np.float32) for array in (x, w, offset)]
    model, feeds = single("DeformConv", *arrays, pads=[1] * 2 * rank, strides=[2] * rank)
    np.testing.assert_allclose(outputs_on(provider, model, feeds)[0], bent(*arrays, 1, 2), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [1, 2, 5, 20])
def test_determinants(size: int) -> None:
    x = np.random.default_rng(size).normal(size=(3, 2, size, size))
    (found,) = outputs_on(NUMPY, *single("Det", x))
    np.testing.assert_allclose(found, np.linalg.det(x), rtol=1e-10)


def test_determinants_of_singular_matrices() -> None:
    """A pivot is 0, at the first column or later; or the largest element has to be fetched."""
    x = np.array([[[0, 1], [0, 2]], [[1, 2], [2, 4]], [[0, 3], [5, 0]], [[1e-9, 1], [1, 1]]], np.float32)
    np.testing.assert_allclose(eager.evaluate(*single("Det", x))[0], [0, 0, -15, -1], atol=1e-6)


def test_determinant_of_no_square() -> None:
    with pytest.raises(RuntimeException, match=r"the operand is \[2,3\], but square matrices are needed"):
        eager.evaluate(*single("Det", np.zeros((2, 3), np.float32)))


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("axis", [None, 0, 1, 2])
@pytest.mark.parametrize("order", [0, 1])
def test_unique(axis: int | None, order: int, provider: str) -> None:
    require_provider(provider)
    attributes = {"sorted": order} | ({} if axis is None else {"axis": axis})
    session = None
    for seed, shape in enumerate([(4, 2, 3), (6, 3, 2), (2, 5, 1), (1, 1, 1)]):
        x = np.random.default_rng(seed).integers(-1, 2, shape).astype(np.float32)
        model, feeds = single("Unique", x, outputs=4, **attributes)
        session = session or InferenceSession(model.SerializeToString(), providers=[provider])
        for found, wanted in zip(session.run(None, dict(feeds)), judged(model, feeds), strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_unique_of_nothing(provider: str) -> None:
    require_provider(provider)
    found = outputs_on(provider, *single("Unique", np.zeros(0, np.float32), outputs=4))
    assert [array.shape for array in found] == [(0,)] * 4


def test_nan_equals_nan() -> None:
    x = np.array([np.nan, 1, np.nan, 0, 1], np.float16)
    y, first, inverse, counts = eager.evaluate(*single("Unique", x, outputs=4))
    np.testing.assert_array_equal(y, np.array([0, 1, np.nan], np.float16))
    assert (first.tolist(), inverse.tolist(), counts.tolist()) == ([3, 1, 0], [2, 1, 2, 0, 1], [1, 2, 2])
