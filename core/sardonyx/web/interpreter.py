"""Who makes bytecode for a Pyodide: a Python of its version on this machine, or that Pyodide itself, in Node."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from sardonyx.web import bytecode

LIMIT = 600
"""Seconds until an interpreter is given up."""
VERSION = "import platform; print(platform.python_implementation(), *platform.python_version_tuple())"
NODE = """
import { pathToFileURL } from "node:url";
const [folder, script] = process.argv.slice(1);
const { loadPyodide } = await import(pathToFileURL(`${folder}/pyodide.mjs`));
const python = await loadPyodide({ env: { HOME: "/home", PYTHONNODEBUGRANGES: "1" } });
for (const [place, path] of [["/made", folder], ["/script", script]]) {
  python.FS.mkdir(place);
  python.FS.mount(python.FS.filesystems.NODEFS, { root: path }, place);
}
python.runPython(`
import sys, pathlib
sys.path.insert(0, "/script")
import bytecode
bytecode.main(pathlib.Path("/made"))
`);
"""
"""It is told the folder with Pyodide and the archives, and that of the script."""


def made(files: Mapping[str, bytes], version: str) -> dict[str, bytes] | None:
    """What `bytecode.py` makes of these archives, as `whole/` and `lean/`, or None where nobody can make it.

    `files` are those of a distribution of Pyodide whose Python is `version`, and wheels.
    """
    script = Path(bytecode.__file__)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name, data in files.items():
            (folder / name).write_bytes(data)
        command = [str(script), scratch]
        python = native(version)
        if python:
            command = [python, "-I", "-X", "no_debug_ranges", *command]
        else:
            command = ["node", "--input-type=module", "--eval", NODE, scratch, str(script.parent)]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=LIMIT)
        except (OSError, subprocess.SubprocessError):
            return None
        found = [path for part in ("whole", "lean") for path in (folder / part).iterdir()]
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def native(version: str) -> str | None:
    """A Python on this machine whose bytecode one of `version` takes: a release of the same minor version.

    >>> native("2.5.2")
    """
    wanted = version.split(".")[:2]
    for name in (sys.executable, f"python{'.'.join(wanted)}"):
        path = shutil.which(name)
        if path:
            done = subprocess.run([path, "-I", "-c", VERSION], capture_output=True, text=True)
            implementation, *found = done.stdout.split() or [""]
            if implementation == "CPython" and found[:2] == wanted and found[2].isdigit():
                return path
    return None
