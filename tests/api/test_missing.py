"""A library that is missing is told by its own name, with the command that installs it, where it was asked for."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import onnx
import pytest

import sardonyx
import sardonyx_wasm
from sardonyx.common import debug
from sardonyx.providers.registry import CPU, NUMPY, WASM, WEBGPU

ADD = onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["": 18]> g (float[3] x) => (float[3] y) { y = Add (x, x) }'
).SerializeToString()
MISSING = {
    WEBGPU: "wgpu is not installed; pip install wgpu",
    WASM: "wasmtime is not installed; pip install wasmtime threadpoolctl",
}


@pytest.fixture(params=MISSING)
def missing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a provider without its library."""
    webgpu = import_module("sardonyx_webgpu.provider")
    monkeypatch.setattr("sardonyx_wasm.hosts.library", lambda: None)
    monkeypatch.setattr("sardonyx_wasm.hosts._host", None)
    monkeypatch.setattr(sardonyx_wasm.provider, "_devices", {})
    monkeypatch.setattr(webgpu, "find_spec", lambda name: None)
    monkeypatch.setattr(webgpu.provider, "_devices", {})
    monkeypatch.setattr(debug, "_warned", set())
    return str(request.param)


def warning(ask: Callable[[], object]) -> Any:
    """The only warning of a call."""
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        ask()
    (one,) = record
    return one


def test_a_missing_library_is_told_where_it_was_asked_for(missing: str) -> None:
    def ask() -> None:
        sardonyx.InferenceSession(ADD, providers=[missing])

    found = warning(ask)
    assert str(found.message).startswith(f"{missing} is not available here (")
    assert MISSING[missing] in str(found.message)
    assert str(found.message).count(missing) == 1
    assert (found.filename, found.lineno) == (__file__, ask.__code__.co_firstlineno + 1)


def test_every_warning_is_of_the_callers_line(missing: str) -> None:
    """However deep it comes about."""
    options = sardonyx.SessionOptions()
    options.add_provider(missing, {})
    session = sardonyx.InferenceSession(ADD, providers=[NUMPY])
    for ask in (
        lambda: sardonyx.InferenceSession(ADD, options),
        lambda: session.set_providers([missing]),
        lambda: sardonyx.InferenceSession(ADD, providers=[(NUMPY, {"odd": "1"})]),
        lambda: sardonyx.InferenceSession(ADD, providers=[NUMPY], disabled_optimizers=[f"odd_{missing}"]),
        lambda: options.add_session_config_entry("session.set_denormal_as_zero", "1"),
    ):
        assert warning(ask).filename == __file__


def test_nothing_is_said_where_it_was_not_asked_for(missing: str) -> None:
    session = sardonyx.InferenceSession(ADD, providers=[CPU])
    assert missing not in session.get_providers()
