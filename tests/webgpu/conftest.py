"""The devices on which every test of this folder runs: the native one, and a browser's where slow tests are run."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from sardonyx_webgpu import provider
from sardonyx_webgpu.runtime import queue
from sardonyx_webgpu.runtime.device import WebGpuDevice
from tests.support.needs import require


@pytest.fixture(scope="session")
def native() -> WebGpuDevice:
    require("webgpu")
    return provider.device({})


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider's devices are opened anew, and are those of this test."""
    require("webgpu")
    monkeypatch.setattr(provider, "_devices", {})


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long work takes on a machine that is busy, it is one submission."""
    monkeypatch.setattr(queue, "BOUND", math.inf)


@pytest.fixture(scope="package")
def browser() -> Iterator[WebGpuDevice]:
    from tests.webgpu.browser import open_browser

    require("browser")
    with open_browser() as gpu:
        yield WebGpuDevice(gpu)


@pytest.fixture(params=["native", pytest.param("browser", marks=pytest.mark.slow)])
def device(request: pytest.FixtureRequest) -> WebGpuDevice:
    return request.getfixturevalue(request.param)
