"""Python code in Pyodide, the CPython that runs in browsers, here inside Node."""

from __future__ import annotations

import subprocess
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.pyodide.assemble import RUNNER, assemble

from .wheel import build_wheel


def run_in_pyodide(
    code: str, files: Mapping[str, bytes] | None = None, *, node_args: Sequence[str] = (), timeout: float = 300
) -> str:
    """Run `code` in Pyodide with NumPy and this repository's wheel, and return what it printed.

    Args:
        code: Python source, dedented before it runs; top-level `await` is allowed.
        files: names and contents of files to find in the current directory.
        node_args: flags for Node itself, such as `--experimental-wasm-relaxed-simd`.
        timeout: seconds until the run is ended.

    Raises:
        RuntimeError: the code raised or exited with another code than 0; the message holds its standard error.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name, content in (files or {}).items():
            (Path(folder) / name).write_bytes(content)
        script = Path(folder) / "__main__.py"
        script.write_text(textwrap.dedent(code), encoding="utf-8")
        command = ["node", *node_args, *map(str, (RUNNER, assemble(), build_wheel(), script))]
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=timeout)
    if done.returncode:
        raise RuntimeError(f"Pyodide exited with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout
