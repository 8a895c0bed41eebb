"""One bundle of a model whose sizes are open, at any sizes, in a page without Python: as onnxruntime has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sardonyx.api.bundling import bundle_of
from sardonyx.plans.plan_cache import Source
from tests.models import MODELS, assert_close, path
from tests.models.chat import ANSWER, PROMPT
from tests.models.open_sizes import OPEN, draw, feeds_of
from tests.models.oracle import session
from tests.support.browser import Chromium
from tests.web.pages import run_in_turn

CHATS = ("smollm2-int4-contrib-prefill", "smollm2-int4-std-prefill", "smollm2-fp16-op23-prefill")
KEPT = {
    f"past_key_values.{layer}.{part}": f"present.{layer}.{part}" for layer in range(30) for part in ("key", "value")
}

TWO = [[504, 3575, 282], [260, 253, 411]], [[314], [28]], [[260], [411]]
"""Tokens of two sequences: three each, and then one more each, twice."""
Feeds = dict[str, npt.NDArray[Any]]


def bundle(id: str, target: str, folder: Path) -> Path:
    """The bundle of a model for no sizes in particular."""
    file = folder / f"{id}.sdx"
    with file.open("wb") as written:
        written.writelines(bundle_of(Source(path(id)), [target]))
    return file


@pytest.mark.parametrize(
    ("id", "target", "part"),
    [
        pytest.param("minilm-l3", "wasm", 1, marks=pytest.mark.slow),
        pytest.param("romanizer-dec", "webgpu", 1, marks=pytest.mark.slow),
        pytest.param("minilm-l3", "webgpu", 0.1, marks=pytest.mark.nightly),
    ],
)
def test_any_sizes(chromium: Chromium, id: str, target: str, part: float, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    drawn = [draw(id, rng, part) for _ in range(6)]
    turns = [feeds_of(id, sizes, rng) for sizes in drawn]
    theirs = session(id)
    found = run_in_turn(chromium, bundle(id, target, tmp_path), turns, target)
    agreed = 0
    for sizes, feeds, answer in zip(drawn, turns, found, strict=True):
        try:
            wanted = theirs.run(None, feeds)
        except Exception:  # which refuses these sizes
            continue
        assert not isinstance(answer, str), f"{sizes}: {answer}"
        assert_close(id, answer, wanted)
        agreed += 1
    assert agreed >= len(drawn) / 2


def turns_of(id: str) -> Iterator[Feeds]:
    """A prompt and the tokens of its answer, one by one; then two sequences of three tokens, and two tokens more each.

    What comes first has a memory of no tokens; what follows leaves it out.
    """
    for chunks in ([[PROMPT]] + [[[token]] for token in ANSWER[:-1]], TWO):
        past = 0
        for tokens in chunks:
            ids = np.array(tokens)
            count, length = ids.shape
            positions = np.tile(np.arange(past, past + length), (count, 1))
            feeds = {
                "input_ids": ids,
                "position_ids": positions,
                "attention_mask": np.ones((count, past + length), int),
            }
            if past == 0:
                dtype = MODELS[id].inputs["past_key_values.0.key"][0]
                feeds |= dict.fromkeys(KEPT, np.zeros((count, 3, 0, 64), dtype))
            yield {name: array for name, array in feeds.items() if name in MODELS[id].inputs}
            past += length


@pytest.mark.nightly
@pytest.mark.parametrize("target", ["wasm", "webgpu"])
@pytest.mark.parametrize("id", CHATS)
def test_a_chat(chromium: Chromium, id: str, target: str, tmp_path: Path) -> None:
    """The page keeps the memory of what was said, and so does onnxruntime, each its own; both know the answer."""
    turns = list(turns_of(id))
    found = run_in_turn(chromium, bundle(id, target, tmp_path), turns, target, KEPT)
    theirs = session(id)
    names = [output.name for output in theirs.get_outputs()]
    memory: Feeds = {}
    for number, (feeds, answer) in enumerate(zip(turns, found, strict=True)):
        wanted = theirs.run(None, memory | feeds)
        assert not isinstance(answer, str), f"turn {number}: {answer}"
        assert_close(id, answer, wanted, OPEN[id].cosine)
        memory = {name: wanted[names.index(output)] for name, output in KEPT.items()}
        if number < len(ANSWER):
            assert answer[0][0, -1].argmax() == ANSWER[number]
