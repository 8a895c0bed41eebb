"""The devices on which every test of this folder runs: the native one, and a browser's where slow tests are run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sardonyx_webgpu import provider
from sardonyx_webgpu.device import WebGpuDevice
from tests.support.needs import require


@pytest.fixture(scope="session")
def native() -> WebGpuDevice:
    require("webgpu")
    return provider.device({})


@pytest.fixture(scope="package")
def browser() -> Iterator[WebGpuDevice]:
    from tests.webgpu.browser import open_browser

    require("browser")
    with open_browser() as gpu:
        yield WebGpuDevice(gpu)


@pytest.fixture(params=["native", pytest.param("browser", marks=pytest.mark.slow)])
def device(request: pytest.FixtureRequest) -> WebGpuDevice:
    return request.getfixturevalue(request.param)
