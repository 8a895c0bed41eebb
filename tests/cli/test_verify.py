"""`sardonyx verify`: what is right passes, what is wrong is found where it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from sardonyx.cli import comparison, main
from sardonyx.demo import assets
from sardonyx.numpy_backend import NumpyProvider
from sardonyx.providers import Executable, registry
from tests.support.forwarding import ForwardingDevice

Save = Callable[..., Path]
NUMPY = ("--provider", "numpy")


def verified(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> dict[str, Any]:
    assert main(["verify", *map(str, arguments), "--json"]) == code
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    return data


def test_digits(capsys: pytest.CaptureFixture[str]) -> None:
    data = verified(capsys, assets() / "digits.onnx", *NUMPY, "--shape", "N=2")
    assert data["passed"]
    nodes = data["nodes"]["checked"]
    assert len(nodes) == 36
    assert {node["reference"] for node in nodes} == {"float64"}
    assert 0 < max(node["error"] for node in nodes) < 1e-5
    assert data["nodes"]["skipped"] == []
    assert data["outputs"][0]["error"] < 1e-5


class Sloppy(NumpyProvider):
    """NumPy, whose device adds a hundredth to what CumSum gives."""

    name = "SloppyExecutionProvider"

    def device(self, options: Any) -> Any:
        return SloppyDevice(super().device(options))


class SloppyDevice(ForwardingDevice):
    def load(self, codes: Sequence[Any], segments: Sequence[Sequence[Any]]) -> Any:
        steps = [[self.inner.load(codes, [[launch]]) for launch in launches] for launches in segments]
        return SloppyExecutable(self.inner, steps, segments)


class SloppyExecutable(Executable):
    """Runs launches one by one."""

    def __init__(self, device: Any, steps: Sequence[Sequence[Any]], segments: Sequence[Sequence[Any]]) -> None:
        self._device, self._steps, self._segments = device, steps, segments

    def bind(self, segment: int, buffers: Any, params: Any) -> Callable[[], None]:
        runs = []
        for k, (executable, launch) in enumerate(zip(self._steps[segment], self._segments[segment], strict=True)):
            runs.append(executable.bind(0, [buffers[k]], [params[k]]))
            if "CumSum" in launch.label:
                runs.append(partial(self._spoil, buffers[k][-1]))

        def run() -> None:
            for each in runs:
                each()

        return run

    def _spoil(self, address: Any) -> None:
        array = self._device.download(address, np.dtype(np.float32), (address.nbytes // 4,)).copy()
        self._device.upload(address, array + np.float32(1e-2))


CHAIN = """g (float[N,3] x) => (float[N,3] y)
    { a = Exp (x)  k = Constant <value_int = 1> ()  b = CumSum (a, k)  c = Sqrt (b)  y = Neg (c) }"""


@pytest.fixture
def sloppy(monkeypatch: pytest.MonkeyPatch) -> str:
    loaded = {Sloppy.name: Sloppy(), registry.NUMPY: registry.load(registry.NUMPY)}
    monkeypatch.setattr(registry, "load", loaded.__getitem__)
    return Sloppy.name


@pytest.mark.usefixtures("screen")
def test_the_wrong_node_is_found(capsys: pytest.CaptureFixture[str], graph: Save, sloppy: str) -> None:
    model = graph(CHAIN)
    data = verified(capsys, model, "--provider", sloppy, code=1)
    errors = {node["operator"]: node["error"] for node in data["nodes"]["checked"]}
    assert data["first"]["operator"] == "CumSum"
    assert 5e-4 < errors.pop("CumSum") < 1e-2
    assert max(errors.values()) < 1e-6
    assert data["first"]["inputs"][0]["shape"] == [1, 3]
    assert data["first"]["provider"] == sloppy
    assert main(["verify", str(model), "--provider", sloppy]) == 1
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert "first to diverge" in text
    assert "First divergence: CumSum" in text
    assert "1 node and 0 outputs diverge" in text
    assert verified(capsys, model, "--provider", sloppy, "--tolerance", "0.1")["passed"]


def test_against_onnxruntime(capsys: pytest.CaptureFixture[str], graph: Save, sloppy: str) -> None:
    model = graph(CHAIN)
    data = verified(capsys, model, *NUMPY, "--against", "onnxruntime")
    assert data["nodes"] is None
    assert data["outputs"] == [{"name": "y", "error": data["outputs"][0]["error"], "diverges": False}]
    data = verified(capsys, model, "--provider", sloppy, "--against", "onnxruntime", "--tolerance", "1e-6", code=1)
    assert data["outputs"][0]["diverges"]
    assert main(["verify", str(model), *NUMPY, "--against", "onnxruntime"]) == 0
    assert "nothing diverges" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    [
        "g (float[4] x) => (float16[4] y) { y = Cast <to = 10> (x) }",
        "g (float16[4] x) => (float16[4] y) { a = Exp (x)  y = Tanh (a) }",
        "g (bfloat16[4] x) => (bfloat16[4] y) { y = Add (x, x) }",
        "g (float[4] x) => (int64[N] y) { h = Constant <value_float = 0.5> ()  b = Greater (x, h)  y = NonZero (b) }",
        "g (float[4] x) => (uint8[4] y, float s, uint8 z) { y, s, z = DynamicQuantizeLinear (x) }",
        "g (string[2] x) => (string[4] y) { y = Concat <axis = 0> (x, x) }",
        "g (float[4] x) => (seq(float[2]) y) { y = SplitToSequence (x) }",
        "g (float[4] x, bool c) => (float[4] y) { y = If (c) <then_branch = t () => (float[4] u) "
        "{ h = Constant <value_float = 0.5> ()  u = Mul (x, h) }, "
        "else_branch = e () => (float[4] v) { v = Exp (x) }> }",
    ],
)
def test_every_type(text: str, capsys: pytest.CaptureFixture[str], graph: Save) -> None:
    data = verified(capsys, graph(text), *NUMPY)
    assert data["passed"]
    assert data["nodes"]["skipped"] == []
    assert data["nodes"]["checked"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tolerance", "-1"], "--tolerance -1.0: take a relative error, as 1e-4"),
        (["--provider", "nobody"], "no execution provider is called 'nobody'"),
        (["--input", "absent.npy"], "absent.npy does not exist"),
    ],
)
def test_errors(arguments: list[str], message: str, relu: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(relu), *arguments]) == 1
    assert capsys.readouterr().err.startswith(f"sardonyx: {message}")


def test_comparison() -> None:
    x = np.float32([1, 2, 4])
    assert comparison.error(x, x.astype(np.float64)) == 0
    assert comparison.error(x, x + np.array([0, 0.01, 0])) == pytest.approx(0.0025, rel=1e-4)
    assert comparison.error(x, x + 1e-12) == 0  # the best float32 there is
    assert comparison.error(np.float32([np.nan, np.inf]), np.array([np.nan, np.inf])) == 0
    assert comparison.error(np.float32([np.nan]), np.array([1.0])) == np.inf
    assert comparison.error(x[:2], x) == np.inf
    assert comparison.error(np.array(["a"], object), np.array(["b"], object)) == np.inf
    assert comparison.error([x, None], [x, None]) == 0
    assert comparison.error([x], [x, x]) == np.inf
    assert comparison.error({"a": 1.0}, {"a": 1.0}) == 0
    assert comparison.error({"a": 1.0}, {"b": 1.0}) == np.inf
    assert comparison.error(np.float32([]), np.array([])) == 0


@pytest.fixture
def cancelling(tmp_path: Path) -> tuple[Path, str, Path]:
    """A model whose product leaves one element of 512 terms, each 1e5 times as large, and what to feed it."""
    signs = np.tile([1, -1], 256)
    weights = (np.repeat(np.random.default_rng(0).normal(size=256), 2) * signs * 1e3).astype(np.float32)
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 20]>
        g (float[1, 512] x) => (float[1, 1] y, float[1, 1] z) {
            y = MatMul(x, w)
            axis = Constant<value_int = 1>()
            z = CumSum(y, axis)
        }""")
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights[:, None], "w"))
    onnx.save(model, tmp_path / "cancel.onnx")
    near = np.ones((1, 512), np.float32) + np.float32(1e-5) * np.arange(512, dtype=np.float32)
    np.save(tmp_path / "x.npy", near / np.float32(3))
    return tmp_path / "cancel.onnx", "--input", tmp_path / "x.npy"


@pytest.mark.parametrize("provider", ["numpy", "wasm"])
def test_terms_that_cancel_each_other_do_not_diverge(
    provider: str, capsys: pytest.CaptureFixture[str], cancelling: tuple[Path, str, Path]
) -> None:
    data = verified(capsys, *cancelling, "--provider", provider, "--tolerance", "1e-5")
    assert [node["diverges"] for node in data["nodes"]["checked"]] == [False, False]


def test_what_is_wrong_behind_them_is_found(
    capsys: pytest.CaptureFixture[str], cancelling: tuple[Path, str, Path], sloppy: str
) -> None:
    assert verified(capsys, *cancelling, "--provider", sloppy, code=1)["first"]["operator"] == "CumSum"
