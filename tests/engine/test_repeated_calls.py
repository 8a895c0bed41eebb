"""A call like the one before it skips what was found out then: it must notice all in which it differs."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnxruntime
import pytest

import sardonyx
from sardonyx.api.runner import Runner
from sardonyx.errors import Fail, InvalidArgument
from tests.engine.graphs import CHAIN, CONTROL_FLOW, model
from tests.engine.providers import PROVIDERS, WASM
from tests.engine.test_strings import SPLIT

TWO = """
g (float[N, 4] x, double[] s, int64[K] i) => (float[N, 4] y, double[] t, int64[K] j, bool[N, 4] b)
{
  y = Neg (x)
  t = Neg (s)
  j = Neg (i)
  zero = Constant <value_float = 0.0> ()
  b = Less (x, zero)
}
"""


def settled(text: str, provider: str, feeds: dict[str, Any]) -> sardonyx.InferenceSession:
    """A session that was called like this often enough to know what is fed."""
    session = sardonyx.InferenceSession(model(text), providers=[provider])
    for _ in range(3):
        session.run(None, feeds)
    return session


def chain(x: np.ndarray) -> np.ndarray:
    return np.maximum(np.tanh(2 * x.astype(np.float64)) + x, 0)


@pytest.fixture
def x() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_repeated_call_is_not_prepared_again(provider: str, x: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    session = settled(CHAIN, provider, {"x": x})
    monkeypatch.delattr(Runner, "_ran")
    for k in range(3):
        (y,) = session.run(None, {"x": x + k})
        np.testing.assert_allclose(y, chain(x + k), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_other_shapes(provider: str, x: np.ndarray) -> None:
    session = settled(CHAIN, provider, {"x": x})
    for rows in (6, 2, 2, 2, 1, 0, 0, 0, 6, 6, 6, 9):
        given = np.resize(x, (rows, 4))
        (y,) = session.run(None, {"x": given})
        np.testing.assert_allclose(y, chain(given), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_sizes_that_a_plan_is_for_are_not_prepared_either(
    provider: str, x: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = settled(CHAIN, provider, {"x": x})
    for rows in (3, 5):
        session.run(None, {"x": np.resize(x, (rows, 4))})  # there are plans for all sizes then
    monkeypatch.delattr(Runner, "_ran")
    for rows in (8, 2, 9, 6, 6, 11):
        given = np.resize(x + rows, (rows, 4))
        (y,) = session.run(None, {"x": given})
        np.testing.assert_allclose(y, chain(given), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        (np.zeros((6, 4)), "wants float, not NumPy's float64"),
        (np.zeros((6, 4), ">f4"), "wants float, not NumPy's >f4"),
        (np.zeros((6, 4), np.int32), "wants float, not NumPy's int32"),
        (np.zeros((6, 5), np.float32), "axis 1 is 5, not 4"),
        (np.zeros(4, np.float32), "wants rank 2"),
        (np.zeros((1, 6, 4), np.float32), "wants rank 2"),
    ],
)
def test_what_is_wrong_is_refused(given: np.ndarray, remedy: str, x: np.ndarray) -> None:
    session = settled(CHAIN, WASM, {"x": x})
    with pytest.raises(InvalidArgument, match=remedy):
        session.run(None, {"x": given})
    np.testing.assert_allclose(session.run(None, {"x": x})[0], chain(x), rtol=1e-5, atol=1e-6)


def test_names_are_checked(x: np.ndarray) -> None:
    session = settled(CHAIN, WASM, {"x": x})
    for feeds, names, remedy in (
        ({}, None, "missing"),
        ({"x": x, "z": x}, None, "no input 'z'"),
        ({"z": x}, None, "no input 'z'"),
        ({"x": x}, ["q"], "no output 'q'"),
    ):
        with pytest.raises(InvalidArgument, match=remedy):
            session.run(names, feeds)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_arrays_of_any_kind(provider: str, x: np.ndarray) -> None:
    session = settled(CHAIN, provider, {"x": x})
    wide = np.random.default_rng(1).normal(size=(12, 8)).astype(np.float32)
    fixed = x.copy()
    fixed.flags.writeable = False
    masked = np.ma.masked_array(x, mask=x > 0)
    unaligned = np.ndarray(x.shape, np.float32, b"\0" + x.tobytes(), 1)
    for given in (wide[::2, ::-2], wide[:6, :4], x.T.copy().T, np.asfortranarray(x), x[::-1], fixed, masked, unaligned):
        for _ in range(2):
            (y,) = session.run(None, {"x": given})
            np.testing.assert_allclose(y, chain(np.asarray(given)), rtol=1e-5, atol=1e-6)
    (y,) = session.run(None, {"x": x.tolist()})
    np.testing.assert_allclose(y, chain(x), rtol=1e-5, atol=1e-6)
    (y,) = session.run(None, {"x": np.broadcast_to(x[:1], x.shape)})
    np.testing.assert_allclose(y, chain(np.broadcast_to(x[:1], x.shape)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_neither_feeds_nor_results_are_shared(provider: str, x: np.ndarray) -> None:
    session = settled(CHAIN, provider, {"x": x})
    given = x.copy()
    first = session.run(None, {"x": given})[0]
    kept = first.copy()
    given[:] = 7
    second = session.run(None, {"x": given})[0]
    np.testing.assert_array_equal(first, kept)
    second[:] = 0
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], kept)
    np.testing.assert_array_equal(session.run(None, {"x": kept})[0], session.run(None, {"x": kept.copy()})[0])


@pytest.mark.parametrize("provider", PROVIDERS[:2])  # WebGPU has no float64
def test_several_inputs_and_outputs(provider: str, x: np.ndarray) -> None:
    feeds = {"i": np.arange(3), "x": x, "s": np.array(2.5)}
    session = settled(TWO, provider, feeds)
    for k in range(3):
        feeds = {"s": np.array(k + 0.5), "i": np.arange(3) + k, "x": x * k}
        y, t, j, b = session.run(None, feeds)
        for found, wanted in ((y, -x * k), (t, np.array(-k - 0.5)), (j, -np.arange(3) - k), (b, x * k < 0)):
            assert found.dtype == wanted.dtype
            assert found.shape == wanted.shape
            np.testing.assert_array_equal(found, wanted)
        j, y = session.run(["j", "y"], feeds)
        np.testing.assert_array_equal(y, -x * k)
        np.testing.assert_array_equal(j, -np.arange(3) - k)
        assert len(session.run([], feeds)) == 4


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_data_decide_is_decided_anew(provider: str) -> None:
    rng = np.random.default_rng(0)
    data = model(CONTROL_FLOW)
    session = sardonyx.InferenceSession(data, providers=[provider])
    reference = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    x = rng.normal(size=(3, 4)).astype(np.float32)
    for turns, going, scale in ((2, True, 1), (2, True, 1), (2, True, 1), (2, True, -1), (4, True, 3), (1, False, 1)):
        feeds = {"x": x * np.float32(scale), "n": np.array(turns), "c": np.array(going)}
        for found, wanted in zip(session.run(None, feeds), reference.run(None, feeds), strict=True):
            if wanted.size:  # onnxruntime forgets the sizes of slices that never were
                np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_strings(provider: str) -> None:
    data = model(SPLIT)
    session = sardonyx.InferenceSession(data, providers=[provider])
    first = np.array(["a cat", "b"], object)
    for texts in (first, first, first, ["cat cat", "c"], ["d e f", "cat"], ["", "cat cat cat"], ["a cat", "b"]):
        given = np.array(texts, object)
        y, n, e, s, t = session.run(None, {"x": given})
        rows = [text.split() for text in given]
        assert n.tolist() == list(map(len, rows))
        assert [[word for word in row if word] for row in y.tolist()] == rows
        assert e.sum() == sum(row.count("cat") for row in rows)
        assert s.tolist() == [2, max(map(len, rows))]
        assert t.tolist() == [text + "cat" for text in given]
    for same in (first.astype("U"), first.astype("S"), np.array([b"a cat", "b"], object)):
        assert session.run(["t"], {"x": same})[0].tolist() == ["a catcat", "bcat"]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_runs_are_ended(provider: str, x: np.ndarray) -> None:
    session = settled(CHAIN, provider, {"x": x})
    options = sardonyx.RunOptions()
    np.testing.assert_allclose(session.run(None, {"x": x}, options)[0], chain(x), rtol=1e-5, atol=1e-6)
    options.terminate = True
    with pytest.raises(Fail, match="terminate is set"):
        session.run(None, {"x": x}, options)
    options.terminate = False
    np.testing.assert_allclose(session.run(None, {"x": x}, options)[0], chain(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_threads(provider: str) -> None:
    given = [np.full((5, 4), k / 10, np.float32) for k in range(6)]
    session = settled(CHAIN, provider, {"x": given[0]})
    wanted = [session.run(None, {"x": each})[0] for each in given]
    wrong: list[int] = []

    def work(number: int) -> None:
        wrong.extend(
            number for _ in range(100) if not np.array_equal(session.run(None, {"x": given[number]})[0], wanted[number])
        )

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(given))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()
    assert not wrong


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("text", [CHAIN, CONTROL_FLOW, SPLIT], ids=["chain", "control flow", "strings"])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_memory_goes_with_the_session(provider: str, text: str, x: np.ndarray) -> None:
    feeds: dict[str, Any] = {"x": np.array(["a cat", "b"], object)} if text is SPLIT else {"x": x}
    if text is CONTROL_FLOW:
        feeds |= {"n": np.array(2), "c": np.array(True)}
    session = settled(text, provider, feeds)
    function = weakref.ref(session._runner.variants.main)
    del session
    assert function() is None
