"""Mutated models, and bundles: each gives a result or an error of this package, in little time and memory."""

import subprocess
import sys

import pytest

from tests.support import require

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is limited and measured by Linux's means")


def check(first: int, count: int, kind: str, provider: str = "NumpyExecutionProvider") -> None:
    """Run cases in a process that has no threads yet, since it forks."""
    arguments = ["--first", str(first), "--count", str(count), "--kind", kind, "--provider", provider]
    limit = 500 if count <= 500 else 3600
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=limit,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
def test_operators(part):
    check(part * 500, 500, "node")


@pytest.mark.slow
def test_real_models():
    check(0, 500, "real")


@pytest.mark.slow
def test_wasm():
    require("wasm")
    check(0, 100, "node", "WasmExecutionProvider")


@pytest.mark.slow
def test_manifests():
    require("wasm")
    check(0, 250, "bundle", "WasmExecutionProvider")


@pytest.mark.slow
def test_manifests_in_pages():
    require("node")
    check(0, 250, "bundle", "page")


@pytest.mark.slow
def test_damages_in_pages():
    require("node")
    check(0, 250, "damage", "page")


@pytest.mark.nightly
def test_more_damages_in_pages():
    require("node")
    check(250, 2500, "damage", "page")


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(1, 5))
@pytest.mark.parametrize("provider", ["WasmExecutionProvider", "page"])
def test_more_manifests(part, provider):
    require("wasm" if provider != "page" else "node")
    check(part * 2500, 2500, "bundle", provider)


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(1, 7))
def test_more_operators(part):
    check(part * 2500, 2500, "node")


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(1, 3))
def test_more_real_models(part):
    check(part * 2500, 2500, "real")
