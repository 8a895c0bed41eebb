"""The wheel inside Pyodide, and the harness that takes it there."""

from __future__ import annotations

import pytest
from onnx import parser

from tests.support import lines_from_pyodide, require, run_in_pyodide

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _pyodide() -> None:
    require("pyodide")


def test_imports_beside_numpy() -> None:
    printed = run_in_pyodide("""
        import numpy, sardonyx, sys
        from importlib.metadata import entry_points, version
        print(sys.platform, numpy.__version__, version("sardonyx"))
        print(*sorted(entry_points(group="sardonyx.execution_providers").names))
        print(*sardonyx.get_available_providers())
    """)
    from sardonyx.version import __version__

    assert printed.splitlines() == [
        f"emscripten 2.0.2 {__version__}",
        "NumpyExecutionProvider WasmExecutionProvider WebGpuExecutionProvider",
        "CPUExecutionProvider WasmExecutionProvider NumpyExecutionProvider",  # Node has no WebGPU
    ]


def test_numpys_own_integers_are_fed_where_int64_is_wanted() -> None:
    text = '<ir_version: 10, opset_import: ["": 21]> g (int64[N] x, int64 n) => (int64[N] y) { y = Add(x, n) }'
    code = """
        import numpy as np
        from sardonyx import InferenceSession
        for provider in ("WasmExecutionProvider", "NumpyExecutionProvider"):
            session = InferenceSession("add.onnx", providers=[provider])
            print(*session.run(None, {"x": np.array([1, 2]), "n": np.array(2**31 - 1)})[0])
    """
    printed = run_in_pyodide(code, {"add.onnx": parser.parse_model(text).SerializeToString()})
    assert printed.split() == 2 * ["2147483648", "2147483649"]


def test_files_and_numpy_arithmetic() -> None:
    code = "import numpy; print(numpy.frombuffer(open('words', 'rb').read(), '<u4').sum(), end='')"
    assert run_in_pyodide(code, {"words": bytes([1, 0, 0, 0, 2, 1, 0, 0])}) == "259"


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("import sys; sys.exit(3)", "exited with 3"),
        ("raise SystemExit('so it ends')", "exited with 1:\nso it ends"),
        ("print(numpy)", "NameError"),
    ],
)
def test_failures_reach_the_host(code: str, complaint: str) -> None:
    with pytest.raises(RuntimeError, match=complaint):
        run_in_pyodide(code)


def test_lines_come_before_the_interpreter_dies() -> None:
    lines = lines_from_pyodide("import ctypes; print('é', flush=True); ctypes.string_at(2**32 - 8, 99)")
    assert next(lines) == "é"
    with pytest.raises(RuntimeError, match="memory access out of bounds"):
        list(lines)


@pytest.mark.nightly
def test_a_line_that_does_not_come_ends_it() -> None:
    lines = lines_from_pyodide("print(1, flush=True)\nwhile True: pass", limit=60)
    assert next(lines) == "1"
    with pytest.raises(TimeoutError, match="nothing in 60 s"):
        next(lines)
