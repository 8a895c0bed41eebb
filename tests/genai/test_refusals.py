"""What onnxruntime-genai refuses by RuntimeError is refused by an error that is one, too, and says more."""

from __future__ import annotations

import json
import re
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime_genai
import pytest

from sardonyx import genai
from sardonyx.errors import InvalidValue, NoSuchFile, SardonyxError
from sardonyx.genai import gguf, gguf_tokenizer
from tests.genai.sides import generator, ours
from tests.genai.tiny import VOCABULARY, Tiny

Pair = Callable[..., tuple[genai.Model, Any]]
SIDES = [genai, onnxruntime_genai]


def both(action: Callable[[Any], Any], text: str) -> None:
    """Both sides refuse; ours by this text."""
    for side in SIDES:
        with pytest.raises(RuntimeError) as caught:
            action(side)
        assert side is not genai or re.search(text, str(caught.value))


def test_folders_and_files(tmp_path: Path) -> None:
    both(lambda side: side.Model(str(tmp_path / "none")), "none does not exist")
    both(lambda side: side.Config(str(tmp_path / "none")), "none does not exist")
    folder = Tiny().save(tmp_path / "model")
    both(lambda side: side.Tokenizer(side.Model(str(folder))), r"no tokenizer\.json")
    for contents in (b"garbage", b""):
        (folder / "model.onnx").write_bytes(contents)
        both(lambda side: side.Model(str(folder)), r"model\.onnx")
    (folder / "model.onnx").unlink()
    both(lambda side: side.Model(str(folder)), r"model\.onnx does not exist")
    with pytest.raises(NoSuchFile):
        genai.Model(folder)


@pytest.mark.parametrize(
    ("part", "name", "text"),
    [
        ("inputs", "input_ids", "calls input_ids 'other'"),
        ("outputs", "logits", "calls logits 'other', which the model"),
    ],
)
def test_names_that_the_model_lacks(part: str, name: str, text: str, tmp_path: Path) -> None:
    folder = Tiny().save(tmp_path)
    config = json.loads((folder / "genai_config.json").read_text())
    config["model"]["decoder"][part][name] = "other"
    (folder / "genai_config.json").write_text(json.dumps(config))
    both(lambda side: generator(side.Model(str(folder)), [5], max_length=3), text)


@pytest.mark.parametrize("change", [{"max_length": "x"}, {"max_lenght": 9}, {"do_sample": 1}], ids=str)
def test_overlays(change: dict[str, Any], tmp_path: Path) -> None:
    folder = Tiny().save(tmp_path)
    both(lambda side: side.Config(str(folder)).overlay(json.dumps({"search": change})), "search option")


@pytest.mark.parametrize("options", [{"temperature": "1"}, {"min_length": True}, {"top_p": None}], ids=str)
def test_types_of_options(options: dict[str, Any], pair: Pair) -> None:
    for model, side in zip(pair(), SIDES, strict=True):
        params = side.GeneratorParams(model)
        with pytest.raises(RuntimeError):
            params.set_search_options(**options)


@pytest.mark.parametrize("token", [VOCABULARY, -VOCABULARY - 1])
def test_tokens_that_there_are_not(token: int, pair: Pair) -> None:
    for model in pair():
        made = generator(model, [5, 6], max_length=10)
        with pytest.raises(RuntimeError):
            made.append_tokens(np.array([7, token], np.int32))
    one = generator(pair()[0], [5, 6], max_length=10)
    with pytest.raises(RuntimeError, match=f"{token} is no token of the model, which has {VOCABULARY}"):
        one.append_tokens([7, token])
    assert one.token_count() == 2


def test_logits_of_another_size(pair: Pair) -> None:
    for model in pair():
        made = generator(model, [5, 6], max_length=10)
        for shape in ((1, 1, 5), (2, 1, VOCABULARY)):
            with pytest.raises(RuntimeError):
                made.set_logits(np.zeros(shape, np.float32))
        made.generate_next_token()
        assert made.token_count() == 3


def test_a_generator_that_is_told_to_end(pair: Pair) -> None:
    for model in pair():
        made = generator(model, [5, 6], max_length=10)
        made.set_runtime_option("terminate_session", "1")
        with pytest.raises(RuntimeError):
            made.append_tokens(np.array([7], np.int32))
        with pytest.raises(RuntimeError):
            made.set_runtime_option("terminate_session", "yes")
    one = generator(pair()[0], [5, 6], max_length=10)
    one.set_runtime_option("terminate_session", "1")
    with pytest.raises(RuntimeError, match="terminate_session is '1'"):
        one.append_tokens([7])
    one.set_runtime_option("terminate_session", "0")
    one.append_tokens([7])
    assert one.token_count() == 3


def guided(side: Any, model: Any) -> Any:
    params = side.GeneratorParams(model)
    params.set_guidance("regex", "")
    return side.Generator(model, params)


def test_a_grammar_without_text(pair: Pair) -> None:
    for model, side in zip(pair(), SIDES, strict=True):
        with pytest.raises(RuntimeError):
            guided(side, model)


