"""The recipe for Pyodide's distribution, read by Pyodide's own build tool."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sardonyx.version import __version__
from sardonyx.web.wheel import PACKAGES
from tests.support import absent
from tests.support.cache import CACHE, cached
from tests.support.wheel import ROOT

RECIPE = ROOT / "wasm" / "recipe" / "meta.yaml"
TOOL = "pyodide-build-0.25.1"
WANTED = ("pyodide-build==0.25.1", "pydantic==1.10.27", "typing_extensions", "pyyaml")
"""What reads recipes, apart from the tests' own packages: the tool wants older ones than they do."""
READ = """
import sys
from pathlib import Path
from pyodide_build.io import MetaConfig

recipe = MetaConfig.from_yaml(Path(sys.argv[1]))
print(recipe.json(by_alias=True))
"""


def install(scratch: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--disable-pip-version-check"]
    subprocess.run([*command, "--target", str(scratch / TOOL), *WANTED], check=True, timeout=500)


@pytest.mark.slow
def test_the_build_tool_accepts_it() -> None:
    try:
        tool = cached(CACHE / TOOL, install)
    except subprocess.CalledProcessError as error:
        absent(f"pyodide-build cannot be installed: {error}")
    environment = {**os.environ, "PYTHONPATH": str(tool)}
    command = [sys.executable, "-c", READ, str(RECIPE)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    recipe = json.loads(done.stdout)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (recipe["package"]["name"], recipe["package"]["version"]) == (project["name"], __version__)
    assert Path(recipe["source"]["path"]).resolve() == ROOT
    assert recipe["requirements"]["run"] == [each.partition(">")[0] for each in project["dependencies"]] == ["numpy"]
    assert recipe["test"]["imports"] == recipe["package"]["top-level"] == [*PACKAGES]
    assert recipe["about"]["license"] == project["license"]
