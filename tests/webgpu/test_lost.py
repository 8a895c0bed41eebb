"""Devices that are lost: sessions open another one, and run once more."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from sardonyx import InferenceSession
from sardonyx.demo import assets
from sardonyx_webgpu import provider

DIGITS = str(assets() / "digits.onnx")
PROVIDER = "WebGpuExecutionProvider"


def lose() -> None:
    """End the device as a driver that is reset does."""
    provider.device({}).gpu._device.destroy()


def test_sessions_run_once_more(alone: None) -> None:
    first, second = (InferenceSession(DIGITS, providers=[PROVIDER, "CPUExecutionProvider"]) for _ in range(2))
    image = np.random.default_rng(0).random((1, 1, 28, 28), np.float32)
    (expected,) = first.run(None, {"image": image})
    for _ in range(2):
        lose()
        with pytest.warns(RuntimeWarning, match="the GPU was lost; it is opened again"):
            np.testing.assert_array_equal(first.run(None, {"image": image})[0], expected)
        np.testing.assert_array_equal(first.run(None, {"image": image})[0], expected)
    with pytest.warns(RuntimeWarning, match="the GPU was lost"):
        np.testing.assert_array_equal(second.run(None, {"image": image})[0], expected)
    lose()
    later = InferenceSession(DIGITS, providers=[PROVIDER])
    np.testing.assert_array_equal(later.run(None, {"image": image})[0], expected)


@pytest.mark.filterwarnings("ignore:.*the GPU was lost")
def test_runs_that_are_awaited(alone: None) -> None:
    session = InferenceSession(DIGITS, providers=[PROVIDER])
    image = np.zeros((1, 1, 28, 28), np.float32)
    (expected,) = session.run(None, {"image": image})
    lose()

    async def run() -> Any:
        return await session.run_async(None, {"image": image})

    with ThreadPoolExecutor() as pool:  # this thread may have a loop of playwright's
        (found,) = pool.submit(asyncio.run, run()).result()
    np.testing.assert_array_equal(found, expected)