def test_tensors_by_name() -> None:
    for side in SIDES:
        tensors = side.NamedTensors()
        tensors["a"] = np.ones(2, np.float32)
        with pytest.raises(RuntimeError):
            tensors["b"]
        del tensors["b"]
        assert len(tensors) == 1
        with pytest.raises(RuntimeError):
            side.Tensor(np.array(["a"]))


def test_a_token_below_zero(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models

    Tokenizer(models.WordLevel({"a": 0, "b": 1}, "a")).save(str(Tiny().save(tmp_path) / "tokenizer.json"))
    tokenizer = genai.Tokenizer(ours(tmp_path))
    assert tokenizer.decode([0, 1]) == "a b"
    with pytest.raises(RuntimeError, match="-1 is no token"):
        tokenizer.decode([0, -1])


CHANGES = [
    ({"model": "x"}, "model is 'x', and should be an object"),
    ({"model": {"pad_token_id": [1]}}, "model.pad_token_id is .*, and should be a whole number"),
    ({"model": {"eos_token_id": [2**31]}}, r"model.eos_token_id\[0\] is"),
    ({"model": {"context_length": "long"}}, "model.context_length is 'long'"),
    ({"model": {"decoder": {"filename": True}}}, "model.decoder.filename is 'True', and should be text"),
    ({"model": {"decoder": {"inputs": 0}}}, "model.decoder.inputs is '0'"),
    ({"model": {"decoder": {"outputs": {"logits": []}}}}, "model.decoder.outputs.logits is"),
    ({"model": {"decoder": {"session_options": {"provider_options": {"a": {}}}}}}, "provider_options is"),
    ({"search": [1]}, "search is"),
    ({"model": {"decoder": {"filename": "n" * 5000}}}, "does not exist"),
]


def merge(below: dict[str, Any], above: dict[str, Any]) -> None:
    """Put values over others, deeply."""
    for name, value in above.items():
        if isinstance(value, dict) and isinstance(below.get(name), dict):
            merge(below[name], value)
        else:
            below[name] = value


@pytest.mark.parametrize(("change", "text"), CHANGES, ids=[text for _, text in CHANGES])
def test_configurations_of_other_kinds(change: dict[str, Any], text: str, tmp_path: Path) -> None:
    folder = Tiny().save(tmp_path)
    file = folder / "genai_config.json"
    told = json.loads(file.read_text())
    merge(told, change)
    file.write_text(json.dumps(told))
    with pytest.raises(SardonyxError, match=text):
        genai.Model(folder)


def test_nulls_are_left_out(tmp_path: Path) -> None:
    folder = Tiny().save(tmp_path)
    file = folder / "genai_config.json"
    told = json.loads(file.read_text())
    merge(told, {"model": {"pad_token_id": None, "vocab_size": None}})
    file.write_text(json.dumps(told))
    assert generator(genai.Model(folder), [5], max_length=3).get_sequence(0).tolist()[0] == 5


@pytest.mark.parametrize(
    ("name", "contents", "text"),
    [
        ("tokenizer.json", b"{}", "tokenizer.json of .* cannot be read: "),
        ("tokenizer.json", b"\xff", "tokenizer.json is no text in UTF-8"),
        ("tokenizer_config.json", b"[" * 100_000, "tokenizer_config.json is no JSON: "),
        ("tokenizer_config.json", b'{"chat_template": [1]}', r"chat_template\[0\] is '1'"),
        ("tokenizer_config.json", b'{"bos_token": 7}', "bos_token is '7', and should be an object"),
    ],
)
def test_tokenizers_that_are_broken(name: str, contents: bytes, text: str, tmp_path: Path) -> None:
    folder = Tiny().save(tmp_path)
    (folder / "tokenizer.json").write_text('{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}')
    genai.Tokenizer(str(folder))
    (folder / name).write_bytes(contents)
    with pytest.raises(InvalidValue, match=text):
        genai.Tokenizer(str(folder))
    (folder / name).unlink()
    (folder / name).mkdir()
    with pytest.raises(NoSuchFile, match=f"{name} cannot be read: Is a directory"):
        genai.Tokenizer(str(folder))


def gguf_of(*values: bytes) -> bytes:
    """A GGUF file of values, each with its key and kind."""
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(values)) + b"".join(values)


def gguf_text(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (gguf_of(gguf_text("x") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 20_000), "ends, or is broken"),
        (gguf_of(gguf_text("x") + struct.pack("<IQ", 8, 1 << 29)), "ends, or is broken"),
        (gguf_of(gguf_text("tokenizer.chat_template") + struct.pack("<II", 4, 1)), "tokenizer.chat_template is '1'"),
        (
            gguf_of(gguf_text("tokenizer.ggml.model") + struct.pack("<I", 8) + gguf_text("gpt2")),
            "has no tokens and no merges",
        ),
    ],
    ids=["nested", "claims", "kind", "lacking"],
)
def test_gguf_files_that_are_broken(data: bytes, text: str, tmp_path: Path) -> None:
    file = tmp_path / "a.gguf"
    file.write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(InvalidValue, match=text):
            gguf_tokenizer.tokenizer(gguf.read(file))
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
    with pytest.raises(NoSuchFile, match="cannot be read"):
        gguf.read(tmp_path)
