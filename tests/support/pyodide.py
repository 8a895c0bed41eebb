"""Python code in Pyodide, the CPython that runs in browsers, here inside Node."""

from __future__ import annotations

import subprocess
import tempfile
import textwrap
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
    with _command(code, files, node_args) as command:
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=timeout)
    if done.returncode:
        raise RuntimeError(f"Pyodide exited with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def lines_from_pyodide(
    code: str, files: Mapping[str, bytes] | None = None, *, node_args: Sequence[str] = (), limit: float = 60
) -> Iterator[str]:
    """Run `code` as `run_in_pyodide` does, and yield each line that it prints, at once.

    Raises:
        TimeoutError: the next line took longer than `limit` seconds.
        RuntimeError: the code raised or exited with another code than 0; the message holds its standard error.
    """
    late = threading.Event()

    def stop() -> None:
        late.set()
        process.kill()

    with (
        _command(code, files, node_args) as command,
        tempfile.TemporaryFile("w+", encoding="utf-8") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, encoding="utf-8") as process,
    ):
        assert process.stdout is not None
        try:
            while True:
                timer = threading.Timer(limit, stop)
                timer.start()
                line = process.stdout.readline()
                timer.cancel()
                if not line or late.is_set():
                    break
                yield line.rstrip("\n")
            process.wait()
        finally:
            timer.cancel()
            process.kill()
        if late.is_set():
            raise TimeoutError(f"Pyodide printed nothing in {limit:g} s")
        if process.returncode:
            errors.seek(0)
            raise RuntimeError(f"Pyodide exited with {process.returncode}:\n{errors.read()[-4000:]}")


@contextmanager
def _command(code: str, files: Mapping[str, bytes] | None, node_args: Sequence[str]) -> Iterator[list[str]]:
    """What starts Node, and a folder with the files as long as it may run."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in (files or {}).items():
            (Path(folder) / name).write_bytes(content)
        script = Path(folder) / "__main__.py"
        script.write_text(textwrap.dedent(code), encoding="utf-8")
        yield ["node", *node_args, *map(str, (RUNNER, assemble(), build_wheel(), script))]
