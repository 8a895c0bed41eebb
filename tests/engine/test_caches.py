"""Caches that stay on the device: what is joined to them is stored behind them, and nothing is copied."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest

import sardonyx
from sardonyx.api.caches import Caches
from sardonyx.errors import InvalidArgument
from tests.engine.graphs import model
from tests.engine.providers import PROVIDERS, WEBGPU

FLAT = """
g (float[1, 8] x, float[P, 8] past) => (float[T, 8] present, float[1, 8] y) {
  present = Concat <axis = 0> (past, x)
  keys = Transpose <perm = [1, 0]> (present)
  scores = MatMul (x, keys)
  weights = Softmax (scores)
  y = MatMul (weights, present)
}
"""
HEADS = """
g (FLOAT[B, S, 32] x, FLOAT[B, 2, P, 16] past_key, FLOAT[B, 2, P, 16] past_value, float[32, 32] w)
  => (FLOAT[B, S, 32] y, FLOAT[B, 2, T, 16] present_key, FLOAT[B, 2, T, 16] present_value) {
  shape = Constant <value_ints = [0, 0, 2, 16]> ()
  flat = Constant <value_ints = [0, 0, 32]> ()
  wide = CastLike (w, x)
  projected = MatMul (x, wide)
  apart = Reshape (projected, shape)
  heads = Transpose <perm = [0, 2, 1, 3]> (apart)
  turned = Neg (heads)
  present_key = Concat <axis = 2> (past_key, heads)
  present_value = Concat <axis = 2> (past_value, turned)
  columns = Transpose <perm = [0, 1, 3, 2]> (present_key)
  scores = MatMul (heads, columns)
  weights = Softmax (scores)
  mixed = MatMul (weights, present_value)
  back = Transpose <perm = [0, 2, 1, 3]> (mixed)
  y = Reshape (back, flat)
}
"""
GROUPED = """
g (float[B, S, 128] qkv, int32[B] seen, int32 total, float[64, 8] cos, float[64, 8] sin,
   float[B, 2, P, 16] past_key, float[B, 2, P, 16] past_value)
  => (float[B, S, 64] y, float[B, 2, T, 16] present_key, float[B, 2, T, 16] present_value) {
  y, present_key, present_value = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2, do_rotary = 1>
    (qkv, , , past_key, past_value, seen, total, cos, sin)
}
"""
ANGLES = np.arange(64)[:, None] * 100.0 ** (-np.arange(8) / 8)
PAIRS = {"past_key": "present_key", "past_value": "present_value"}
ONCE = """
g (float[1, 4] x, float[P, 4] past) => (float[T, 4] present) {
  joined = Concat <axis = 0> (past, x)
  present = Neg (joined)
}
"""


class Decoder:
    """A model whose caches stay on the device, and onnxruntime with the same model, which is fed what it gave."""

    def __init__(self, made: bytes, provider: str, pairs: dict[str, str], batch: int = 1, **fixed: np.ndarray) -> None:
        self.session = sardonyx.InferenceSession(made, providers=[provider])
        self.caches = self.session.caches(pairs, batch)
        self.reference = onnxruntime.InferenceSession(made, providers=["CPUExecutionProvider"])
        self.pairs, self.fixed = pairs, fixed
        self.past: dict[str, np.ndarray] = {}
        for port in self.reference.get_inputs():
            if port.name in pairs:
                self.dtype = np.float16 if "float16" in port.type else np.float32
                shape = [size if isinstance(size, int) else 0 if size == "P" else batch for size in port.shape]
                self.past[port.name] = np.zeros(shape, self.dtype)

    def step(self, x: np.ndarray, count: int) -> np.ndarray:
        """What the model gives, which is what onnxruntime gives."""
        x = x.astype(self.dtype)
        names = ["y", *self.pairs.values()]
        expected, *presents = self.reference.run(names, {"x": x, **self.past, **self.fixed})
        self.past = dict(zip(self.pairs, presents, strict=True))
        (y,) = self.caches.run(["y"], {"x": x, **self.fixed}, count)
        tolerance = 4e-3 if self.dtype == np.float16 else 2e-5
        np.testing.assert_allclose(y, expected, tolerance, tolerance)
        return expected


@pytest.mark.parametrize("provider", PROVIDERS)
def test_tokens_one_by_one(provider: str, rng: np.random.Generator) -> None:
    """More of them than there is room for at first; then some are taken back."""
    decoder = Decoder(model(FLAT), provider, {"past": "present"})
    for _ in range(70):
        decoder.step(rng.normal(size=(1, 8)), 1)
    assert decoder.caches.length == 70
    assert decoder.caches.room == 128
    decoder.caches.rewind(11)
    decoder.past["past"] = decoder.past["past"][:11]
    for _ in range(3):
        decoder.step(rng.normal(size=(1, 8)), 1)
    assert decoder.session.compiled == 1


@pytest.mark.parametrize("element", ["float", "float16"])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_prompts_and_tokens(provider: str, batch: int, element: str, rng: np.random.Generator) -> None:
    """As chats have them: many at once, then one by one, then many again, beyond the room."""
    w = (rng.normal(size=(32, 32)) / 8).astype("f4")
    decoder = Decoder(model(HEADS.replace("FLOAT", element)), provider, PAIRS, batch, w=w)
    for count in (9, 1, 1, 1, 30, 1, 2, 40, 1, 1):
        decoder.step(rng.normal(size=(batch, count, 32)), count)
    assert decoder.caches.length == 87
    assert decoder.session.compiled <= 3


@pytest.mark.parametrize("provider", PROVIDERS)
def test_rows_of_a_batch(provider: str, rng: np.random.Generator) -> None:
    """As beams choose them."""
    w = (rng.normal(size=(32, 32)) / 8).astype("f4")
    decoder = Decoder(model(HEADS.replace("FLOAT", "float")), provider, PAIRS, 3, w=w)
    decoder.step(rng.normal(size=(3, 5, 32)), 5)
    for rows in ([2, 2, 0], [1, 0, 2]):
        decoder.caches.select(rows)
        decoder.past = {name: array[rows] for name, array in decoder.past.items()}
        decoder.step(rng.normal(size=(3, 1, 32)), 1)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_nothing_is_copied(provider: str, rng: np.random.Generator) -> None:
    """What a run is fed is what it gives, in the same buffers, and no launch joins anything."""
    w = (rng.normal(size=(32, 32)) / 8).astype("f4")
    decoder = Decoder(model(HEADS.replace("FLOAT", "float")), provider, PAIRS, w=w)
    for _ in range(2):
        decoder.step(rng.normal(size=(1, 1, 32)), 1)
    (plan,) = decoder.session.plans
    held = {k for port in plan.inputs if port.name in PAIRS for k in port.buffers}
    assert {plan.buffers[k].epoch for k in held} == {-1}
    assert {k for port in plan.outputs if port.name.startswith("present") for k in port.buffers} == held
    assert not any("concat" in code["name"] for code in plan.codes)


@pytest.mark.parametrize("provider", PROVIDERS[1:])
def test_bundles(provider: str, rng: np.random.Generator) -> None:
    """Which have no compiler, are for caches, or for arrays."""
    made = model(HEADS.replace("FLOAT", "float"))
    target = "webgpu" if provider == WEBGPU else "wasm"
    bundle = sardonyx.compile(made, target, caches=PAIRS)
    decoder = Decoder(made, provider, PAIRS, 2, w=(rng.normal(size=(32, 32)) / 8).astype("f4"))
    decoder.session = sardonyx.InferenceSession(bundle, providers=[provider])
    decoder.caches = decoder.session.caches(PAIRS, 2)
    for count in (9, 1, 1, 60, 1, 3):
        decoder.step(rng.normal(size=(2, count, 32)), count)
    assert decoder.session.compiled == 0
    with pytest.raises(InvalidArgument, match="is not for"):
        sardonyx.InferenceSession(sardonyx.compile(made, target), providers=[provider]).caches(PAIRS).run(
            ["y"], {"x": np.zeros((1, 1, 32), "f4"), **decoder.fixed}, 1
        )


@pytest.mark.parametrize("provider", PROVIDERS)
def test_rows_of_different_lengths(provider: str, rng: np.random.Generator) -> None:
    """In GroupQueryAttention: each row is what onnxruntime makes of it alone, one token and several at a time."""
    made = model(GROUPED)
    reference = onnxruntime.InferenceSession(made, providers=["CPUExecutionProvider"])
    session = sardonyx.InferenceSession(made, providers=[provider])
    counts = np.array([3, 7, 1, 5])
    tables = {"cos": np.cos(ANGLES).astype("f4"), "sin": np.sin(ANGLES).astype("f4")}
    pasts = [{name: np.zeros((1, 2, 0, 16), np.float32) for name in PAIRS} for _ in counts]
    caches = session.caches(PAIRS, len(counts))

    def step(length: int, lengths: np.ndarray, total: int) -> None:
        """Run `length` tokens, of each row as many as `lengths` says."""
        qkv = rng.normal(size=(len(counts), length, 128)).astype("f4")
        feeds = {"qkv": qkv, "seen": (counts - 1).astype("i4"), "total": np.array(total, "i4"), **tables}
        (y,) = caches.run(["y"], feeds, length)
        for row, past in enumerate(pasts):
            told = {"seen": counts[row : row + 1].astype("i4") - 1, "total": np.array(counts[row], "i4")}
            alone = {"qkv": qkv[row : row + 1, : lengths[row]], **told, **tables, **past}
            expected, *presents = reference.run(["y", *PAIRS.values()], alone)
            past |= dict(zip(PAIRS, presents, strict=True))
            np.testing.assert_allclose(y[row : row + 1, : lengths[row]], expected, 2e-5, 2e-5)

    step(7, counts, 7)
    caches.turn((7 - counts).tolist())
    for length in (1, 1, 3, 1):
        counts = counts + length
        step(length, np.full(len(counts), length), caches.length + length)
    for name, array in caches.arrays().items():
        for row, past in enumerate(pasts):
            np.testing.assert_allclose(array[row, :, -counts[row] :], past[name][0], 2e-5, 2e-5)


def test_what_is_no_cache() -> None:
    made = model(ONCE)
    session = sardonyx.InferenceSession(made, providers=["NumpyExecutionProvider"])
    x = {"x": np.ones((1, 4), np.float32)}
    with pytest.raises(InvalidArgument, match="'present' is not 'past' with more behind it along axis 0"):
        session.caches({"past": "present"}).run(["present"], x, 1)
    with pytest.raises(InvalidArgument, match="no input 'before' with an output 'present'"):
        session.caches({"before": "present"})
    caches = session.caches({})
    with pytest.raises(InvalidArgument, match="there are 0 tokens; 1 are not the first of them"):
        caches.rewind(1)


def test_caches_give_their_memory_back(rng: np.random.Generator) -> None:
    freed: list[Any] = []
    session = sardonyx.InferenceSession(model(FLAT), providers=["NumpyExecutionProvider"])
    caches: Caches = session.caches({"past": "present"})
    device = session._runner.providers.devices[0]
    device_free = device.free
    device.free = lambda chunk: (freed.append(chunk), device_free(chunk))[1]  # type: ignore[method-assign]
    caches.run(["y"], {"x": rng.normal(size=(1, 8)).astype("f4")}, 1)
    caches.reserve(1000)
    caches.free()
    del device.free
    assert len(freed) == 2
