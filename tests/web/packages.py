"""What packages that use onnxruntime-web are given in tests of pages, and what onnxruntime makes of the same."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime

from tests import models
from tests.models.feeds import voice
from tests.support.browser import Site
from tests.support.npm import package
from tests.web.pages import bundled

IMAGE = np.full((1, 1, 28, 28), 0.5, np.float32)
REFUSALS = [
    "input 'image' is missing in 'feeds'.",
    'input "image" wants float32, not int64',
    "input 'image' is no Tensor: make one, new Tensor(type, data, dims)",
    "input 'image' is no Tensor: make one, new Tensor(type, data, dims)",
    "input 'image' was disposed of",
    "'fetches' contains invalid output name: no.",
    "output 'probabilities' is float32[1,10], for which a tensor float32[1] has no room",
    "this session was released",
]
"""Of `tasks.surface`."""
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "world", "red", "green", "blue", "cat", "dog", "##s"]
TEXTS = {"hello world": [2, 5, 6, 3], "red cats": [2, 7, 10, 12, 3]}
MINILM = "minilm-l6-int8"
RATE, FRAME = 16000, 1536


def write_minilm(site: Site, target: str = "wasm") -> None:
    """Have the model that `tasks.features` takes, and its tokenizer."""
    site.data["minilm/onnx/model_quantized.onnx"] = bundled(models.path(MINILM), {}, [target])
    write_bert(site, "minilm")


def features() -> npt.NDArray[Any]:
    """What `tasks.features` gives for `TEXTS`."""
    length = max(map(len, TEXTS.values()))
    ids = np.array([[*row, *(length - len(row)) * [0]] for row in TEXTS.values()], np.int64)
    mask = (np.arange(length) < np.array([[len(row)] for row in TEXTS.values()])).astype(np.int64)
    session = onnxruntime.InferenceSession(models.path(MINILM))
    (hidden, *_) = session.run(None, {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)})
    pooled = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
    answer: npt.NDArray[Any] = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
    return answer


def write_silero(site: Site) -> list[float]:
    """Have the model and the sound that `tasks.voices` takes, and return what is heard in each frame."""
    model = package("@ricky0123/vad-web") / "dist" / "silero_vad_legacy.onnx"
    rng = np.random.default_rng(0)
    audio = np.concatenate([voice(rng, (24000,), RATE), 1e-3 * rng.normal(size=24000)]).astype(np.float32)
    state = np.zeros((2, 1, 64), np.float32)
    feeds = {"input": audio[None, :FRAME], "h": state, "c": state, "sr": np.array(RATE)}
    site.data["silero.onnx"] = bundled(model, feeds, ["wasm"])
    site.data["voice"] = audio.tobytes()
    session = onnxruntime.InferenceSession(model)
    found = []
    for frame in audio[: len(audio) // FRAME * FRAME].reshape(-1, 1, FRAME):
        heard, feeds["h"], feeds["c"] = session.run(["output", "hn", "cn"], {**feeds, "input": frame})
        found.append(heard.item())
    return found


def write_bert(site: Site, name: str) -> None:
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
    write(site, name, {"model_type": "bert"}, tokenizer, {"tokenizer_class": "BertTokenizer", "pad_token": "[PAD]"})


def write(site: Site, name: str, config: Any, tokenizer: Any, told: Any) -> None:
    files = {"config": config, "tokenizer": tokenizer, "tokenizer_config": {"model_max_length": 2048, **told}}
    for file, data in files.items():
        site.data[f"{name}/{file}.json"] = json.dumps(data).encode()
