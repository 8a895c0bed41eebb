"""`sardonyx optimize`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from sardonyx.cli import main
from sardonyx.demo import assets

Save = Callable[..., Path]
FOLDABLE = """g (float[N] x) => (float[N] y) <float[1] a = {2}, float[1] b = {3}>
    { c = Add (a, b)  d = Add (a, b)  e = Mul (c, d)  f = Identity (x)  y = Mul (f, e) }"""


@pytest.mark.parametrize("level", ["basic", "extended", "all"])
def test_onnxruntime_runs_what_is_written(
    level: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], rng: np.random.Generator
) -> None:
    source, target = assets() / "digits.onnx", tmp_path / "new" / "small.onnx"
    assert main(["optimize", str(source), "--output", str(target), "--level", level, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["nodes"] == {"before": 36, "after": len(onnx.load(target).graph.node)}
    assert data["nodes"]["after"] <= (36 if level == "basic" else 28)
    assert data["opsets"]["before"] == {"ai.onnx": 17}
    assert level == "basic" or sum(rule["count"] for rule in data["rules"]) >= 10
    x = rng.random((2, 1, 28, 28)).astype(np.float32)
    before, after = (
        onnxruntime.InferenceSession(path.read_bytes()).run(None, {"image": x})[0] for path in (source, target)
    )
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-6)


def test_folding_is_told(graph: Save, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "out.onnx"
    assert main(["optimize", str(graph(FOLDABLE)), "--output", str(target), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["nodes"] == {"before": 5, "after": 1}
    assert "constant_folding" in {rule["rule"] for rule in data["rules"]}
    assert all(" -> " in rule["does"] for rule in data["rules"])


def test_another_operator_set(graph: Save, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "out.onnx"
    arguments = ["optimize", str(graph(FOLDABLE, opset=13)), "--output", str(target)]
    assert main([*arguments, "--opset", "17", "--json"]) == 0
    opsets = json.loads(capsys.readouterr().out)["opsets"]
    assert (opsets["before"]["ai.onnx"], opsets["after"]["ai.onnx"]) == (13, 17)
    assert {item.domain: item.version for item in onnx.load(target).opset_import}[""] == 17


def test_a_node_may_need_a_newer_one(graph: Save, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = graph("g (float[N] x) => (float[N] y) { y = Gelu (x) }")
    assert main(["optimize", str(model), "--output", str(tmp_path / "out.onnx"), "--opset", "13"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Some nodes cannot be said in operator set 13; 20 is the first." in text
    assert "No rule applied" in text


@pytest.mark.usefixtures("screen")
def test_for_a_person(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["optimize", str(assets() / "digits.onnx"), "--output", "out.onnx"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    for part in ("digits.onnx, optimized", "Before", "After", "Nodes", "Rule", "out.onnx"):
        assert part in text


def test_errors(graph: Save, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = graph(FOLDABLE)
    before = model.read_bytes()
    assert main(["optimize", str(model), "--output", str(model)]) == 1
    assert "is the model itself; give another file" in capsys.readouterr().err
    assert model.read_bytes() == before
    assert main(["optimize", str(model), "--output", str(tmp_path / "o.onnx"), "--opset", "99"]) == 1
    assert "--opset 99: the operator sets of ai.onnx that are known are 1.." in capsys.readouterr().err
    assert main(["optimize", str(tmp_path / "absent.onnx"), "--output", str(tmp_path / "o.onnx")]) == 1
    assert "absent.onnx does not exist" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["optimize", str(model)])
    with pytest.raises(SystemExit, match="2"):
        main(["optimize", str(model), "--output", "o.onnx", "--level", "most"])
