"""Decoders whose keys and values stay on the device of a page: what onnxruntime gives that is fed what it gave."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sardonyx
from tests.engine.graphs import model
from tests.engine.test_caches import HEADS, PAIRS, Decoder
from tests.support.browser import Chromium

pytestmark = pytest.mark.slow
TURNS = [(0, 9), (9, 1), (10, 1), (11, 50), (61, 1), (62, 1), (63, 1), (64, 1), (20, 1), (21, 3)]
"""How many tokens there are, and how many come."""


def plain(name: str, array: np.ndarray) -> list[Any]:
    return [name, "float32", array.ravel().tolist(), list(array.shape)]


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(("target", "worker"), [("wasm", False), ("wasm", True), ("webgpu", False)])
def test_a_conversation(chromium: Chromium, target: str, worker: bool, batch: int, rng: np.random.Generator) -> None:
    made = model(HEADS.replace("FLOAT", "float"))
    w = (rng.normal(size=(32, 32)) / 8).astype("f4")
    decoder = Decoder(made, "NumpyExecutionProvider", PAIRS, batch, w=w)
    chromium.site.data["decoder.sdx"] = sardonyx.compile(made, target, caches=PAIRS)
    chromium.site.data["plain.sdx"] = sardonyx.compile(made, target)
    turns, wanted = [], []
    for length, count in TURNS:
        x = rng.normal(size=(batch, count, 32)).astype("f4")
        decoder.caches.rewind(length)
        decoder.past = {name: array[:, :, :length] for name, array in decoder.past.items()}
        wanted.append(decoder.step(x, count))
        turns.append({"length": length, "count": count, "feeds": [plain("x", x), plain("w", w)]})
    asked = {"target": target, "worker": worker, "batch": batch, "turns": turns}
    told = chromium.call("/web/caches.mjs", asked, 120)
    for (y, length), expected, (before, count) in zip(told["found"], wanted, TURNS, strict=True):
        assert length == before + count
        np.testing.assert_allclose(np.reshape(y, expected.shape), expected, 2e-5, 2e-5)
    assert told["errors"] == [
        "there are 24 tokens; 1000 are not the first of them",
        "/data/plain.sdx has no plans for caches; compile it with --caches",
    ]
