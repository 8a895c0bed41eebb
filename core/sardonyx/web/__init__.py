"""What pages need from Python, and `sardonyx web` puts into a folder; a page's own scripts are not Python.

    DIR/sardonyx/   the scripts; engine.json, which tells them what to load, and known.json, of what it can read
    DIR/pyodide/    the interpreter, NumPy, micropip, and the wheel of this package, all in one lock file; in lean/ what
                    compiling needs of Python, gzipped

A page that runs bundles needs `sardonyx/` alone; one that compiles models needs both; PyScript and JupyterLite, and
whoever else brings pages with Python in them, needs `pyodide/` alone.
"""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from sardonyx.errors import NoSuchFile


def scripts() -> Traversable:
    """The folder with the page runtime: in the wheel a part of this package, else web/sardonyx.

    Raises NoSuchFile where neither has it.

    >>> (scripts() / "runtime.js").is_file()
    True
    """
    checkout = Path(__file__).resolve().parents[3] / "web" / "sardonyx"
    for folder in (files(__name__) / "scripts", checkout):
        if (folder / "runtime.js").is_file():
            return folder
    raise NoSuchFile(f"the page runtime lies neither in the package sardonyx.web nor in {checkout}; reinstall sardonyx")
