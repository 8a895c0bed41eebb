"""Hooks for PyInstaller, which finds them by the entry point `pyinstaller40`: frozen programs need nothing else."""

from __future__ import annotations

from pathlib import Path


def get_hook_dirs() -> list[str]:
    """The folder of the hooks."""
    return [str(Path(__file__).parent)]
