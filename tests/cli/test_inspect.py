"""`sardonyx inspect`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto

from sardonyx.cli import main
from sardonyx.demo import assets
from sardonyx.numpy_backend import NumpyProvider
from sardonyx.providers import registry

Save = Callable[..., Path]
FLOAT = TensorProto.FLOAT


def inspected(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> dict[str, Any]:
    assert main(["inspect", *map(str, arguments), "--json"]) == code
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    return data


def test_json_of_digits(capsys: pytest.CaptureFixture[str]) -> None:
    path = assets() / "digits.onnx"
    data = inspected(capsys, path, "--provider", "numpy")
    assert data["bytes"] == os.path.getsize(str(path))
    assert data["opsets"] == {"ai.onnx": 17}
    assert data["inputs"] == [{"name": "image", "type": "float32[N,1,28,28]"}]
    assert data["outputs"] == [{"name": "probabilities", "type": "float32[N,10]"}]
    assert data["nodes"] == sum(item["count"] for item in data["operators"]) == 36
    assert {"domain": "ai.onnx", "name": "Conv", "count": 10, "known": True} in data["operators"]
    assert data["parameter_bytes"] == 4 * data["parameters"]
    assert data["parameter_types"] == [
        {"type": "float32", "count": data["parameters"], "bytes": data["parameter_bytes"]}
    ]
    assert sum(item["count"] for item in data["rewrites"]) >= 10
    assert all(item["does"] and item["count"] for item in data["rewrites"])
    assert data["unsupported"] == []
    assert data["metadata"]["classes"] == "0,1,2,3,4,5,6,7,8,9"
    compiled = data["compiled"]
    assert compiled["error"] is None
    assert compiled["assumed"] == ["N"]
    assert compiled["symbols"] == {"N": 1}
    assert compiled["placement"][registry.NUMPY] + compiled["folded"] == 36
    assert compiled["launches"] >= compiled["kernels"] > 0
    assert compiled["copies"] == compiled["halts"] == 0
    assert compiled["memory"][registry.NUMPY] >= 2 * 4 * 16 * 28 * 28


@pytest.mark.usefixtures("screen")
def test_for_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(assets() / "digits.onnx"), "--provider", "numpy"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    for part in ("ai.onnx 17", "BatchNormalization", "float32[N,10]", "N = 1", "on NumPy", "KiB"):
        assert part in text


def test_memory_grows_with_the_shape(capsys: pytest.CaptureFixture[str], relu: Path) -> None:
    small = inspected(capsys, relu, "--provider", "numpy")["compiled"]
    large = inspected(capsys, relu, "--provider", "numpy", "--shape", "x=1000x3")["compiled"]
    assert small["memory"] == {registry.NUMPY: 2 * 256}
    assert large["memory"] == {registry.NUMPY: 2 * 12032}  # 12,000 bytes, aligned to 256
    assert large["assumed"] == []


def test_guards_name_dimensions(capsys: pytest.CaptureFixture[str], model: Save) -> None:
    path = model("Add", [("a", FLOAT, ["rows"]), ("b", FLOAT, [None])], [("y", FLOAT, [None])])
    data = inspected(capsys, path, "--provider", "numpy", "--shape", "a=3", "--shape", "b=1")
    assert data["compiled"]["symbols"] == {"rows": 3, "b.shape[0]": 1}
    assert any("rows" in guard for guard in data["compiled"]["guards"])


def test_an_unknown_operator(capsys: pytest.CaptureFixture[str], model: Save) -> None:
    path = model("Frobnicate", [("x", FLOAT, [3])], [("y", FLOAT, [3])], domain="acme")
    data = inspected(capsys, path, "--provider", "numpy", code=1)
    (unsupported,) = data["unsupported"]
    assert (unsupported["domain"], unsupported["name"], unsupported["nodes"]) == (
        "acme",
        "Frobnicate",
        ["acme.Frobnicate 'n'"],
    )
    assert "@sardonyx.custom_op" in unsupported["remedy"]
    assert data["operators"] == [{"domain": "acme", "name": "Frobnicate", "count": 1, "known": False}]
    assert "Frobnicate" in data["compiled"]["error"]
    assert main(["inspect", str(path), "--provider", "numpy"]) == 1
    assert "does not compile" in capsys.readouterr().out


class Exact(NumpyProvider):
    """NumPy without divisions."""

    name = "ExactExecutionProvider"

    def supports(self, primitive: str, *arguments: Any) -> bool:
        return primitive == "reshape"


@pytest.mark.usefixtures("screen")
def test_what_falls_back_and_why(
    capsys: pytest.CaptureFixture[str], relu: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = {Exact.name: Exact(), registry.NUMPY: registry.load(registry.NUMPY)}
    monkeypatch.setattr(registry, "load", loaded.__getitem__)
    data = inspected(capsys, relu, "--provider", Exact.name)["compiled"]
    assert data["placement"] == {Exact.name: 0, registry.NUMPY: 1}
    assert data["nodes"] == {"Relu 'n'": registry.NUMPY}
    expected = {"node": "Relu 'n'", "provider": registry.NUMPY, "reason": "no elementwise of float32"}
    assert data["fallbacks"] == [expected]
    assert main(["inspect", str(relu), "--provider", Exact.name]) == 0
    assert "no elementwise of float32" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("z=1", "--shape z=1: there is no input or dimension 'z'; the model has x, N"),
        ("x=1x4", "--shape x=1x4: the model declares Nx3"),
        ("x=1xa", "--shape x=1xa: write sizes with x between them, as in 1x3x224x224"),
    ],
)
def test_wrong_shapes(capsys: pytest.CaptureFixture[str], relu: Path, shape: str, message: str) -> None:
    assert main(["inspect", str(relu), "--shape", shape]) == 1
    assert capsys.readouterr().err == f"sardonyx: {message}\n"


def test_no_model(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "page.onnx"
    path.write_text("<html></html>")
    assert main(["inspect", str(path)]) == 1
    assert "HTML" in capsys.readouterr().err
    assert main(["inspect", str(path), "--provider", "nobody"]) == 1
    assert "no execution provider is called 'nobody'" in capsys.readouterr().err
