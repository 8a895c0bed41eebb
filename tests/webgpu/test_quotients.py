"""Quotients and roots of hardware, whose own ones are not exact: shaders as GPUs get them, on whatever plays one here.

Whether `fma` rounds once is the device's affair, and so is the last unit of one result in a thousand, where the true
one is all but halfway between two floats. What has an exact result has that, for what is rounded to integers stands or
falls with it.
"""

from __future__ import annotations

import numpy as np
import pytest

from sardonyx.code.program import call
from sardonyx_webgpu.runtime import device as module
from sardonyx_webgpu.runtime.device import WebGpuDevice
from tests.webgpu.harness import apply

COUNT = 1 << 16


@pytest.fixture
def hardware(native: WebGpuDevice, monkeypatch: pytest.MonkeyPatch) -> WebGpuDevice:
    """The device, whose shaders are not made simpler because a processor plays it."""
    monkeypatch.setattr(module, "exact", lambda text: text)
    return WebGpuDevice(native.gpu)


def drawn(rng: np.random.Generator, bits: int) -> np.ndarray:
    """Numbers of many sizes, with so many bits."""
    whole = rng.integers(1 << (bits - 1), 1 << bits, COUNT)
    return (whole * np.exp2(rng.integers(-40, 40, COUNT)) * rng.choice([-1, 1], COUNT)).astype(np.float32)


def check(found: np.ndarray, truth: np.ndarray) -> None:
    wanted = truth.astype(np.float32)
    off = np.abs(found.view(np.int32).astype(np.int64) - wanted.view(np.int32))
    assert off.max() <= 1, f"off by {off.max()} units"
    assert (off > 0).mean() < 1e-3, f"{(off > 0).mean():.2%} are not the nearest float"


def test_quotients_that_are_floats_are_exact(hardware: WebGpuDevice) -> None:
    rng = np.random.default_rng(0)
    quotient, divisor = drawn(rng, 11), drawn(rng, 13)
    found = apply(hardware, ["float32"] * 2, "float32", lambda x, y: x / y, quotient * divisor, divisor)
    np.testing.assert_array_equal(found, quotient)


def test_quotients_are_the_nearest_floats(hardware: WebGpuDevice) -> None:
    rng = np.random.default_rng(0)
    x, y = drawn(rng, 24), drawn(rng, 24)
    check(apply(hardware, ["float32"] * 2, "float32", lambda x, y: x / y, x, y), x.astype(np.float64) / y)


def test_roots_that_are_floats_are_exact(hardware: WebGpuDevice) -> None:
    root = np.abs(drawn(np.random.default_rng(0), 12))
    found = apply(hardware, ["float32"], "float32", lambda x: call("sqrt", x), root * root)
    np.testing.assert_array_equal(found, root)


def test_roots_are_the_nearest_floats(hardware: WebGpuDevice) -> None:
    x = np.abs(drawn(np.random.default_rng(0), 24))
    check(apply(hardware, ["float32"], "float32", lambda x: call("sqrt", x), x), np.sqrt(x.astype(np.float64)))
