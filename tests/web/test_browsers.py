"""Bundles, and pages written for onnxruntime-web, in Chromium, Firefox and WebKit: as onnxruntime has it natively."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnxruntime
import pytest

from sardonyx import InferenceSession
from sardonyx.demo import assets
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.writer import write
from sardonyx.passes.picture import Picture, with_pictures
from tests import models
from tests.support import require
from tests.support.browsers import BROWSERS
from tests.web.packages import IMAGE, RATE, REFUSALS, TEXTS, features, write_minilm, write_silero
from tests.web.pages import Case, bundled, model_of, run
from tests.web.visitors import Visitor, open_visitor

pytestmark = pytest.mark.slow

DIGITS = assets() / "digits.onnx"
LISTED = ["silero-vad", "ppocr4-det", "ppocr4-rec", "minilm-l6-int8", "magika"]
NESTED = ("chromium", "webkit")
"""Where a worker may start others while a driver listens. Firefox wakes one of two that wait for that: the other one,
which started it, waits for ever, once in some hundred times. Without a driver or developer tools none of them waits."""
THREADS = """async (worker) => {
    const { Tensor, load } = await import("/sardonyx/runtime.js");
    const session = await load("/data/digits.sdx", { target: "wasm", threads: 2, worker });
    const image = new Tensor("float32", new Float32Array(784).fill(0.5), [1, 1, 28, 28]);
    let count = session.threads;
    for (let k = 0; k < 1000 && count < 2 && globalThis.SharedArrayBuffer; k++) {
        await new Promise((resolve) => setTimeout(resolve, 20));  // a thread takes a while to start
        await session.run({ image });
        count = session.threads;
    }
    const { probabilities } = await session.run({ image });
    session.release();
    return [count, [...probabilities.data]];
}"""
WEBGPU = "async () => Boolean(await navigator.gpu?.requestAdapter())"


@pytest.fixture(scope="module", params=BROWSERS)
def visitor(request: pytest.FixtureRequest) -> Iterator[Visitor]:
    require("browser" if request.param == "chromium" else request.param)
    with open_visitor(request.param) as opened:
        yield opened


@pytest.fixture(scope="module")
def digits() -> bytes:
    return bundled(DIGITS, {}, ["wasm", "webgpu"], compress=True)


def test_a_bundle(visitor: Visitor, digits: bytes) -> None:
    rng = np.random.default_rng(0)
    feeds = [{"image": rng.random((count, 1, 28, 28), np.float32)} for count in (1, 3, 1)]
    session = onnxruntime.InferenceSession(DIGITS)
    found = run(visitor, [Case(digits, each) for each in feeds], "wasm", threads=2 if visitor.name in NESTED else 1)
    for given, answer in zip(feeds, found, strict=True):
        assert not isinstance(answer, str), answer
        np.testing.assert_allclose(answer[0], session.run(None, given)[0], rtol=1e-4, atol=1e-6)
        if visitor.name != "webkit":  # which has no relaxed SIMD
            np.testing.assert_array_equal(answer[0], InferenceSession(digits).run(None, given)[0])


def test_threads(visitor: Visitor, digits: bytes) -> None:
    visitor.site.data["digits.sdx"] = digits
    page = visitor.page
    page.open(f"{visitor.site.address}/support/page.html")
    page.lines.clear()
    count, answer = page.evaluate(THREADS, visitor.name in NESTED)
    (wanted,) = onnxruntime.InferenceSession(DIGITS).run(None, {"image": IMAGE})
    np.testing.assert_allclose([answer], wanted, rtol=1e-4, atol=1e-6)
    alone = visitor.name == "webkit"
    assert count == (1 if alone else 2)
    said = [line for line in page.lines if "sardonyx" in line]
    assert said == ["info: sardonyx: one thread, since there is no SharedArrayBuffer here"] * alone


def test_broken_files_say_so(visitor: Visitor, digits: bytes) -> None:
    wrong = {"image": np.zeros((1, 1, 27, 28), np.float32)}
    cases = [Case(digits[:2000], {}), Case(b"no", {}), Case(digits, wrong), Case(digits, {})]
    cut, none, misfed, missing = run(visitor, cases, "wasm")
    assert str(cut).startswith("/data/0.sdx is cut off after ")
    assert str(none).startswith("/data/1.sdx is no bundle: make one with `sardonyx compile")
    assert misfed == 'input "image" wants [N,1,28,28], but axis 2 is 27, not 28'
    assert missing == 'input "image" (float32[N,1,28,28]) is missing from the feeds'


def picture_bundle(fit: str) -> bytes:
    """Of a model that gives what its picture becomes."""
    data = model_of("g (float[1,3,24,32] x) => (float[1,3,24,32] y) { y = Identity (x) }")
    return bundled(write(with_pictures(read(data), [Picture("x", fit=fit)])), {}, ["wasm"])


def test_a_picture_as_it_comes(visitor: Visitor) -> None:
    """From the same bytes a page makes what Python does."""
    bundle = picture_bundle("cover")
    rng = np.random.default_rng(0)
    feeds = [{"x": rng.integers(0, 256, (*size, 4), np.uint8)} for size in ((120, 200), (90, 40), (7, 9))]
    found = run(visitor, [Case(bundle, each) for each in feeds], "wasm")
    session = InferenceSession(bundle)
    for given, answer in zip(feeds, found, strict=True):
        assert not isinstance(answer, str), answer
        np.testing.assert_allclose(answer[0], session.run(None, given)[0], atol=1e-6)
        if visitor.name != "webkit":  # which has no relaxed SIMD
            np.testing.assert_array_equal(answer[0], session.run(None, given)[0])


CANVAS = """async () => {
    const { Tensor, load } = await import("/sardonyx/runtime.js");
    const canvas = Object.assign(document.createElement("canvas"), { width: 90, height: 50 });
    const brush = canvas.getContext("2d");
    brush.fillStyle = "rgb(50, 100, 200)";
    brush.fillRect(0, 0, 90, 50);
    const { data, width, height } = brush.getImageData(0, 0, 90, 50);
    const session = await load("/data/picture.sdx", { worker: false });
    const { y } = await session.run({ x: new Tensor("uint8", data, [height, width, 4]) });
    session.release();
    return [y.dims, [...y.data]];
}"""


def test_a_canvas_is_a_picture(visitor: Visitor) -> None:
    visitor.site.data["picture.sdx"] = picture_bundle("contain")
    visitor.page.open(f"{visitor.site.address}/support/page.html")
    dims, data = visitor.page.evaluate(CANVAS)
    assert dims == [1, 3, 24, 32]
    image = np.reshape(data, dims)[0]
    rows = 50 * 32 / 90  # of 24: the others are bars
    assert (image[:, : int(12 - rows / 2)] == 0).all()
    middle = image[:, int(13 - rows / 2) : int(11 + rows / 2)]
    np.testing.assert_allclose(
        middle, np.broadcast_to(np.reshape([50, 100, 200], (3, 1, 1)) / 255, middle.shape), atol=1e-5
    )


def test_onnxruntimes_interface(visitor: Visitor, digits: bytes) -> None:
    visitor.site.data["digits.onnx"] = digits
    told = visitor.ask("surface")
    (wanted,) = onnxruntime.InferenceSession(DIGITS).run(None, {"image": IMAGE})
    np.testing.assert_allclose(told["answers"], np.broadcast_to(wanted, (6, 10)), rtol=1e-4, atol=1e-6)
    assert told["names"] == [["image"], ["probabilities"]]
    assert told["instances"] == [True, True]
    assert told["refusals"] == REFUSALS


@pytest.mark.nightly
def test_webgpu(visitor: Visitor, digits: bytes) -> None:
    """Where a browser has none, that is said."""
    visitor.page.open(f"{visitor.site.address}/support/page.html")
    given = {"image": IMAGE}
    (answer,) = run(visitor, [Case(digits, given)], "webgpu")
    if not visitor.page.evaluate("async () => Boolean(await navigator.gpu?.requestAdapter())"):
        assert visitor.name == "webkit"
        assert "WebGPU" in str(answer)
        return
    assert not isinstance(answer, str), answer
    (wanted,) = onnxruntime.InferenceSession(DIGITS).run(None, given)
    np.testing.assert_allclose(answer[0], wanted, rtol=1e-3, atol=1e-5)


@pytest.mark.nightly
@pytest.mark.parametrize("id", LISTED)
def test_listed_models(visitor: Visitor, id: str) -> None:
    feeds = models.inputs(id)
    bundle = bundled(models.path(id), feeds, ["wasm"])
    for threads in (1, 2) if visitor.name in NESTED else (1,):
        (answer,) = run(visitor, [Case(bundle, feeds)], "wasm", threads)
        assert not isinstance(answer, str), answer
        models.assert_close(id, answer, models.reference(id))


@pytest.mark.nightly
def test_transformers_extracts_features(visitor: Visitor) -> None:
    write_minilm(visitor.site)
    told = visitor.ask("features", [*TEXTS])
    wanted = features()
    np.testing.assert_allclose(np.reshape(told["data"], wanted.shape), wanted, atol=1e-4)


@pytest.mark.nightly
def test_vad_web_hears_voices(visitor: Visitor) -> None:
    wanted = write_silero(visitor.site)
    np.testing.assert_allclose(visitor.ask("voices", RATE)["heard"], wanted, atol=1e-4)
