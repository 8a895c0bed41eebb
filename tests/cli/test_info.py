"""`sardonyx info`."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from sardonyx import __version__
from sardonyx.cli import main
from sardonyx.providers import registry
from sardonyx.providers.contract import Device, Provider


class Absent(Provider):
    """A provider whose library is missing."""

    name = "AbsentExecutionProvider"

    def available(self) -> bool:
        return False

    def supports(self, *question: Any) -> bool:
        return False

    def device(self, options: object) -> Device:
        raise RuntimeError(f"{self.name}: the library is missing;\npip install it")


@pytest.fixture(autouse=True)
def two_providers(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy, and one that is not usable."""
    numpy = registry.load(registry.NUMPY)
    loaded = {registry.NUMPY: numpy, Absent.name: Absent()}
    monkeypatch.setattr(registry, "installed", lambda: loaded)
    monkeypatch.setattr(registry, "load", loaded.__getitem__)


@pytest.mark.usefixtures("screen")
def test_for_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    text = capsys.readouterr().out
    assert f"Sardonyx {__version__}" in text
    assert f"NumPy {np.__version__}" in text
    assert "not usable: the library is missing; pip" in text
    assert max(map(len, text.splitlines())) <= 80


def test_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SARDONYX_CACHE", "0")
    assert main(["info", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["numpy"] == np.__version__
    assert data["cache"] is None
    assert data["packages"]["onnx"]
    assert data["providers"] == [
        {"name": registry.NUMPY, "available": True, "problem": "", "details": {"numpy": np.__version__}},
        {
            "name": Absent.name,
            "available": False,
            "problem": "the library is missing; pip install it",
            "details": {},
        },
    ]


def test_a_provider_that_is_not_usable_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--provider", "absent"]) == 1
    expected = "sardonyx: AbsentExecutionProvider is not usable here: the library is missing; pip install it\n"
    assert capsys.readouterr().err == expected
