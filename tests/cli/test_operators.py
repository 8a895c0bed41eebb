"""`sardonyx inspect --operators`, and its table."""

from __future__ import annotations

import json

import pytest

from sardonyx import ops
from sardonyx.cli import main, operators
from sardonyx.providers import registry
from tests.operators.placement import table

REMEDY = "python -m tests.operators --write"


def test_every_operator_is_in_the_table() -> None:
    known = {key for key, operator in ops.load().items() if operator.__module__.startswith("sardonyx.ops.")}
    current = {(domain, name) for domain, name in known if hasattr(ops.REGISTRY[domain, name], "expand")}
    listed = {("" if row["domain"] == "ai.onnx" else row["domain"], row["name"]) for row in operators.table()}
    assert listed == current, REMEDY
    for row in operators.table():
        assert all(operators.word(row[provider]) for provider in operators.COLUMNS), row
    assert operators.MARKDOWN.read_text() == operators.markdown(operators.table()), REMEDY


def test_onnxruntime_web() -> None:
    assert len(operators.ONNXRUNTIME_WEB) == 108


def test_what_is_known_of_some() -> None:
    found = {(row["domain"], row["name"]): row for row in operators.table()}
    conv = found["ai.onnx", "Conv"]
    assert set(conv[registry.WEBGPU]) == set(conv[registry.WASM]) == {"native"}
    assert set(found["ai.onnx", "StringConcat"][registry.WEBGPU]) == {"host"}
    assert set(found["ai.onnx", "NonZero"][registry.WASM]) == {"steps"}
    assert set(found["ai.onnx", "Shape"][registry.WASM]) == {"folded"}


@pytest.mark.usefixtures("screen")
def test_for_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "--operators"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    (conv,) = (line.split() for line in lines if line.split()[:1] == ["Conv"])
    assert conv == ["Conv", "native", "native", "native", "yes"]


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "--operators", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    (row,) = (each for each in data["operators"] if each["name"] == "NonMaxSuppression")
    assert row["onnxruntime-web"] is False
    assert data["legend"].keys() >= {"native", "steps", "partly", "host", "folded"}


def test_a_model_or_the_operators(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect"]) == 1
    assert "name a model, or ask for --operators" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_table_is_what_plans_say() -> None:
    assert operators.DATA.read_text() == operators.text(table()), REMEDY
