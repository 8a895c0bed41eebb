"""Searches choose the tokens that onnxruntime-genai chooses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sardonyx import genai
from sardonyx.errors import InvalidValue
from sardonyx.genai.beams import BeamSearch
from sardonyx.genai.search_options import SearchOptions
from sardonyx.genai.sequences import Sequences
from tests.engine.providers import NUMPY, PROVIDERS, require_provider
from tests.genai.conftest import KINDS
from tests.genai.sides import agree, generator, ours, theirs, written
from tests.genai.tiny import PAD, VOCABULARY, Tiny

Pair = Callable[..., tuple[genai.Model, Any]]
PROMPT = [5, 6, 7, 8, 9]
OPTIONS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "until-the-end": {"max_length": 200},
    "min-length": {"min_length": 45, "max_length": 60},
    "penalty": {"repetition_penalty": 1.3},
    "reward": {"repetition_penalty": 0.7},
    "ngrams": {"no_repeat_ngram_size": 2},
    "single-words": {"no_repeat_ngram_size": 1},
    "penalty-and-length": {"min_length": 45, "repetition_penalty": 1.5},
    "everything": {"min_length": 30, "repetition_penalty": 1.1, "no_repeat_ngram_size": 3},
    "chunks": {"chunk_size": 2},
    "drawn-from-one": {"do_sample": True, "top_k": 1},
    "cold": {"do_sample": True, "temperature": 0.0},
}
BEAMS: dict[str, dict[str, Any]] = {
    "two": {"num_beams": 2},
    "four": {"num_beams": 4, "num_return_sequences": 4},
    "longer": {"num_beams": 3, "num_return_sequences": 2, "length_penalty": 2.0},
    "shorter": {"num_beams": 3, "num_return_sequences": 3, "length_penalty": -1.0},
    "patient": {"num_beams": 4, "num_return_sequences": 4, "early_stopping": False},
    "patient-and-longer": {"num_beams": 3, "early_stopping": False, "length_penalty": 3.0},
    "penalty": {"num_beams": 3, "repetition_penalty": 1.2, "no_repeat_ngram_size": 2, "min_length": 20},
}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_likeliest_token_on_each_provider(provider: str, folders: dict[str, Path]) -> None:
    require_provider(provider)
    one = generator(ours(folders["plain"], provider), PROMPT, max_length=24)
    assert agree(one, generator(theirs(folders["plain"]), PROMPT, max_length=24)) >= 19


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_options(options: dict[str, Any], kind: str, pair: Pair) -> None:
    one, other = (generator(model, PROMPT, **{"max_length": 50, **options}) for model in pair(kind))
    assert agree(one, other) >= 10
    assert one.get_sequence(0).tolist() == other.get_sequence(0).tolist()


@pytest.mark.parametrize("name", ["min-length", "penalty", "reward", "ngrams", "single-words"])
def test_options_have_an_effect(name: str, pair: Pair) -> None:
    """Else the comparisons would say little."""
    models = [pair(kind)[0] for kind in ("plain", "grouped")]
    assert any(
        written(m, PROMPT, max_length=50) != written(m, PROMPT, **{"max_length": 50, **OPTIONS[name]}) for m in models
    )


@pytest.mark.parametrize("kind", ["plain", "grouped"])
@pytest.mark.parametrize("options", BEAMS.values(), ids=BEAMS)
@pytest.mark.parametrize("prompt", [PROMPT, [11, 3]], ids=["five", "two"])
def test_beams(prompt: list[int], options: dict[str, Any], kind: str, pair: Pair) -> None:
    one, other = (written(model, prompt, max_length=30, **options) for model in pair(kind))
    assert one == other
    assert len(one[0]) > len(prompt) + 2


def test_beams_of_a_batch(pair: Pair) -> None:
    """Each prompt gets what it gets alone."""
    model, _ = pair("plain")
    prompts = [[5, 6, 7], [11, 3, 30], [40, 41, 42]]
    options = {"max_length": 25, "num_beams": 3, "num_return_sequences": 2}
    alone = [row for prompt in prompts for row in written(model, prompt, **options)]
    together = written(model, prompts, batch_size=3, **options)
    assert [trimmed(row) for row in together] == [trimmed(row) for row in alone]


def trimmed(row: list[int]) -> list[int]:
    """A row without padding behind it."""
    while row and row[-1] == PAD:
        row = row[:-1]
    return row


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("options", ["greedy", "reward", "ngrams"])
def test_a_batch_of_eight_is_eight_single_ones(options: str, side: str, kind: str, pair: Pair) -> None:
    model, _ = pair(kind)
    draw = np.random.default_rng(3)
    prompts = [draw.integers(3, VOCABULARY, size).tolist() for size in (7, 1, 3, 7, 2, 5, 6, 4)]
    new = 20
    alone = [
        written(model, prompt, max_length=len(prompt) + new, **OPTIONS[options])[0][len(prompt) :] for prompt in prompts
    ]
    padding = [[PAD] * (7 - len(prompt)) for prompt in prompts]
    rows = [row + pad if side == "right" else pad + row for row, pad in zip(prompts, padding)]
    together = written(model, rows, batch_size=8, max_length=7 + new, **OPTIONS[options])
    for row, prompt, one, whole in zip(rows, prompts, alone, together):
        assert whole[:7] == row
        after = whole[7:]
        assert after[: len(one)] == one, prompt
        assert set(after[len(one) + 1 :]) <= {PAD}


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch(kind: str, pair: Pair) -> None:
    prompts = [[5, 6, 7, 8], [11, 3, 0, 0], [40, 41, 42, 0]]
    one, other = (generator(model, prompts, batch_size=3, max_length=30) for model in pair(kind))
    agree(one, other)
    for row in range(3):
        assert one.get_sequence(row).tolist() == other.get_sequence(row).tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_are_appended_to_what_was_written(kind: str, pair: Pair) -> None:
    """The rest is what follows the whole as a prompt. (onnxruntime-genai 0.18 leaves out the token written last.)"""
    model, other = pair(kind)
    one = generator(model, PROMPT, max_length=40)
    one.generate_next_token()
    one.generate_next_token()
    one.append_tokens(np.array([20, 21, 22], np.int32))
    agree(one, generator(other, one.get_sequence(0), max_length=40))


@pytest.mark.parametrize("kind", KINDS)
def test_rewound_and_continued(kind: str, pair: Pair) -> None:
    one, other = (generator(model, PROMPT, max_length=40) for model in pair(kind))
    for made in (one, other):
        for _ in range(6):
            made.generate_next_token()
        made.rewind_to(7)
        made.append_tokens(np.array([20, 21], np.int32))
        assert made.token_count() == 9
    agree(one, other)
    assert one.get_sequence(0).tolist() == other.get_sequence(0).tolist()


def test_rewound_and_generated_again(pair: Pair) -> None:
    """The next token after n is the one that came after n before."""
    model, _ = pair()
    made = generator(model, PROMPT, max_length=40)
    for _ in range(6):
        made.generate_next_token()
    before = made.get_sequence(0).tolist()
    logits = made.get_logits()
    for length in (11, 10, 7, 5, 3):
        made.rewind_to(length)
        assert made.token_count() == length
        assert not made.is_done()
        while made.token_count() < 11:
            made.generate_next_token()
        if length >= len(PROMPT):
            assert made.get_sequence(0).tolist() == before
            np.testing.assert_allclose(made.get_logits(), logits, atol=1e-5)
    made.rewind_to(0)
    made.append_tokens(PROMPT)
    assert made.token_count() == 5
    made.generate_next_token()
    assert made.get_sequence(0).tolist() == before[:6]


def test_a_batch_is_rewound_to_its_beginning(pair: Pair) -> None:
    model, _ = pair()
    prompts = [[5, 6, 7, 8], [11, 3, 0, 0]]
    made = generator(model, prompts, max_length=12, batch_size=2)
    made.generate_next_token()
    with pytest.raises(InvalidValue, match="rewound to 0"):
        made.rewind_to(4)
    made.rewind_to(0)
    made.append_tokens(np.array(prompts[::-1]))
    made.generate_next_token()
    again = written(model, prompts, max_length=12, batch_size=2)
    assert made.get_sequence(0).tolist() == again[1][:5]


def test_logits_of_a_caller(pair: Pair) -> None:
    for model in pair():
        made = generator(model, PROMPT, max_length=40)
        logits = made.get_logits()
        logits[..., 33] = logits.max() + 1
        made.set_logits(logits)
        made.generate_next_token()
        assert made.get_next_tokens().tolist() == [33]
        assert made.get_sequence(0).tolist() == [*PROMPT, 33]


def test_what_went_in_and_came_out(pair: Pair) -> None:
    one, other = (generator(model, PROMPT, max_length=40) for model in pair())
    for name in ("input_ids", "attention_mask", "position_ids"):
        np.testing.assert_array_equal(one.get_input(name), other.get_input(name))
    np.testing.assert_allclose(one.get_output("present.1.value"), other.get_output("present.1.value"), atol=1e-4)
    with pytest.raises(InvalidValue, match="'nothing' was not fed"):
        one.get_input("nothing")


@pytest.mark.parametrize(
    "options",
    [
        {"num_beams": 0},
        {"batch_size": 0},
        {"max_length": 0},
        {"max_length": 5000},
        {"num_return_sequences": 2},
        {"do_sample": True, "top_p": 1.5},
        {"do_sample": True, "top_k": -1},
        {"do_sample": True, "num_beams": 2},
        {"top_q": 3},
        {"do_sample": "yes"},
    ],
    ids=str,
)
def test_options_that_make_no_sense(options: dict[str, Any], pair: Pair) -> None:
    """Both sides raise RuntimeError."""
    for model in pair():
        with pytest.raises(RuntimeError):
            generator(model, PROMPT, **options)


@pytest.mark.parametrize(
    ("name", "near"), [("temperatur", "temperature"), ("max_new_tokens", "max_length"), ("topk", "top_k")]
)
def test_the_nearest_option_is_named(name: str, near: str, pair: Pair) -> None:
    params = genai.GeneratorParams(pair()[0])
    with pytest.raises(InvalidValue, match=f"no search option '{name}'; '{near}' is the nearest"):
        params.set_search_options(**{name: 1})


def test_options_are_read_as_they_were_set(pair: Pair) -> None:
    one, other = (genai.GeneratorParams(pair()[0]), __import__("onnxruntime_genai").GeneratorParams(pair()[1]))
    for params in (one, other):
        params.set_search_options(max_length=17, top_p=0.5, do_sample=True)
    assert one.get_search_options() == other.get_search_options()


def test_a_step_without_tokens_and_one_too_many(pair: Pair) -> None:
    for model in pair():
        made = generator(model, None, max_length=7)
        with pytest.raises(RuntimeError):
            made.generate_next_token()
        with pytest.raises(RuntimeError):
            made.append_tokens(np.arange(8, dtype=np.int32))
        made.append_tokens(np.array(PROMPT, np.int32))
        made.generate_next_token()
        made.generate_next_token()
        assert made.is_done()
        with pytest.raises(RuntimeError):
            made.generate_next_token()
        with pytest.raises(RuntimeError):
            made.rewind_to(9)


def test_several_ends(tmp_path: Path) -> None:
    """Any of them ends a text."""
    folder = Tiny().save(tmp_path / "model")
    free = written(ours(folder), PROMPT, max_length=40)[0]
    config = json.loads((folder / "genai_config.json").read_text())
    config["model"]["eos_token_id"] = [60, free[12], 2]
    (folder / "genai_config.json").write_text(json.dumps(config))
    for options in ({}, {"num_beams": 3, "num_return_sequences": 3}, {"min_length": 15}):
        one, other = (written(model, PROMPT, max_length=40, **options) for model in (ours(folder), theirs(folder)))
        assert one == other
    assert written(ours(folder), PROMPT, max_length=40)[0] == free[: free.index(free[12], len(PROMPT))]


def beams(eos: list[int]) -> tuple[Sequences, BeamSearch]:
    """Two beams after one token, of which one more each was chosen: 4, and the less likely 5."""
    rows = Sequences(2, 10, pad=0)
    rows.append([[7], [7]])
    options = SearchOptions(num_beams=2, num_return_sequences=2, max_length=10)
    search = BeamSearch(rows, options, eos, pad=0)
    search.step(np.array([[-50, -50, -50, -50, 0, -0.1]] * 2, np.float32))
    assert rows.tokens.tolist() == [[7, 4], [7, 5]]
    return rows, search


def test_ends_among_unlikely_continuations() -> None:
    """An end that is less likely than as many continuations as there are beams is passed over."""
    rows, search = beams([1])
    search.step(np.array([[-50, 0, 1, -50, -50, -50], [-50, 0, -50, -1, -50, -50]], np.float32))
    assert rows.tokens.tolist() == [[7, 4, 2], [7, 5, 3]]
    assert not search.done
    assert [search.sequence(k).tolist() for k in (0, 1)] == [[7, 4, 2], [7, 5]]


def test_more_ends_than_beams() -> None:
    """Where all of the likeliest are ends, beams go on by the next ones. (There onnxruntime-genai 0.18 crashes.)"""
    rows, search = beams([1, 2, 3])
    search.step(np.array([[-50, 3, 3, 3, 1, 0], [-50, 3, 3, 3, -50, -50]], np.float32))
    assert rows.tokens.tolist() == [[7, 4, 4], [7, 4, 5]]


def test_half_precision(tmp_path: Path) -> None:
    from onnx import TensorProto

    folder = Tiny(element=TensorProto.FLOAT16).save(tmp_path / "model")
    one, other = written(ours(folder), PROMPT, max_length=20), written(theirs(folder), PROMPT, max_length=20)
    assert one == other
    assert generator(ours(folder, NUMPY), PROMPT, max_length=20).get_logits().dtype == np.float32
