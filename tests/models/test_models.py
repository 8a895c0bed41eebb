"""The models' list, inputs and reference, on which other tests rely."""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any

import numpy as np
import onnx
import pytest
from sklearn import datasets

from tests.models import MODELS, Model, assert_close, inputs, path, reference
from tests.models.chat import ANSWER
from tests.models.feeds import LINE, PAGE


def entry(model: Model) -> Any:
    """The memory of a chat comes from a model, which is downloaded."""
    slow = any(kind == "past" for _, _, kind, *_ in model.inputs.values())
    return pytest.param(model, id=model.id, marks=[pytest.mark.slow] if slow else [])


@pytest.mark.parametrize("model", [entry(model) for model in MODELS.values()])
def test_entry(model: Model) -> None:
    if model.registry == "derived":
        assert not model.sha256
    else:
        assert re.fullmatch("[0-9a-f]{64}", model.sha256)
    assert [model.tolerance, model.cosine, model.spectrum].count(None) == 2
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
        ([[1.0, 2.0]], "list, expected ndarray"),
    ],
)
def test_differences_are_seen(found: list[Any], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        assert_close("ppocr2-cls", found, [np.array([[1, 2]], "f4")])


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (np.array([10_001]), np.array([10_000])),
        (np.array(["red", "rod"], object), np.array(["red", "red"], object)),
        ([{"red": 0.5, "green": 0.4}], [{"red": 0.5, "green": 0.5}]),
        ([{"red": 0.5, "blue": 0.5}], [{"red": 0.5, "green": 0.5}]),
    ],
    ids=["integers", "strings", "values", "keys"],
)
def test_what_is_no_tensor_of_floats_is_compared(found: Any, expected: Any) -> None:
    assert_close("skl-rf-digits", [expected], [expected])
    with pytest.raises(AssertionError):
        assert_close("skl-rf-digits", [found], [expected])


def test_cosine_is_for_quantized_models() -> None:
    expected = np.array([1, 2, 3], "f4")
    assert_close("pyfrspell-int8", [expected * np.float32(1.01)], [expected])
    with pytest.raises(AssertionError, match="cosine"):
        assert_close("pyfrspell-int8", [expected[::-1]], [expected])


def test_spectra_are_for_sounds() -> None:
    time = np.arange(8000) / 24000
    tone = np.sin(2 * np.pi * 440 * time).astype(np.float32)
    assert_close("kokoro-82m-int8", [np.sin(2 * np.pi * 440 * time + 2).astype(np.float32)], [tone])
    assert_close("kokoro-82m-int8", [tone[:-300]], [tone])
    for other, complaint in ((np.sin(2 * np.pi * 4400 * time), "cosine"), (time[:4000], "4000 samples, not 8000")):
        with pytest.raises(AssertionError, match=complaint):
            assert_close("kokoro-82m-int8", [other.astype(np.float32)], [tone])


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
@pytest.mark.parametrize("precision", ["int4-std", "int4-contrib", "fp16-op23"])
def test_the_capital_of_france_is_paris(precision: str) -> None:
    for step, token in {"prefill": ANSWER[0], "decode": ANSWER[-1]}.items():
        assert reference(f"smollm2-{precision}-{step}")[0][0, -1].argmax() == token


@pytest.mark.slow
@pytest.mark.parametrize("name", ["logreg-digits", "svc-iris", "rf-digits", "knn-wine"])
def test_pipelines_have_learned(name: str) -> None:
    rows, labels = getattr(datasets, f"load_{name.split('-')[1]}")(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(rows))[:64]
    np.testing.assert_array_equal(inputs(f"skl-{name}")["X"], rows[order].astype(np.float32))
    assert np.mean(reference(f"skl-{name}")[0] == labels[order]) > 0.75


@pytest.mark.slow
def test_pipelines_understand_strings() -> None:
    assert reference("skl-columns-strings")[0].tolist() == [0, 0, 0]
    assert reference("skl-tfidf-text")[0].tolist() == [0, 1]


@pytest.mark.slow
def test_half_precision_keeps_the_answer() -> None:
    half, single = reference("minilm-l3-fp16")[0], reference("minilm-l3")[0]
    np.testing.assert_allclose(half, single, rtol=0, atol=0.01 * np.abs(single).max())


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
