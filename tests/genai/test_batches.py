"""Batches whose prompts differ in length: each row gets what it gets alone, from caches on the device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from sardonyx.genai.memory import OnDevice
from tests.engine.providers import PROVIDERS
from tests.genai import smollm2
from tests.genai.sides import finish, generator, ours, theirs, written
from tests.genai.tiny import EOS, PAD, Tiny
from tests.models.chat import PROMPT

LENGTHS = [3, 9, 5, 9, 1, 7, 2, 4]
NEW = 70
"""Tokens after the prompts: more than there is room for at first."""


def padded(prompts: list[list[int]], pad: int) -> list[list[int]]:
    most = max(map(len, prompts))
    return [prompt + [pad] * (most - len(prompt)) for prompt in prompts]


def check(made: Any, prompts: list[list[int]], alone: list[list[int]], ends: list[int]) -> None:
    """Compare what a batch was given with what each prompt is alone, up to its end."""
    most = max(map(len, prompts))
    assert isinstance(made._decoder._memory, OnDevice)
    for row, (prompt, expected) in enumerate(zip(prompts, alone, strict=True)):
        new = expected[len(prompt) :]
        count = next((place for place, token in enumerate(new) if token in ends), len(new))
        assert made.get_sequence(row).tolist()[most:][:count] == new[:count], f"row {row}"


@pytest.mark.parametrize("kind", ["grouped", "plain"])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_eight_rows(provider: str, kind: str, folders: dict[str, Path], rng: np.random.Generator) -> None:
    prompts = [rng.integers(3, 61, length).tolist() for length in LENGTHS]
    model, most = ours(folders[kind], provider), max(LENGTHS)
    made = finish(generator(model, padded(prompts, PAD), batch_size=len(prompts), max_length=most + NEW))
    reference = theirs(folders[kind])
    alone = [written(reference, prompt, max_length=len(prompt) + NEW)[0] for prompt in prompts]
    check(made, prompts, alone, [EOS])
    assert model.session.compiled <= 4
    kept = made.get_output("present.0.key")
    single = finish(generator(model, prompts[0], max_length=LENGTHS[0] + 1))
    np.testing.assert_allclose(kept[0, :, : LENGTHS[0]], single.get_output("present.0.key")[0], rtol=0, atol=1e-4)


def test_rows_of_logits_whose_shape_is_not_declared(tmp_path: Path, rng: np.random.Generator) -> None:
    """All of them are computed then, and the wanted ones taken."""
    prompts = [rng.integers(3, 61, length).tolist() for length in (4, 7, 1)]
    folder, kept = Tiny().save(tmp_path / "declared"), Tiny().save(tmp_path / "undeclared")
    model = onnx.load(kept / "model.onnx")
    next(each for each in model.graph.output if each.name == "logits").type.tensor_type.ClearField("shape")
    onnx.save(model, kept / "model.onnx")
    made = finish(generator(ours(kept), padded(prompts, PAD), batch_size=3, max_length=20))
    alone = [written(theirs(folder), prompt, max_length=len(prompt) + 13)[0] for prompt in prompts]
    check(made, prompts, alone, [EOS])


def test_chunks_of_rows_alike(folders: dict[str, Path], rng: np.random.Generator) -> None:
    """Several tokens follow several, in a batch."""
    prompts = rng.integers(3, 61, (3, 11)).tolist()
    model, reference = ours(folders["grouped"]), theirs(folders["grouped"])
    made = finish(generator(model, prompts, batch_size=3, max_length=30, chunk_size=4))
    check(made, prompts, [written(reference, prompt, max_length=30)[0] for prompt in prompts], [EOS])


def test_rows_begin_anew(folders: dict[str, Path], rng: np.random.Generator) -> None:
    """What was padded before has nothing to do with the next prompts."""
    model, reference = ours(folders["grouped"]), theirs(folders["grouped"])
    made = generator(model, None, batch_size=2, max_length=40)
    for lengths in ((2, 9), (8, 3)):
        prompts = [rng.integers(3, 61, length).tolist() for length in lengths]
        made.append_tokens(padded(prompts, PAD))
        finish(made)
        alone = [written(reference, prompt, max_length=len(prompt) + 40 - max(lengths))[0] for prompt in prompts]
        check(made, prompts, alone, [EOS])
        made.rewind_to(0)


def test_what_cannot_stay_goes_on_as_arrays(tmp_path: Path, rng: np.random.Generator) -> None:
    """A bias by places of keys: rows whose keys are elsewhere would get another one's."""
    folder = Tiny(grouped=True, positions=False, seed=5, biased=True).save(tmp_path)
    model = ours(folder)
    prompts = [rng.integers(3, 61, length).tolist() for length in (6, 3)]
    made = finish(generator(model, padded(prompts, PAD), batch_size=2, max_length=20))
    assert not isinstance(made._decoder._memory, OnDevice)
    for row, prompt in enumerate(prompts):
        alone = written(model, prompt, max_length=len(prompt) + 14)[0][len(prompt) :]
        assert made.get_sequence(row).tolist()[6:][: len(alone)] == alone


@pytest.mark.nightly
def test_smollm2(tmp_path: Path) -> None:
    """Eight chats with the decoder of 4 bits, whose padding is its end."""
    folder = smollm2.folder(tmp_path)
    model, reference = ours(folder, "WasmExecutionProvider"), theirs(folder)
    prompts = [PROMPT, PROMPT[21:], PROMPT[:9], PROMPT[3:19], PROMPT[5:6], PROMPT[21:30], PROMPT[1:], PROMPT[2:12]]
    most, new = len(PROMPT), 12
    made = finish(generator(model, padded(prompts, 2), batch_size=8, max_length=most + new))
    check(made, prompts, [written(reference, each, max_length=len(each) + new)[0] for each in prompts], [2])
