"""What onnxruntime-genai refuses by RuntimeError is refused by an error that is one, too, and says more."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime_genai
import pytest

from sardonyx import genai
from sardonyx.errors import NoSuchFile
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
