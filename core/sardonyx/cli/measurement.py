"""Times as a file that people can send in: of which machine and which model they are, and nothing of whose."""

from __future__ import annotations

import hashlib
import os
import platform
import struct
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from sardonyx.version import __version__

FORMAT, NUMBER = "sardonyx-bench", 1
PACKAGES = ("numpy", "wasmtime", "wgpu", "onnxruntime")
PROCESSORS = Path("/proc/cpuinfo")
NAMES = ("model name", "Hardware", "CPU part")
"""Where Linux tells which processor it is: on PCs, on boards, and as Arm's number of the core."""


def measurement(data: dict[str, Any], model: Path) -> dict[str, Any]:
    """What `--export` writes of what `bench` found: the file's name and digest instead of its path, no host's name."""
    with model.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "format": FORMAT,
        "version": NUMBER,
        "day": datetime.now(UTC).date().isoformat(),
        "sardonyx": __version__,
        "machine": machine(),
        "model": {"name": model.name, "sha256": digest, "bytes": model.stat().st_size},
        **{key: data[key] for key in ("runs", "threads", "assumed", "base", "sides", "board")},
    }


def machine() -> dict[str, Any]:
    """The machine, as far as times depend on it."""
    return {
        "system": platform.system(),
        "release": platform.release(),
        "architecture": platform.machine(),
        "bits": 8 * struct.calcsize("P"),
        "processor": processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
    }


def processor() -> str:
    """What the system calls the processor, "" where it does not tell."""
    try:
        lines = PROCESSORS.read_text(errors="replace").splitlines()
    except OSError:
        return platform.processor()
    told = dict(reversed([[part.strip() for part in line.split(":", 1)] for line in lines if ":" in line]))
    return next((f"{name} {told[name]}" if name == "CPU part" else told[name] for name in NAMES if name in told), "")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
