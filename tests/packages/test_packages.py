"""Packages that import onnxruntime give the same answers where `sardonyx.compat` stands in for it."""

from __future__ import annotations

import subprocess
from functools import cache
from typing import Any

import pytest

from tests.engine.providers import require_provider
from tests.packages.__main__ import SIDES, report
from tests.packages.installed import PACKAGES
from tests.support import absent

FIRST = {"onnxruntime": "CPUExecutionProvider", "CPU": "WasmExecutionProvider"}
"""The provider of all sessions; else the one that `CPUExecutionProvider` stands for."""


@cache
def reported(name: str, side: str) -> dict[str, Any]:
    try:
        found = report(name, side)
    except subprocess.CalledProcessError as error:
        words = (error.stderr.strip().splitlines() or ["no reason is given"])[-1]
        if "pip" in error.cmd:
            absent(f"{name} cannot be installed: {words}")
        raise AssertionError(error.stderr) from None
    assert found["providers"] == [SIDES[side] or FIRST[side]]
    first, again = found["seconds"]
    print(f"{name}, {side}: {first:.2f} s with the models' loading, {again:.2f} s again")
    return found


def differences(one: Any, other: Any) -> list[str]:
    """Where two answers differ: pixels by more than one, other numbers by more than 0.001, words at all."""
    if isinstance(one, dict) and isinstance(other, dict):
        one, other = sorted(one.items()), sorted(other.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        return [line for a, b in zip(one, other) for line in differences(a, b)]
    if isinstance(one, float) and isinstance(other, float):
        same = abs(one - other) <= 1e-3
    elif isinstance(one, int) and isinstance(other, int):
        same = abs(one - other) <= 1
    else:
        same = one == other
    return [] if same else [f"{one!r} is not {other!r}"]


@pytest.mark.nightly
@pytest.mark.parametrize("side", [side for side in SIDES if side != "onnxruntime"])
@pytest.mark.parametrize("name", PACKAGES)
def test_answers(name: str, side: str) -> None:
    if provider := SIDES[side]:
        require_provider(provider)
    wanted = reported(name, "onnxruntime")["answer"]
    assert wanted
    assert differences(reported(name, side)["answer"], wanted) == []


def test_differences() -> None:
    answer = ["word", 0.5, [1, 2], {"at": 3.25}]
    assert differences(answer, ["word", 0.5009, [2, 1], {"at": 3.25}]) == []
    assert differences(answer, ["ward", 0.502, [3, 2], {"at": 3.26}]) == [
        *("'word' is not 'ward'", "0.5 is not 0.502", "1 is not 3", "3.25 is not 3.26"),
    ]
    assert differences([1], [1, 2]) == ["[1] is not [1, 2]"]
    assert differences([1.0], [None]) == ["1.0 is not None"]
