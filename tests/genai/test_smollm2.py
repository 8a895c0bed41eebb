"""A real model writes the same here and with onnxruntime-genai."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import sardonyx
from sardonyx import genai
from tests.benchmarks import fresh
from tests.engine.providers import PROVIDERS, require_provider
from tests.genai import smollm2
from tests.genai.sides import agree, finish, generator, ours, theirs, written
from tests.genai.test_guidance import COMPACT, SCHEMAS
from tests.models.chat import ANSWER, PROMPT
from tests.support.memory import STATUS, private

pytestmark = pytest.mark.slow
WASM = "WasmExecutionProvider"
CHATS = [PROMPT, PROMPT[21:], [1, 4093, 198, 28120, 260, 2767, 2, 198, 1, 520, 9531, 198]]
OPTIONS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "penalty": {"repetition_penalty": 1.2, "min_length": 70},
    "ngrams": {"no_repeat_ngram_size": 3, "chunk_size": 7},
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[genai.Model, Any]]:
    """The decoder of 4 bits with com.microsoft's operators, on both sides."""
    folder = smollm2.folder(tmp_path_factory.mktemp("smollm2"))
    yield ours(folder, WASM), theirs(folder)
    gc.collect()


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_the_same_tokens(options: dict[str, Any], models: tuple[genai.Model, Any]) -> None:
    one, other = (generator(model, PROMPT, max_length=80, **options) for model in models)
    agree(one, other)
    assert one.get_sequence(0).tolist() == other.get_sequence(0).tolist()
    if not options:
        assert one.get_sequence(0).tolist()[len(PROMPT) :][: len(ANSWER)] == ANSWER


def test_the_same_beams(models: tuple[genai.Model, Any]) -> None:
    options = {"num_beams": 3, "num_return_sequences": 3, "max_length": 45, "length_penalty": 0.5}
    one, other = (written(model, PROMPT[21:], **options) for model in models)
    assert one == other


def test_the_same_batch(models: tuple[genai.Model, Any]) -> None:
    """The padding of this model is its end, which stands in prompts as well."""
    model, _ = models
    most = max(map(len, CHATS))
    rows = [chat + [2] * (most - len(chat)) for chat in CHATS]
    together = written(model, rows, batch_size=3, max_length=most + 16)
    for chat, row in zip(CHATS, together):
        alone = written(model, chat, max_length=len(chat) + 16)[0][len(chat) :]
        assert row[most : most + len(alone)] == alone


def test_a_chat(models: tuple[genai.Model, Any]) -> None:
    """From messages to words, and a second question that goes on from the first."""
    model, _ = models
    tokenizer = genai.Tokenizer(model)
    text = tokenizer.apply_chat_template([{"role": "user", "content": "What is the capital of France?"}])
    assert tokenizer.encode(text).tolist() == PROMPT
    made = finish(generator(model, PROMPT, max_length=80))
    stream = tokenizer.create_stream()
    answer = "".join(stream.decode(token) for token in made.get_sequence(0)[len(PROMPT) :])
    assert answer.startswith("The capital of France is Paris")
    params = genai.GeneratorParams(model)
    params.set_search_options(max_length=120)
    params.set_guidance("json_schema", json.dumps(SCHEMAS["object"] | {"x-guidance": {"whitespace_flexible": False}}))
    guided = genai.Generator(model, params)
    guided.append_tokens(PROMPT)
    finish(guided)
    found = json.loads(tokenizer.decode(guided.get_sequence(0)[len(PROMPT) :]))
    jsonschema.validate(found, SCHEMAS["object"])


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["int4-std", "fp16-op23"])
def test_other_decoders(kind: str, tmp_path: Path) -> None:
    """onnxruntime is told to rearrange nothing, which would round weights of 4 bits, and activations, once more."""
    folder = smollm2.folder(tmp_path, kind)
    config = json.loads((folder / "genai_config.json").read_text())
    config["model"]["decoder"]["session_options"]["graph_optimization_level"] = "ORT_DISABLE_ALL"
    (folder / "genai_config.json").write_text(json.dumps(config))
    one = generator(ours(folder, WASM), PROMPT, max_length=60)
    assert agree(one, generator(theirs(folder), PROMPT, max_length=60), tolerance=0.01) >= 8


def used_by_texts(folder: str, provider: str, chats: list[list[int]], count: int, new: int) -> list[int]:
    """Have so many texts written by one session; the bytes that this process has of its own after each ten of them."""
    model, used = ours(Path(folder), provider), []
    for text in range(count):
        chat = chats[text % len(chats)]
        options = {"do_sample": text % 2 == 1, "random_seed": text, "max_length": len(chat) + new}
        made = finish(generator(model, chat, **options))
        made.rewind_to(0)
        del made
        if text % 10 == 9:
            gc.collect()
            used.append(private())
    return used


def flat(folder: Path, provider: str, chats: list[list[int]], new: int, growth: float) -> None:
    """A thousand texts by one session: the second half takes no more memory than the first fifth did.

    The process is a fresh one, in which nothing else begins, ends or is collected meanwhile.
    """
    if not STATUS.exists():
        pytest.skip("only Linux tells here how much memory there is")
    used = fresh.call(__name__, "used_by_texts", str(folder), provider, chats, 1000, new)
    assert len(used) == 100
    assert max(used[50:]) < max(used[:20]) + growth, [round(each / 1e6, 1) for each in used]


@pytest.mark.nightly
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("kind", ["grouped", "plain"])
def test_a_thousand_small_texts(kind: str, provider: str, folders: dict[str, Path]) -> None:
    require_provider(provider)
    flat(folders[kind], provider, [[5, 9, 3], [7] * 70, [4, 8, 15, 16, 23, 42]], 8, growth=4e6)


@pytest.mark.nightly
def test_a_thousand_texts(tmp_path: Path) -> None:
    flat(smollm2.folder(tmp_path), WASM, CHATS[1:], 4, growth=20e6)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", SCHEMAS)
def test_texts_of_a_schema(kind: str, models: tuple[genai.Model, Any]) -> None:
    """Ten for each, drawn: all of them are valid. What refers to itself may be longer than there is room for, as may
    the digits of a fraction, which is valid wherever it is cut off.
    """
    model, tokenizer = models[0], genai.Tokenizer(models[0])
    params = genai.GeneratorParams(model)
    params.set_guidance("json_schema", json.dumps(SCHEMAS[kind] | COMPACT))
    ended, most = 0, 140
    for seed in range(40 if kind == "recursive" else 10):
        params.set_search_options(max_length=most, do_sample=True, temperature=1.0, random_seed=seed)
        made = genai.Generator(model, params)
        made.append_tokens(CHATS[2])
        tokens = finish(made).get_sequence(0)
        if len(tokens) < most or kind == "exclusive":
            jsonschema.validate(json.loads(tokenizer.decode(tokens[len(CHATS[2]) :])), SCHEMAS[kind])
            ended += 1
        if ended == 10:
            break
    assert ended == 10


def test_nothing_is_imported_before_it_is_used() -> None:
    import subprocess
    import sys

    script = "import sys, sardonyx; assert not [n for n in sys.modules if 'genai' in n or 'tokenizers' in n]"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=500)
    assert "genai" not in dir(sardonyx)
