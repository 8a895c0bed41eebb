"""A step within a memory limit: what is too much to store is made again, and nothing else changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import parser

import sardonyx
from sardonyx import InferenceSession, SessionOptions
from sardonyx.compiler import repetition
from sardonyx.errors import RuntimeException
from sardonyx.training.api import CheckpointState, Module
from tests.engine.providers import NUMPY, PROVIDERS, WASM, require_provider
from tests.training import deep, networks
from tests.training.networks import Network
from tests.training.test_steps import expected, taught

SHARES = {"mlp": 0.4, "cnn": 0.7, "transformer": 0.55, "parts": 0.6}
"""What a step is to need of what it needs without a limit; the more layers, the less."""


def module(network: Network, folder: Path, provider: str, limit: float = 0) -> Module:
    """The network's training, by a session of so many bytes; 0 is no limit."""
    if not (folder / "training_model.onnx").exists():
        network.write(folder)
    state = CheckpointState.load_checkpoint(folder / "checkpoint")
    return Module(folder / "training_model.onnx", state, session_options=options(limit), providers=[provider])


def options(limit: float) -> SessionOptions:
    made = SessionOptions()
    made.memory_limit = int(limit)
    return made


def step(made: Module, batch: tuple[np.ndarray, np.ndarray]) -> dict[str, np.ndarray]:
    """Loss, gradients and running statistics after one more step; what chance draws is the same each time."""
    made.lazy_reset_grad()
    sardonyx.set_seed(1)
    found = {"loss": np.asarray(made(*batch))}
    for name, held in made.state.held.items():
        assert held.value is not None
        found[name] = (held.grad if held.requires_grad and held.grad is not None else held.value).numpy()
    return found


def arena(made: Module) -> int:
    return made.memory()[0].arena


def steps(made: Module) -> int:
    return len(made._train.plans[0].steps)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("name", deep.NETWORKS)
def test_the_same_bits_within_the_limit(tmp_path: Path, name: str, provider: str) -> None:
    require_provider(provider)
    network = deep.NETWORKS[name]
    free = module(network, tmp_path, provider)
    batches = network.batches()
    wanted = [step(free, batch) for batch in batches]
    limit = SHARES[name] * arena(free)
    limited = module(network, tmp_path, provider, limit)
    for batch, figures in zip(batches, wanted, strict=True):
        found = step(limited, batch)
        assert found.keys() == figures.keys()
        for key, figure in figures.items():
            np.testing.assert_array_equal(found[key], figure, err_msg=key)
    assert arena(limited) <= limit
    assert steps(limited) > steps(free)


def test_equal_layers_need_less_than_half(tmp_path: Path) -> None:
    """The root of 32 layers is stored, and as many are made again at a time."""
    network = deep.mlp(rows=2048)
    batch = network.batches()[0]
    free = module(network, tmp_path, NUMPY)
    step(free, batch)
    limited = module(network, tmp_path, NUMPY, 0.4 * arena(free))
    found = step(limited, batch)
    assert arena(limited) <= 0.4 * arena(free)
    for key, figure in deep.gradients_of_the_mlp(network.parameters(), *batch).items():
        np.testing.assert_allclose(found[key], figure, rtol=1e-4, atol=1e-6, err_msg=key)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("name", networks.NETWORKS)
def test_ten_steps_that_store_nothing_are_those_of_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, provider: str
) -> None:
    """All that the host has no part in is made again from what is fed."""
    require_provider(provider)
    within, repeated = repetition.Launches.within, []

    def without_room(launches: repetition.Launches, limit: int, trace: object) -> object:
        found = within(launches, 0, trace)  # type: ignore[arg-type]
        repeated.append(found != launches.steps)
        return found

    monkeypatch.setattr(repetition, "choose", lambda passes, limit: frozenset())
    monkeypatch.setattr(repetition.Launches, "within", without_room)
    found = taught(networks.NETWORKS[name], "adamw", tmp_path, provider, options(1 << 30))
    assert all(repeated)
    figures = expected(name, "adamw")
    assert found.keys() == figures.keys()
    for key, figure in figures.items():
        np.testing.assert_allclose(found[key], figure, rtol=1e-5, atol=1e-5, err_msg=key)


