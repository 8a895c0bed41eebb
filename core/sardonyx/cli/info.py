"""show versions, execution providers and devices of this machine"""

from __future__ import annotations

import argparse
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from sardonyx.cli.screen import Screen, show
from sardonyx.common.extras import install
from sardonyx.version import __version__

PACKAGES = ("wgpu", "wasmtime", "rich", "pillow", "onnx", "onnxruntime")
"""Packages that add something where they are installed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Nothing to ask for."""


def run(args: argparse.Namespace) -> None:
    show(args, collect(), render)


def collect() -> dict[str, Any]:
    """The facts, as `--json` prints them."""
    from sardonyx.cli.devices import states

    return {
        "sardonyx": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "numpy": version("numpy"),
        "packages": {name: _version(name) for name in PACKAGES},
        "cache": _cache(),
        "providers": [
            {"name": state.name, "available": not state.problem, "problem": state.problem, "details": state.details}
            for state in states()
        ],
    }


def render(screen: Screen, data: dict[str, Any]) -> None:
    screen.heading(f"Sardonyx {data['sardonyx']}")
    packages = data["packages"]
    screen.facts(
        {
            "Python": f"{data['python']}, NumPy {data['numpy']}",
            "Platform": f"{data['platform']}, {data['cores']} cores",
            "Packages": ", ".join(f"{name} {found}" for name, found in packages.items() if found),
            "Missing": ", ".join(f"{name} ({install(name)})" for name, found in packages.items() if not found),
            "Cache": data["cache"] or "off",
        }
    )
    screen.heading("Execution providers")
    rows = []
    for item in data["providers"]:
        rows.append([item["name"], "usable" if item["available"] else f"not usable: {item['problem']}"])
        rows += [["", f"{name}: {value}"] for name, value in item["details"].items()]
    screen.table(["Provider", "State"], rows)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _cache() -> str | None:
    """Where plans and compiled code are kept between processes."""
    from sardonyx.common import cache

    return cache.directory()
