"""The declarations of wasmtime's C API against those of the package that brings the library."""

from __future__ import annotations

import importlib
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from sardonyx.errors import EngineError
from sardonyx_wasm import hosts
from sardonyx_wasm.hosts import capi
from sardonyx_wasm.hosts.engine import Engine, SharedMemory


def test_they_agree_with_the_packages_own() -> None:
    assert capi.disagreements() == []
    assert version("wasmtime").split(".")[0] in capi.TESTED, "add this release, with which they agree"


def test_what_a_release_has_changed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = {"wasm_engine_new_with_config": "PQ:P", "wasmtime_module_delete": "Q:", "wasmtime_gone": "P:"}
    monkeypatch.setattr(capi, "FUNCTIONS", {**capi.FUNCTIONS, **changed})
    monkeypatch.setattr(capi, "EXTERN_TABLE", 7)
    assert capi.disagreements() == [*changed, "WASMTIME_EXTERN_TABLE"]
    monkeypatch.setattr(capi, "TESTED", ("1", "2"))
    with pytest.raises(
        EngineError, match=r"wasmtime \d.* has changed wasm_engine_new_with_config, .* 'wasmtime==2\.\*'"
    ):
        capi.open_library()


def test_a_library_that_is_damaged_or_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "wasmtime" / "linux-x86_64"
    folder.mkdir(parents=True)
    (tmp_path / "wasmtime" / "__init__.py").touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "wasmtime", raising=False)
    monkeypatch.setattr(hosts, "_host", None)
    importlib.invalidate_caches()
    assert not hosts.available()
    (folder / "_libwasmtime.so").write_bytes(b"no library")
    (tmp_path / "wasmtime-50.0.0.dist-info").mkdir()
    assert hosts.available()
    with pytest.raises(
        EngineError, match=r"cannot load wasmtime 50.0.0 \(.*_libwasmtime.so.*pip install .* wasmtime, or"
    ):
        capi.open_library()


def test_what_wasmtime_refuses_is_told_in_its_words() -> None:
    engine = Engine()
    with pytest.raises(capi.WasmtimeError, match="magic"):
        engine.validate(b"no module")
    memory = SharedMemory(engine, maximum=2)
    memory.grow(1)
    assert len(memory) == 2 << 16
    with pytest.raises(capi.WasmtimeError, match="grow"):
        memory.grow(1)


def test_what_is_not_declared_is_named() -> None:
    with pytest.raises(AttributeError, match="wasm_ref_copy is not declared in"):
        capi.api.wasm_ref_copy  # noqa: B018
