"""What is said of packages that are missing: names that exist, and nothing to install that is not there yet."""

from __future__ import annotations

import re
import tomllib

import pytest

from sardonyx.common import extras
from tests.support.wheel import ROOT

PLACES = ("core", "wasm", "webgpu_backend", "web", "edge", "examples")
TEXTS = {".py", ".js", ".mjs", ".html", ".ipynb", ".toml", ".service"}


def test_the_extras_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extra, packages in extras.EXTRAS.items():
        assert set(packages) <= {re.split(r"[\[<>=]", line)[0] for line in project[extra]}


def test_one_place_says_how_to_install() -> None:
    """Code names no package of ours for pip, which would take whatever somebody else registers."""
    files = [path for place in PLACES for path in (ROOT / place).rglob("*") if path.suffix in TEXTS]
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in files
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"sardonyx\[", line)
    ]
    assert len(files) > 300
    assert found == []


@pytest.mark.parametrize("package", [package for packages in extras.EXTRAS.values() for package in packages])
def test_the_command_begins_with_what_is_missing(package: str) -> None:
    assert extras.missing(package).startswith(f"{package} is not installed; pip install {package}")