@pytest.mark.parametrize("provider", [NUMPY, WASM])
def test_open_sizes(tmp_path: Path, provider: str) -> None:
    """A plan says up to which sizes there is room; beyond them another one is made."""
    network = deep.mlp(16)
    limited = module(network, tmp_path, provider, limit := 70_000)
    random, plans = np.random.default_rng(2), [0]
    for rows in (4, 20, 90, 100, 4, 130, 1, 90):
        batch = (deep.floats(random, rows, 8), deep.floats(random, rows, 8))
        found = step(limited, batch)
        for key, figure in deep.gradients_of_the_mlp(network.parameters(), *batch, layers=16).items():
            np.testing.assert_allclose(found[key], figure, rtol=1e-4, atol=1e-6, err_msg=key)
        assert arena(limited) <= limit
        plans.append(limited._train._runner.variants.main.compiled)
        if plans[-1] > plans[-2]:  # for other sizes, other plans may sum in another order
            free = module(network, tmp_path, provider)
            assert all(np.array_equal(found[key], figure) for key, figure in step(free, batch).items())
    assert plans[1:4] == [1, 1, 2]
    assert arena(free) > limit
    with pytest.raises(RuntimeException, match=r"the limit is .*: raise SessionOptions.memory_limit"):
        step(limited, (deep.floats(random, 1000, 8), deep.floats(random, 1000, 8)))


def test_a_limit_that_is_wide_changes_nothing(tmp_path: Path) -> None:
    network = deep.mlp(4)
    made = [module(network, tmp_path, WASM, limit) for limit in (0, 1 << 30)]
    for each in made:
        step(each, network.batches()[0])
    free, limited = (each._train.plans[0] for each in made)
    assert limited.steps == free.steps
    assert limited.buffers == free.buffers
    assert len(limited.guards) == len(free.guards) + 1


TURNS = 300


@pytest.mark.parametrize("provider", [NUMPY, WASM])
def test_what_loops_store_is_bounded_too(provider: str) -> None:
    """Of many turns every n-th is stored."""
    text = f"""<ir_version: 10, opset_import: ["" : 21, "ai.onnx.preview.training" : 1]>
        g (float[32, 32] x, float[32, 32] w) => (float y, float[32, 32] w_grad) {{
          n = Constant <value = int64 {{{TURNS}}}> () t = Constant <value = bool {{1}}> ()
          v = Loop (n, t, x) <body = g1 (int64 i, bool c, float[32, 32] h) => (bool c2, float[32, 32] h2) {{
            c2 = Identity (c) u = MatMul (h, w) h2 = Tanh (u) }}>
          y = ReduceSum <keepdims = 0> (v)
          w_grad = ai.onnx.preview.training.Gradient <xs = ["w"], y = "y"> (w) }}"""
    random = np.random.default_rng(3)
    x, w = deep.floats(random, 32, 32), deep.floats(random, 32, 32) / 8
    model, feeds = parser.parse_model(text).SerializeToString(), {"x": x, "w": w}
    free = InferenceSession(model, providers=[provider])
    free.run(None, feeds)
    limit = free.memory()[0].arena // 2
    limited = InferenceSession(model, options(limit), providers=[provider])
    _, found = limited.run(None, feeds)
    np.testing.assert_allclose(found, _slope(x.astype(np.float64), w.astype(np.float64)), rtol=1e-4, atol=1e-5)
    assert limited.memory()[0].held <= limit


def _slope(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The gradient of the sum of what `TURNS` turns make."""
    values = [x]
    for _ in range(TURNS):
        values.append(np.tanh(values[-1] @ w))
    own, found = np.ones_like(x), np.zeros_like(w)
    for before, after in zip(values[-2::-1], values[::-1], strict=False):
        own = own * (1 - after**2)
        found += before.T @ own
        own = own @ w.T
    return found
