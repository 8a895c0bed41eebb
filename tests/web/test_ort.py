"""Pages written for onnxruntime-web, on Sardonyx by an import map: its interface, and packages that use it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from sardonyx.demo import assets
from tests import models
from tests.models.feeds import voice
from tests.support.browser import Chromium
from tests.support.npm import package
from tests.support.smollm2 import FILES
from tests.web.ort_pages import ask, fixture
from tests.web.pages import bundled, model_of

pytestmark = pytest.mark.slow

DIGITS = assets() / "digits.onnx"
IMAGE = np.full((1, 1, 28, 28), 0.5, np.float32)
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "world", "red", "green", "blue", "cat", "dog", "##s"]
TEXTS = {"hello world": [2, 5, 6, 3], "red cats": [2, 7, 10, 12, 3]}
PROMPT = [504, 3575, 282, 4649, 314]
LAYERS = 30


chromium = fixture("transformers", "vad")


@pytest.fixture(scope="module")
def digits(chromium: Chromium) -> bytes:
    data = bundled(DIGITS, {}, ["wasm"], compress=True)
    chromium.site.data["digits.onnx"] = data
    return data


def test_the_interface(chromium: Chromium, digits: bytes) -> None:
    told = ask(chromium, "surface")
    (wanted,) = onnxruntime.InferenceSession(DIGITS).run(None, {"image": IMAGE})
    np.testing.assert_allclose(told["answers"], np.broadcast_to(wanted, (5, 10)), rtol=1e-4, atol=1e-6)
    assert told["names"] == [["image"], ["probabilities"]]
    open_, fixed = told["metadata"]
    (dim, *_) = open_[0]["shape"]
    assert open_ == [{"name": "image", "isTensor": True, "type": "float32", "shape": [dim, 1, 28, 28]}]
    assert isinstance(dim, str)
    assert fixed[0]["shape"] == [1 if dim == "N" else dim, 1, 28, 28]
    assert told["instances"] == [True, True]
    assert told["location"] == "cpu"
    assert told["refusals"] == [
        "input 'image' is missing in 'feeds'.",
        'input "image" wants float32, not int64',
        "'fetches' contains invalid output name: no.",
        "output 'probabilities' is float32[1,10], for which a tensor float32[1] has no room",
        "this session was released",
    ]


def test_where_the_code_comes_from(chromium: Chromium, digits: bytes) -> None:
    digest = hashlib.sha256(DIGITS.read_bytes()).hexdigest()
    chromium.site.data["plain.onnx"] = chromium.site.data["beside.onnx"] = DIGITS
    chromium.site.data["beside.onnx.sdx"] = digits
    chromium.site.data["sardonyx.json"] = json.dumps({"bundles": {digest: "digits.onnx"}}).encode()
    told = ask(chromium, "sources", digest)
    assert told["inputs"] == 5 * [["image"]]
    assert told["none"].startswith(
        "/data/plain.onnx is no bundle, and none is known for it: serve what `sardonyx compile`"
    )
    assert told["gone"] == "/data/gone.onnx: the server answers 404 Not Found"


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


def test_tensors_stay_on_the_gpu(chromium: Chromium) -> None:
    text = "g (float[N] x, float[N] before) => (float[N] y, float[N] twice) { y = Add (x, before) twice = Add (y, y) }"
    chromium.site.data["sum.onnx"] = bundled(model_of(text), {}, ["webgpu"])
    told = ask(chromium, "staying")
    assert told["places"] == ["gpu-buffer", *3 * ["gpu-buffer", "cpu"]]
    assert told["sum"] == [4, 8, 12]
    assert told["again"] == [5, 10, 15]
    assert told["refused"].startswith("input 'before' lies in gpu-buffer, where this session did not put it")


def test_transformers_extracts_features(chromium: Chromium) -> None:
    id = "minilm-l6-int8"
    chromium.site.data["minilm/onnx/model_quantized.onnx"] = bundled(models.path(id), {}, ["wasm"])
    write_bert(chromium, "minilm")
    told = ask(chromium, "features", [*TEXTS])
    length = max(map(len, TEXTS.values()))
    ids = np.array([[*row, *(length - len(row)) * [0]] for row in TEXTS.values()], np.int64)
    mask = (np.arange(length) < np.array([[len(row)] for row in TEXTS.values()])).astype(np.int64)
    session = onnxruntime.InferenceSession(models.path(id))
    (hidden, *_) = session.run(None, {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)})
    pooled = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
    pooled /= np.linalg.norm(pooled, axis=1, keepdims=True)
    assert told["dims"] == list(pooled.shape)
    np.testing.assert_allclose(np.reshape(told["data"], pooled.shape), pooled, atol=1e-4)


def write_bert(chromium: Chromium, name: str) -> None:
    """Have the files that transformers.js looks for beside a model: of a tokenizer with few words."""
    special = {token: {"id": token, "ids": [WORDS.index(token)], "tokens": [token]} for token in ("[CLS]", "[SEP]")}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": {"type": "BertNormalizer", "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
            ],
            "pair": [],
            "special_tokens": special,
        },
        "decoder": None,
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {word: number for number, word in enumerate(WORDS)},
        },
    }
    write(chromium, name, {"model_type": "bert"}, tokenizer, {"tokenizer_class": "BertTokenizer", "pad_token": "[PAD]"})


def write(chromium: Chromium, name: str, config: Any, tokenizer: Any, told: Any) -> None:
    files = {"config": config, "tokenizer": tokenizer, "tokenizer_config": {"model_max_length": 2048, **told}}
    for file, data in files.items():
        chromium.site.data[f"{name}/{file}.json"] = json.dumps(data).encode()


def test_vad_web_hears_voices(chromium: Chromium) -> None:
    model = package("@ricky0123/vad-web") / "dist" / "silero_vad_legacy.onnx"
    rng = np.random.default_rng(0)
    audio = np.concatenate([voice(rng, (24000,), 16000), 1e-3 * rng.normal(size=24000)]).astype(np.float32)
    state = np.zeros((2, 1, 64), np.float32)
    feeds = {"input": audio[None, :1536], "h": state, "c": state, "sr": np.array(16000)}
    chromium.site.data["silero.onnx"] = bundled(model, feeds, ["wasm"])
    chromium.site.data["voice"] = audio.tobytes()
    told = ask(chromium, "voices", 16000)
    session = onnxruntime.InferenceSession(model)
    wanted = []
    for frame in audio[: len(audio) // 1536 * 1536].reshape(-1, 1, 1536):
        heard, feeds["h"], feeds["c"] = session.run(["output", "hn", "cn"], {**feeds, "input": frame})
        wanted.append(heard.item())
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
