"""Pages written for onnxruntime-web, on Sardonyx by an import map: its interface, and packages that use it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from sardonyx.demo import assets
from tests import models
from tests.support.browser import Chromium
from tests.support.smollm2 import FILES
from tests.web.ort_pages import ask, ort_site
from tests.web.packages import IMAGE, RATE, REFUSALS, TEXTS, features, write_minilm, write_silero
from tests.web.pages import bundled, model_of

pytestmark = pytest.mark.slow

DIGITS = assets() / "digits.onnx"
PROMPT = [504, 3575, 282, 4649, 314]
LAYERS = 30


site_folders = ort_site("transformers", "vad")


@pytest.fixture(scope="module")
def digits(chromium: Chromium) -> bytes:
    data = bundled(DIGITS, {}, ["wasm"], compress=True)
    chromium.site.data["digits.onnx"] = data
    return data


def test_the_interface(chromium: Chromium, digits: bytes) -> None:
    told = ask(chromium, "surface")
    (wanted,) = onnxruntime.InferenceSession(DIGITS).run(None, {"image": IMAGE})
    np.testing.assert_allclose(told["answers"], np.broadcast_to(wanted, (6, 10)), rtol=1e-4, atol=1e-6)
    assert told["names"] == [["image"], ["probabilities"]]
    open_, fixed = told["metadata"]
    (dim, *_) = open_[0]["shape"]
    assert open_ == [{"name": "image", "isTensor": True, "type": "float32", "shape": [dim, 1, 28, 28]}]
    assert isinstance(dim, str)
    assert fixed[0]["shape"] == [1 if dim == "N" else dim, 1, 28, 28]
    assert told["instances"] == [True, True]
    assert told["location"] == "cpu"
    assert told["refusals"] == REFUSALS


@pytest.mark.parametrize(("type_", "wide"), [("int4", "int8"), ("uint4", "uint8")])
def test_two_elements_of_four_bits_are_in_a_byte(type_: str, wide: str, chromium: Chromium) -> None:
    """As onnxruntime-web takes them, which gives none, and as .onnx files have them."""
    packed = [0x21, 0xF3, 0x0D]
    narrow, widened = (onnx.TensorProto.DataType.Value(name.upper()) for name in (type_, wide))
    texts = {
        "widen": f"g ({type_}[N] x) => ({wide}[N] y) {{ y = Cast <to = {widened}> (x) }}",
        "narrow": f"g ({wide}[N] y) => ({type_}[N] x) {{ x = Cast <to = {narrow}> (y) }}",
    }
    chromium.site.data |= {f"{name}.onnx": bundled(model_of(text), {}, ["wasm"]) for name, text in texts.items()}
    proto = onnx.load_from_string(model_of(f"g () => ({wide}[5] y) {{ y = Cast <to = {widened}> (x) }}"))
    proto.graph.initializer.append(onnx.helper.make_tensor("x", narrow, [5], bytes(packed), raw=True))
    (wanted,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {})
    assert ask(chromium, "fours", type_, packed, 5) == [wanted.tolist(), [5], packed, packed]


def test_where_the_code_comes_from(chromium: Chromium, digits: bytes) -> None:
    digest = hashlib.sha256(DIGITS.read_bytes()).hexdigest()
    chromium.site.data["plain.onnx"] = chromium.site.data["beside.onnx"] = DIGITS
    chromium.site.data["beside.onnx.sdx"] = digits
    chromium.site.data["app.html"] = b"<!doctype html><title>an app</title>"
    chromium.site.data["sardonyx.json"] = json.dumps({"bundles": {digest: "digits.onnx"}}).encode()
    chromium.site.data["empty.json"] = b"{}"
    told = ask(chromium, "sources", digest)
    assert told["inputs"] == 8 * [["image"]]
    assert told["none"].startswith(
        "/data/plain.onnx is no bundle, and none is known for it: serve what `sardonyx compile`"
    )
    assert told["fallen"] == told["none"]
    assert told["gone"] == "/data/gone.onnx: the server answers 404 Not Found"
    assert told["page"] == "/data/app.html is HTML: is its address right?"
    index = "is no index of bundles: `sardonyx compile --site DIR` writes one, sardonyx.json"
    assert told["wrong"] == [
        f"/data/app.html {index}",
        f"/data/empty.json {index}",
        "env.sardonyx.bundles needs crypto.subtle: serve the page by HTTPS, or from localhost",
    ]


def test_providers_fall_through(chromium: Chromium, digits: bytes) -> None:
    told = ask(chromium, "providers")
    assert [text.partition(":")[0] for text in told["warned"]] == [
        'removing requested execution provider "webgl" from session options because it is not available',
    ]
    assert "no available backend found" in told["none"]


def test_options(chromium: Chromium, digits: bytes) -> None:
    told = ask(chromium, "options")
    assert told["last"] == {"stage": "weights", "loaded": len(digits), "total": len(digits)}
    assert told["ended"] == "AbortError"
    assert told["alone"] == 0 < told["workers"]
    assert told["terminated"] == "the run was ended before it began: its option terminate is set"
    assert told["measures"] == 1


def test_transformers_extracts_features(chromium: Chromium) -> None:
    write_minilm(chromium.site)
    told = ask(chromium, "features", [*TEXTS])
    wanted = features()
    assert told["dims"] == list(wanted.shape)
    np.testing.assert_allclose(np.reshape(told["data"], wanted.shape), wanted, atol=1e-4)


def test_vad_web_hears_voices(chromium: Chromium) -> None:
    wanted = write_silero(chromium.site)
    told = ask(chromium, "voices", RATE)
    np.testing.assert_allclose(told["heard"], wanted, atol=1e-4)
    assert all(0 <= start < end <= 3000 for start, end in told["found"])


@pytest.mark.nightly
@pytest.mark.parametrize("device", ["wasm", "webgpu"])
def test_transformers_generates_text(chromium: Chromium, device: str, tmp_path: Path) -> None:
    from sardonyx.api.bundling import bundle_of
    from sardonyx.plans.plan_cache import Source

    file = models.path("smollm2-int4-contrib-decode")
    sizes = {"B": "1", "S": "?16", "P": "?16", "T": "P+S"}
    bundle = tmp_path / "model.sdx"
    bundle.write_bytes(b"".join(bundle_of(Source(file), [device], sizes=sizes)))
    chromium.site.data["smollm2/onnx/model_q4.onnx"] = bundle
    for name, told in FILES.items():
        chromium.site.data[f"smollm2/{name}"] = json.dumps(told).encode()
    count = 12 if device == "wasm" else 4
    text = ask(chromium, "generated", " ".join(f"w{number}" for number in PROMPT), count, device, limit=600)
    assert [int(word[1:]) for word in text.split()] == [*PROMPT, *greedy(file, count)]


def greedy(file: Path, count: int) -> list[int]:
    """What onnxruntime finds likeliest after the prompt."""
    session = onnxruntime.InferenceSession(file)
    names = [f"{layer}.{kind}" for layer in range(LAYERS) for kind in ("key", "value")]
    cache = {f"past_key_values.{name}": np.zeros((1, 3, 0, 64), np.float32) for name in names}
    tokens, found = PROMPT, list[int]()
    for _ in range(count):
        mask = np.ones((1, len(PROMPT) + len(found)), np.int64)
        outputs = ["logits", *(f"present.{name}" for name in names)]
        logits, *present = session.run(outputs, {"input_ids": np.array([tokens]), "attention_mask": mask, **cache})
        cache = dict(zip(cache, present))
        tokens = [int(logits[0, -1].argmax())]
        found += tokens
    return found
