"""Attention whose products BLAS does natively, against float64: bands of queries, caches with room, masks, threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sardonyx import InferenceSession
from sardonyx_wasm.abi import HOSTED
from sardonyx_wasm.device import attended, blas
from sardonyx_wasm.device.attended import Attended
from sardonyx_wasm.legalization import attention
from tests.support import require
from tests.support.attention import NEVER, model, reference
from tests.support.numbers import random

require("wasm")
Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """BLAS takes attention of any size."""
    monkeypatch.setattr(attention, "LARGE", 0)


class Attention:
    """The operator in a session, fed what it needs to see `before` keys of a cache."""

    def __init__(self, past: bool = False, mask: str = "", threads: int = 1) -> None:
        providers = [("WasmExecutionProvider", {"intra_op_num_threads": str(threads)})]
        self.session = InferenceSession(model(past, mask), providers=providers)
        self.past, self.mask = past, mask

    def check(self, batch: int, length: int, before: int = 0) -> Array:
        keys = length + before
        k, v = random(batch, 2, keys, 16), random(batch, 2, keys, 32)
        feeds = {"q": random(batch, 4, length, 16), "k": k, "v": v}
        if self.past:
            feeds |= {"k": k[:, :, before:], "v": v[:, :, before:], "pk": k[:, :, :before], "pv": v[:, :, :before]}
        bias = None
        if self.mask:
            bias = random(batch, 1, length, keys)
            bias[bias > 0.5] = NEVER
            bias[:, :, length // 2] = NEVER  # a query that sees nothing
            feeds["m"] = bias
        expected = reference(feeds["q"] / 4, k, v, bias, None if self.mask else before if self.past else 0)
        (found,) = self.session.run(["y"], feeds)
        assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        result: Array = found
        return result

    @property
    def is_hosted(self) -> bool:
        """Whether the plan of the last run has attention that may be BLAS's."""
        return any(HOSTED in (code.get("attributes") or {}) for code in self.session.plans[0].codes)


@pytest.mark.parametrize("mask", ["", "float"])
@pytest.mark.parametrize("in_place", [False, True], ids=["packed", "in place"])
def test_bands_of_queries(mask: str, in_place: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where OpenBLAS does small products in place, bands are so small."""
    monkeypatch.setattr(blas, "in_blocks", lambda: in_place)
    operator = Attention(mask=mask)
    for sizes in ((1, 400), (2, 17), (3, 64), (1, 385), (2, 15)):
        operator.check(*sizes)
        assert operator.is_hosted


def test_few_queries_are_the_modules_where_others_were_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token after a prompt does not ask the host."""
    operator, asked, call = Attention(), list[int](), Attended.__call__
    monkeypatch.setattr(Attended, "__call__", lambda self, *part: (asked.append(self.work), call(self, *part))[1])
    for length, is_asked in ((400, True), (3, False), (1, False), (400, True)):
        asked.clear()
        operator.check(1, length)
        assert bool(asked) == is_asked


def test_queries_behind_a_cache() -> None:
    operator = Attention(past=True)
    for length, before in ((40, 0), (40, 77), (3, 500), (130, 1)):
        operator.check(2, length, before)


@pytest.mark.parametrize("mask", ["", "float"])
def test_caches_with_room(mask: str) -> None:
    session = InferenceSession(model(True, mask), providers=["WasmExecutionProvider"])
    caches = session.caches({"pk": "ok", "pv": "ov"})
    seen = [np.zeros((1, 2, 0, 16), np.float32), np.zeros((1, 2, 0, 32), np.float32)]
    for length in (90, 33, 1, 64):
        q, added = random(1, 4, length, 16), [random(1, 2, length, 16), random(1, 2, length, 32)]
        before = seen[0].shape[2]
        seen = [np.concatenate(pair, 2) for pair in zip(seen, added, strict=True)]
        feeds = {"q": q, "k": added[0], "v": added[1]}
        bias = random(1, 1, length, before + length) if mask else None
        (found,) = caches.run(["y"], feeds if bias is None else {**feeds, "m": bias}, length)
        assert_allclose(found, reference(q / 4, *seen, bias, None if mask else before), rtol=1e-4, atol=1e-5)


def test_more_keys_than_fit_are_left_to_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attended, "SCRATCH", 16 * 4 * 100)
    called = []
    bands = attended.Attended._bands
    monkeypatch.setattr(attended.Attended, "_bands", lambda *given: called.append(given) or bands(*given))
    operator = Attention()
    operator.check(1, 300)
    assert not called
    operator.check(1, 90)
    assert called


def test_threads_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "SHARED", 0)
    one, three = (Attention(threads=threads) for threads in (1, 3))
    for sizes in ((1, 400), (2, 30), (3, 5)):
        assert_array_equal(one.check(*sizes), three.check(*sizes))


def test_nan_stays_in_its_row() -> None:
    operator = Attention(mask="float")
    feeds = {"q": random(1, 4, 40, 16), "k": random(1, 2, 40, 16), "v": random(1, 2, 40, 32)}
    feeds["m"] = np.zeros((1, 1, 40, 40), np.float32)
    feeds["q"][0, 1, 3, 2] = np.nan
    (found,) = operator.session.run(["y"], feeds)
    assert np.isnan(found[0, 1, 3]).all()
    found[0, 1, 3] = 0
    assert np.isfinite(found).all()
