"""Bundles in a page without Python: samples of operators and real models, right, and equal to what Python gives."""

from __future__ import annotations

import re
import textwrap
from importlib import import_module
from typing import Any

import numpy as np
import onnxruntime
import pytest

from sardonyx import InferenceSession
from sardonyx.common.convert import inward
from sardonyx.common.dtypes import by_name, float32, of
from sardonyx.errors import NotImplemented
from sardonyx.model.serde.reader import read
from sardonyx.plans.bundle import Bundle
from tests.engine.graphs import model
from tests.engine.loops import DECLARED, form
from tests.models import SHORT, assert_close, inputs, path, reference
from tests.pyodide.storage import typed
from tests.support.browser import Chromium
from tests.web.pages import Case, bundled, run

operators = import_module("tests.operators.test_samples")  # which has no strict types
SAMPLES = [*operators.CASES, *operators.TYPED]
PARTS = 4
TARGETS = {"wasm": "WasmExecutionProvider", "webgpu": "WebGpuExecutionProvider"}
SMALL = ("ppocr2-cls", "silero-vad", "silero-vad-seq")
"""Models for every day: a picture, and sounds with control flow; the others run nightly."""
HOSTED = {"wasm": {"skl-tfidf-text"}, "webgpu": {"skl-tfidf-text", "lgbm-decode-te5"}}
"""Models with nodes that need Python."""
LONG = {id for id in SHORT if id.startswith("smollm2")}
LONG |= {"light-resnet50", "light-densenet121", "opennsfw-resnet", "eeg-spindle-unet", "ppocr4-det"}
"""Models that take minutes on a processor that plays a GPU: they run on the native one (`tests.engine.test_models`)."""


def check_samples(chromium: Chromium, target: str, samples: list[Any]) -> None:
    """Run samples in one worker, and fail with a line for each that is wrong; nodes for the host are left out."""
    cases, known = [], []
    for sample in samples:
        model, feeds = operators.model_of(*sample.values)
        try:
            bundle = bundled(model.SerializeToString(), feeds, [target])
        except NotImplemented as error:
            if re.search("need Python|bundles (take|give) tensors", str(error)):
                continue
            raise
        cases.append(Case(bundle, feeds))
        known.append(sample)
    assert len(known) >= 0.8 * len(samples)
    complaints = []
    for sample, case, answer in zip(known, cases, run(chromium, cases, target), strict=True):
        operator, wants = sample.values
        try:
            assert not isinstance(answer, str), answer
            wanted = operators.expected(operator, wants)
            operators.assert_near([typed(*pair) for pair in zip(answer, wanted)], wanted, wants.tolerance)
            if target == "wasm":
                own = InferenceSession(case.bundle).run(None, case.feeds)
                for page, here in zip(answer, own, strict=True):
                    np.testing.assert_array_equal(page, inward(np.asarray(here), of(np.asarray(here).dtype)))
        except AssertionError as error:
            complaints.append(f"{sample.id}: {textwrap.shorten(str(error), 300)}")
    if complaints:
        pytest.fail("\n".join(complaints), pytrace=False)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_a_tenth_of_the_samples(chromium: Chromium, target: str) -> None:
    check_samples(chromium, target, SAMPLES[::10])


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("target", TARGETS)
def test_all_samples(chromium: Chromium, target: str, part: int) -> None:
    check_samples(chromium, target, SAMPLES[part::PARTS])


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_what_bodies_of_loops_declare(chromium: Chromium, target: str) -> None:
    feeds = {"n": np.array(3), "x": np.arange(12, dtype=np.float32).reshape(6, 2)}
    data = [model(form(name, *DECLARED[1])) for name in ("at once", "together", "turn by turn")]
    cases = [Case(bundled(each, feeds, [target]), feeds) for each in data]
    for each, answer in zip(data, run(chromium, cases, target), strict=True):
        assert not isinstance(answer, str), answer
        wanted = onnxruntime.InferenceSession(each, providers=["CPUExecutionProvider"]).run(None, feeds)
        for page, other in zip(answer, wanted, strict=True):
            np.testing.assert_array_equal(page, other)
            assert page.shape == other.shape


