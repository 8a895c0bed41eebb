"""Fourier transforms of many lengths against NumPy's, and windows."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

from sardonyx import InferenceSession, compile
from sardonyx.errors import RuntimeException
from sardonyx.plans.bundle import Bundle
from sardonyx.primitives.fourier import _known_matrix
from tests.engine.providers import NUMPY, PROVIDERS, WASM, require_provider
from tests.support import eager
from tests.support.single import outputs_on, single

LENGTHS = [1, 2, 3, 7, 400, 512, 1021, 1024, 1200, 2048, 2 * 1009, 4096, 6000, 16000]
"""Powers of two, round numbers and primes, on either side of what one matrix does."""


def signal(n: int, parts: int, dtype: type = np.float32) -> np.ndarray:
    return np.random.default_rng(n).normal(0.3, 1, (2, n, parts)).astype(dtype)


def complex_of(x: np.ndarray) -> np.ndarray:
    return x[..., 0].astype(np.float64) + (1j * x[..., 1] if x.shape[-1] == 2 else 0)


def parts_of(z: np.ndarray) -> np.ndarray:
    return np.stack([z.real, z.imag], -1)


def assert_near(found: np.ndarray, wanted: np.ndarray, tolerance: float = 1e-5) -> None:
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= tolerance * np.abs(wanted).max()


def check(provider: str, n: int, known: bool) -> None:
    """Assert that all forms of a transform of length n, known when the plan is made or not, are NumPy's."""
    length = np.array(n)
    place = {1} if known else set()

    def run(x: np.ndarray, **attributes: int) -> np.ndarray:
        model, feeds = single("DFT", x, length, constants=place, **attributes)
        return (eager.evaluate(model, feeds) if provider == "eager" else outputs_on(provider, model, feeds))[0]

    real, full = signal(n, 1), signal(n, 2)
    assert_near(run(real), parts_of(np.fft.fft(complex_of(real))))
    assert_near(run(real, onesided=1), parts_of(np.fft.rfft(complex_of(real).real)))
    assert_near(run(full), parts_of(np.fft.fft(complex_of(full))))
    assert_near(run(full, inverse=1), parts_of(np.fft.ifft(complex_of(full))))
    half = full[:, : n // 2 + 1]
    assert_near(run(half, inverse=1, onesided=1), np.fft.irfft(complex_of(half), n)[..., None])


@pytest.mark.parametrize("n", LENGTHS)
def test_transforms_are_those_of_numpy(n: int) -> None:
    check("eager", n, known=True)


@pytest.mark.parametrize("n", [6, 509, 513, 1021, 3000])
def test_lengths_may_be_unknown(n: int) -> None:
    check(NUMPY, n, known=False)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(("n", "known"), [(96, True), (1021, True), (1200, True), (7, False), (600, False)])
def test_transforms_on_providers(provider: str, n: int, known: bool) -> None:
    require_provider(provider)
    check(provider, n, known)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("rows", "n"), [(64, 64), (99, 99), (60, 64), (61, 90), (50, 99), (256, 256), (400, 512), (300, 260), (258, 258)]
)
def test_half_of_the_bins_of_real_signals(provider: str, rows: int, n: int) -> None:
    require_provider(provider)
    x = signal(n, 1)[:, :rows]
    model, feeds = single("DFT", x, np.array(n), constants={1}, onesided=1)
    (found,) = outputs_on(provider, model, feeds)
    assert_near(found, parts_of(np.fft.rfft(complex_of(x).real, n)))


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("n", [20, 96, 512, 1200])
def test_the_first_and_the_middle_bin_of_real_signals_are_real(provider: str, n: int) -> None:
    """Their angles are 0 or pi, which models take, and nothing near the other end of the range."""
    require_provider(provider)
    model, feeds = single("DFT", signal(n, 1), np.array(n), constants={1}, onesided=1)
    (found,) = outputs_on(provider, model, feeds)
    assert not found[:, [0, n // 2], 1].any()


def test_doubles_keep_their_digits() -> None:
    x = signal(1500, 2, np.float64)
    (found,) = eager.evaluate(*single("DFT", x))
    assert_near(found, parts_of(np.fft.fft(complex_of(x))), 1e-13)


def test_one_plan_serves_all_lengths_up_to_a_power_of_two() -> None:
    model, _ = single("DFT", signal(5, 1))
    session = InferenceSession(model.SerializeToString(), providers=[NUMPY])
    used = []
    for n in (600, 700, 1000, 640):
        x = signal(n, 1)
        assert_near(session.run(None, {"x0": x})[0], parts_of(np.fft.fft(complex_of(x))))
        used.append(session.plans[0])
    assert all(plan is used[0] for plan in used)


def test_matrices_are_shared() -> None:
    """Two nodes of one length hold one matrix, and so do two sessions."""
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[1, 64, 1] x) => (float[A, B, C] y, float[A, B, C] z) {
      t = Neg (x)
      y = DFT (x)
      z = DFT (t)
    }"""
    data = onnx.parser.parse_model(text).SerializeToString()
    x = signal(64, 1)[:1]
    before = _known_matrix.cache_info()
    for _ in range(2):
        y, z = InferenceSession(data, providers=[WASM]).run(None, {"x": x})
        np.testing.assert_array_equal(y, -z)
    after = _known_matrix.cache_info()
    assert after.misses - before.misses <= 1
    assert after.hits > before.hits


@pytest.mark.parametrize("n", [16, 1200])
def test_short_signals_are_padded_and_long_ones_cut(n: int) -> None:
    for size in (n - 3, n + 5):
        x = signal(size, 1)
        (found,) = eager.evaluate(*single("DFT", x, np.array(n), onesided=1))
        assert_near(found, parts_of(np.fft.rfft(complex_of(x).real, n)))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_stft(provider: str) -> None:
    require_provider(provider)
    x, window = signal(300, 1), np.hanning(64).astype(np.float32)
    (found,) = outputs_on(provider, *single("STFT", x, np.array(20), window, np.array(64), constants={1, 2, 3}))
    frames = np.lib.stride_tricks.sliding_window_view(x[..., 0].astype(np.float64), 64, 1)[:, ::20]
    assert_near(found, parts_of(np.fft.rfft(frames * window)))


def test_frames_longer_than_the_signal() -> None:
    with pytest.raises(RuntimeException, match="frames of 30 elements do not fit into a signal of 20"):
        eager.evaluate(*single("STFT", signal(20, 1), np.array(4), None, np.array(30)))


def test_axis_of_the_parts() -> None:
    with pytest.raises(RuntimeException, match="axis 2 holds the parts of complex numbers"):
        eager.evaluate(*single("DFT", signal(4, 1), None, np.array(2)))


@pytest.mark.parametrize("name", ["HannWindow", "HammingWindow", "BlackmanWindow"])
def test_windows_of_one_point(name: str) -> None:
    """A symmetric window of one point divides by no zero."""
    (found,) = eager.evaluate(*single(name, np.array(1), periodic=0))
    assert np.isfinite(found).all()


def test_bands_of_a_spectrum_are_a_table_for_gpus() -> None:
    """They are computed in float64, which GPUs lack, and a bundle has no other place for that."""
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[F, 33] x) => (float[F, 40] y)
      <int64 bands = {40}, int64 n = {64}, int64 rate = {8000}, float low = {20.0}, float high = {3800.0}> {
        weights = MelWeightMatrix (bands, n, rate, low, high)
        y = MatMul (x, weights)
    }"""
    bundle = Bundle(compile(onnx.parser.parse_model(text).SerializeToString(), "webgpu"))
    assert [*bundle.manifest["weights"].values()] == [["float32", [33, 40]]]
