"""The wheel in a Raspberry Pi's userlands, where QEMU stands for the processor: the demo and samples of operators."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.edge.userland import Board
from tests.support.samples import CASES, check

NUMPY, WASM = "NumpyExecutionProvider", "WasmExecutionProvider"
LIMIT = 1200
"""Seconds for some samples: an emulated processor takes 30 times as long, and the machine may be busy."""

BITS = """
import json, platform, struct, sys, types
import numpy as np

platform.machine = lambda: "aarch64"  # what a kernel of 64 bits says to a userland of 32
found = types.ModuleType("wasmtime")
found.__spec__ = types.SimpleNamespace(name="wasmtime")
sys.modules.setdefault("wasmtime", found)
from sardonyx_wasm.hosts import available

facts = {"bits": 8 * struct.calcsize("P"), "numpy": np.__version__, "python": sys.version_info[:2]}
print(json.dumps({**facts, "wasm": available()}))
"""


def demo(board: Board) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(board.run("-W", "error", "-m", "sardonyx", "demo", "--json"))
    return data


def ran(data: dict[str, Any]) -> list[str]:
    return [device["providers"][0] for device in data["devices"] if not device["problem"]]


@pytest.mark.slow
def test_demo_on_32_bits(armhf: Board) -> None:
    data = demo(armhf)
    assert ran(data) == [NUMPY]
    assert all(image["digit"] == image["label"] for image in data["images"])


@pytest.mark.slow
def test_bits_are_those_of_the_userland(armhf: Board) -> None:
    """Not those of the kernel: there is no WebAssembly for 32 bits, even where wasmtime can be imported."""
    facts = json.loads(armhf.run_code(BITS))
    assert facts == {"bits": 32, "numpy": "1.24.2", "python": [3, 11], "wasm": False}


@pytest.mark.slow
def test_a_tenth_on_32_bits(armhf: Board) -> None:
    check(lambda code, files: armhf.run_code(code, files, timeout=LIMIT), NUMPY, CASES[::10])


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(4))
def test_all_on_32_bits(armhf: Board, part: int) -> None:
    check(lambda code, files: armhf.run_code(code, files, timeout=4 * LIMIT), NUMPY, CASES[part::4])


@pytest.mark.nightly
def test_demo_on_64_bits(arm64: Board) -> None:
    data = demo(arm64)
    assert set(ran(data)) == {NUMPY, WASM}
    assert all(image["digit"] == image["label"] for image in data["images"])
    assert all(device["same"] for device in data["devices"] if not device["problem"])


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(4))
def test_all_on_64_bits(arm64: Board, part: int) -> None:
    check(lambda code, files: arm64.run_code(code, files, timeout=4 * LIMIT), NUMPY, CASES[part::4])


@pytest.mark.nightly
def test_a_hundredth_in_webassembly(arm64: Board) -> None:
    check(lambda code, files: arm64.run_code(code, files, timeout=4 * LIMIT), WASM, CASES[::100])


@pytest.mark.nightly
def test_demo_on_trixie(trixie: Board) -> None:
    data = demo(trixie)
    assert ran(data) == [NUMPY]
    assert all(image["digit"] == image["label"] for image in data["images"])


@pytest.mark.nightly
def test_a_tenth_on_trixie(trixie: Board) -> None:
    check(lambda code, files: trixie.run_code(code, files, timeout=LIMIT), NUMPY, CASES[::10])