@pytest.mark.slow
def test_products_of_float64(chromium: Chromium) -> None:
    """In float64 on the way, too."""
    data = model(
        """g (double[61, 40] a, double[40, 33] b, double[1, 5, 12, 13] x, double[7, 5, 3, 3] w, double[5, 1, 3, 3] v) =>
        (double[61, 33] y, double[1, 7, 10, 11] z, double[1, 5, 10, 11] d) {
            y = MatMul (a, b)
            z = Conv (x, w)
            d = Conv <group = 5> (x, v)
        }"""
    )
    rng = np.random.default_rng(0)
    shapes = {"a": (61, 40), "b": (40, 33), "x": (1, 5, 12, 13), "w": (7, 5, 3, 3), "v": (5, 1, 3, 3)}
    a, b, x, w, v = feeds = [rng.standard_normal(shape) for shape in shapes.values()]
    given = dict(zip(shapes, feeds, strict=True))
    (answer,) = run(chromium, [Case(bundled(data, given, ["wasm"]), given)], "wasm")
    assert not isinstance(answer, str), answer
    seen = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    wanted = [a @ b, np.einsum("bcyxij,mcij->bmyx", seen, w), np.einsum("bcyxij,cij->bcyx", seen, v[:, 0])]
    for page, exact in zip(answer, wanted, strict=True):
        np.testing.assert_allclose(page, exact, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_chance(chromium: Chromium, target: str) -> None:
    """Numbers without a seed are others in each run, in branches too, and are distributed as they should be."""
    data = model(
        """g (float[N] x, bool yes) => (float[N] normal, float[M] uniform) {
            normal = RandomNormalLike <mean = 3.0, scale = 2.0> (x)
            uniform = If (yes) <
                then_branch = a () => (float[4000] u) { u = RandomUniform <shape = [4000], high = 5.0> () },
                else_branch = b () => (float[1] v) { v = Constant <value_floats = [1.0]> () }>
        }"""
    )
    feeds = {"x": np.zeros(4000, np.float32), "yes": np.array(True)}
    case = Case(bundled(data, feeds, [target]), feeds)
    first, second = run(chromium, [case, case], target)
    for normal, uniform in (first, second):
        np.testing.assert_allclose([normal.mean(), normal.std(), uniform.mean()], [3, 2, 2.5], atol=0.2)
        assert 0 <= uniform.min() < 0.1
        assert 4.9 < uniform.max() < 5
    assert np.abs(first[0] - second[0]).max() > 1
    assert len({*first[0], *second[0]}) > 7900


def combination(id: str, target: str) -> Any:
    mark = pytest.mark.slow if id in SMALL else pytest.mark.nightly
    return pytest.param(id, target, id=f"{id}-{target}", marks=mark)


COMBINATIONS = [(id, target) for target in TARGETS for id in SHORT if target == "wasm" or id not in LONG]


@pytest.mark.parametrize(("id", "target"), [combination(*each) for each in COMBINATIONS])
def test_models(chromium: Chromium, id: str, target: str) -> None:
    """In the page and natively, from one bundle, which threads change nothing of."""
    feeds = inputs(id)
    if id in HOSTED[target]:
        with pytest.raises(NotImplemented, match="need Python"):
            bundled(path(id), feeds, [target])
        return
    case = Case(bundled(path(id), feeds, [target]), feeds)
    (found,) = run(chromium, [case], target)
    assert not isinstance(found, str), found
    assert_close(id, found, reference(id))
    if target == "wasm":
        (shared,) = run(chromium, [case], target, threads=2)
        for here, page, both in zip(InferenceSession(case.bundle).run(None, feeds), found, shared, strict=True):
            np.testing.assert_array_equal(here, page)
            np.testing.assert_array_equal(page, both)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "error"), [("float16", 1e-3), ("int8", 2e-2)])
@pytest.mark.parametrize("target", TARGETS)
def test_weights_in_fewer_bits(chromium: Chromium, target: str, kind: str, error: float) -> None:
    id = "ppocr2-cls"
    case = Case(bundled(path(id), inputs(id), [target], compress=True, weights=kind), inputs(id))
    (found,) = run(chromium, [case], target)
    assert not isinstance(found, str), found
    for page, wanted in zip(found, reference(id), strict=True):
        assert 0 < np.abs(page - wanted).max() < error
    if target == "wasm":
        np.testing.assert_array_equal(found, InferenceSession(case.bundle).run(None, case.feeds))


@pytest.mark.slow
@pytest.mark.parametrize("target", ["wasm", pytest.param("webgpu", marks=pytest.mark.nightly)])
def test_weights_of_4_bits(chromium: Chromium, target: str) -> None:
    """A text encoder, whose table and products are in 4 bits: a page gives what Python gives, near to the model."""
    id = "minilm-l3"
    feeds, wanted = inputs(id), reference(id)
    case = Case(bundled(path(id), feeds, [target], compress=True, weights="int4"), feeds)
    stored = Bundle(case.bundle).manifest["weights"].values()
    size = sum(by_name(dtype).itemsize * np.prod(shape, dtype=int) for dtype, shape in stored)
    whole = sum(
        value.constant.size * 4
        for value in read(path(id)).graph.initializers
        if value.constant is not None and value.dtype is float32
    )
    assert size < 0.15 * whole
    (found,) = run(chromium, [case], target)
    assert not isinstance(found, str), found
    own = InferenceSession(case.bundle, providers=[TARGETS[target]]).run(None, feeds)
    for page, here, exact in zip(found, own, wanted, strict=True):
        np.testing.assert_allclose(page, here, rtol=0, atol=0 if target == "wasm" else 1e-4)
        assert (page * exact).sum() > 0.96 * np.linalg.norm(page) * np.linalg.norm(exact)
