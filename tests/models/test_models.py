"""The models' list, inputs and reference, on which other tests rely."""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any

import numpy as np
import onnx
import pytest

from tests.models import MODELS, Model, assert_close, inputs, path, reference
from tests.models.feeds import LINE, PAGE


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_entry(model: Model) -> None:
    assert re.fullmatch("[0-9a-f]{64}", model.sha256)
    assert (model.tolerance is None) != (model.cosine is None)
    feeds, again = inputs(model.id, 1), inputs(model.id, 1)
    for name, (dtype, shape, *_) in model.inputs.items():
        assert (feeds[name].dtype, feeds[name].shape) == (np.dtype(dtype), tuple(shape))
        assert feeds[name].flags.c_contiguous
        np.testing.assert_array_equal(feeds[name], again[name])


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        ([], "0 outputs"),
        ([np.zeros((1, 2))], "float64, expected float32"),
        ([np.zeros((2, 1), "f4")], r"\[2, 1\]"),
        ([np.array([[1, 2.001]], "f4")], "off by"),
        ([np.array([[1, np.nan]], "f4")], "not finite"),
    ],
)
def test_differences_are_seen(found: list[Any], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        assert_close("ppocr2-cls", found, [np.array([[1, 2]], "f4")])


def test_cosine_is_for_quantized_models() -> None:
    expected = np.array([1, 2, 3], "f4")
    assert_close("pyfrspell-int8", [expected * np.float32(1.01)], [expected])
    with pytest.raises(AssertionError, match="cosine"):
        assert_close("pyfrspell-int8", [expected[::-1]], [expected])


@pytest.mark.slow
def test_randomized_weights_differ_and_keep_the_scale() -> None:
    model = onnx.load(path("light-squeezenet"))
    weights = [onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer if len(tensor.dims) == 4]
    assert weights
    for weight in weights:
        assert len(np.unique(weight)) > weight.size * 0.99
        assert weight.std() == pytest.approx(np.sqrt(2 / np.prod(weight.shape[1:])), rel=0.1)
    assert reference("light-squeezenet")[0].std() > 1e-4


@pytest.mark.slow
def test_text_line_reads() -> None:
    metadata = {
        entry.key: entry.value for entry in onnx.load(path("ppocr4-rec"), load_external_data=False).metadata_props
    }
    letters = ["", *metadata["character"].splitlines(), " "]
    best = reference("ppocr4-rec")[0][0].argmax(-1)
    assert "".join(letters[index] for index, _ in groupby(best)) == LINE


@pytest.mark.slow
def test_page_has_six_bands() -> None:
    rows = (reference("ppocr4-det")[0][0, 0] > 0.5).any(axis=1)
    assert np.count_nonzero(np.diff(rows.astype(int)) == 1) == len(PAGE) == 6


@pytest.mark.slow
def test_tones_are_a4_and_e5() -> None:
    notes = reference("basic-pitch")[1][0]  # [frames, 88 piano keys from A0]
    first, second = notes[:80].mean(axis=0), notes[95:].mean(axis=0)
    assert first.argmax() == 48
    assert set(np.argsort(second)[-2:]) == {48, 55}
