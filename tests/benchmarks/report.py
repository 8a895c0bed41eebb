"""Where figures go: to the terminal, and into a section of README.md that a benchmark owns."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

README = Path(__file__).with_name("README.md")


def publish(section: str, lines: Sequence[str], write: bool) -> None:
    """Print `lines`; with `write`, put them between the comments in README.md that name the section."""
    text = "\n".join(lines)
    print(text)
    if write:
        pattern = rf"(<!-- {section} -->\n).*?(<!-- /{section} -->)"
        page, count = re.subn(
            pattern, lambda found: found[1] + text + "\n" + found[2], README.read_text(), flags=re.DOTALL
        )
        assert count == 1, f"{README} has {count} sections {section}"
        README.write_text(page)


def collected(models: Iterable[str], measure: Callable[[str], Any], told: bool) -> dict[str, Any]:
    """Return the figures of each model; with `told`, print them as soon as they are there.

    >>> collected(["tiny"], len, told=True)
    tiny: 4
    {'tiny': 4}
    """
    rows = {}
    for id in models:
        rows[id] = measure(id)
        if told:
            print(f"{id}: {json.dumps(rows[id])}", flush=True)
    return rows


def published(section: str) -> list[str]:
    """Return the lines that README.md has between the comments that name a section."""
    found = re.search(rf"<!-- {section} -->\n(.*?)<!-- /{section} -->", README.read_text(), flags=re.DOTALL)
    assert found, f"{README} has no section {section}"
    return found[1].splitlines()


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table in Markdown, its first column text and the others numbers.

    >>> table(["model", "ms"], [["tiny", "1.5"]])
    ['| model | ms |', '|---|--:|', '| tiny | 1.5 |']
    """
    first, *others = ("| " + " | ".join(row) + " |" for row in [head, *rows])
    return [first, "|---|" + "--:|" * (len(head) - 1), *others]


def machine() -> str:
    """Say in a line what this machine is, and which versions it runs."""
    packages = ("numpy", "onnxruntime", "wasmtime", "wgpu")
    found = [
        f"Python {platform.python_version()}",
        *(f"{name} {installed}" for name in packages if (installed := _version(name))),
    ]
    return f"{processor()}; {', '.join(found)}; WebGPU on {_adapter()}"


def processor() -> str:
    """Say what processor this machine has, how many of its cores are ours, and under which system."""
    return f"{_model()}, {_cores()} cores, {platform.system()}"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _model() -> str:
    information = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.*)", information.read_text()) if information.exists() else []
    return names[0] if names else platform.processor() or platform.machine()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _adapter() -> str:
    try:
        import wgpu
    except ImportError:
        return "nothing"
    adapter = wgpu.gpu.request_adapter_sync(power_preference="high-performance")
    return str(adapter.info["device"])
