"""A whole run: what is written, what is refused, and a report that says what onnxruntime finds."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

from sardonyx.errors import InvalidArgument
from sardonyx.quantization import tuning
from sardonyx.quantization.tuning import Outcome, Scheme, Spooled, measurement, report, tune

from . import networks
from .networks import Array, convolutions, normalized, outlier, samples
from .test_noise import decibels

FEEDS = samples(4, 16, count=12)
HELD = FEEDS[3::4]
SCHEMA = json.loads((files(tuning) / "report.schema.json").read_text("utf-8"))


@pytest.fixture(autouse=True)
def as_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times that no other process can change: the result is as fast as the model."""
    monkeypatch.setattr(measurement, "times", lambda *_: (0.002, 0.002))


def run(model: Path, scheme: Scheme | None = None, feeds: Any = FEEDS, **options: Any) -> Outcome:
    return tune(model, model.with_name("small.onnx"), feeds, scheme, **{"memory": False, **options})


def outputs(path: Path, feeds: Sequence[dict[str, Array]]) -> list[Array]:
    """What onnxruntime gives for y, nothing optimized."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options)
    return [session.run(["y"], each)[0] for each in feeds]


@pytest.mark.parametrize(
    "scheme",
    [
        Scheme(),
        Scheme(format="qoperator", per_channel=False),
        Scheme(method="percentile", bias_correction=True, smooth=0.5),
        Scheme("dynamic"),
        Scheme("int4", block_size=16),
        Scheme("fp16"),
    ],
    ids=["int8", "qoperator", "corrected", "dynamic", "int4", "fp16"],
)
def test_the_report_says_what_onnxruntime_finds(scheme: Scheme, tmp_path: Path) -> None:
    model, feeds = normalized(tmp_path / "m.onnx"), samples(2, 4, 16, count=12)
    outcome = run(model, scheme, feeds)
    facts = outcome.facts
    jsonschema.validate(facts, SCHEMA)
    assert (outcome.path, outcome.refused, facts["status"]) == (tmp_path / "small.onnx", "", "ok")
    expected, found = outputs(model, feeds[3::4]), outputs(outcome.path, feeds[3::4])
    pairs = list(zip(expected, found, strict=True))
    cosines = [float(np.vdot(a, b) / np.linalg.norm(a) / np.linalg.norm(b)) for a, b in pairs]
    rounded = 3 if scheme.kind == "fp16" else 0.5  # onnxruntime adds up float16 in another order, and rounds between
    assert facts["score"]["snr"] == pytest.approx(decibels(pairs), abs=rounded)
    assert facts["score"]["cosine"] == pytest.approx(np.mean(cosines), abs=2e-3)
    same = np.mean([a.argmax(-1) == b.argmax(-1) for a, b in pairs])
    assert facts["score"]["agreement"] == pytest.approx(same, abs=1 / 24)
    assert facts["outputs"] == [{"name": "y", **facts["score"]}]
    assert facts["model"]["bytes"] == model.stat().st_size
    assert facts["result"]["bytes"] == outcome.path.stat().st_size
    assert facts["samples"] == {
        "source": "samples",
        "synthetic": False,
        "calibration": 9,
        "held_out": 3,
        "shared": False,
    }
    assert facts["nodes"]["quantized"] == facts["nodes"]["quantizable"] == len(facts["layers"]) > 0
    last = [layer for layer in facts["layers"] if layer["snr"] is not None][-1]
    if scheme.kind == "int8":  # the other kinds leave the last node as it is
        assert last["snr"] == pytest.approx(facts["score"]["snr"], abs=0.1)
    if scheme.bias_correction:
        smoothed, biased = facts["corrections"]
        assert (smoothed["what"], smoothed["nodes"], biased["what"]) == ("smooth", 2, "bias")
        assert smoothed["after"]["snr"] > smoothed["before"]["snr"] + 3


def test_a_budget_that_all_nodes_meet_keeps_none(tmp_path: Path) -> None:
    outcome = run(convolutions(tmp_path / "m.onnx"), feeds=samples(2, 3, 8, 8), budgets=["cosine>=0.99"])
    assert (outcome.refused, outcome.facts["kept"], len(outcome.facts["variants"])) == ("", [], 1)


@pytest.mark.parametrize("budget", ["snr>=25", "cosine>=0.995", "agreement>=0.95"])
def test_a_budget_keeps_what_it_has_to(budget: str, tmp_path: Path) -> None:
    model = outlier(tmp_path / "m.onnx")
    all_of_it = run(model).facts
    assert all_of_it["score"]["snr"] < 5
    (warning,) = [text for text in all_of_it["warnings"] if "differ" in text]
    assert "Most is lost at second" in warning
    outcome = run(model, budgets=[budget])
    facts = outcome.facts
    jsonschema.validate(facts, SCHEMA)
    assert outcome.refused == ""
    assert {each["node"] for each in facts["kept"]} == {"scale", "second"}
    assert [node.op_type for node in onnx.load(outcome.path).graph.node if node.name == "second"] == ["MatMul"]
    assert {layer["node"]: layer["state"] for layer in facts["layers"]}["first"] == "quantized"
    expected, found = outputs(model, HELD), outputs(outcome.path, HELD)
    assert decibels(list(zip(expected, found, strict=True))) > 25
    chosen = [each for each in facts["variants"] if each["chosen"]]
    assert [each["kept"] for each in chosen] == [2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "small.onnx"]


@pytest.mark.parametrize(("kind", "decibel"), [("dynamic", 20), ("int4", 20), ("fp16", 67)])
def test_each_kind_is_searched(kind: str, decibel: float, tmp_path: Path) -> None:
    """The second product is the more sensitive one, whatever it is rounded to but float16."""
    model = outlier(tmp_path / "m.onnx")
    assert run(model, Scheme(kind, block_size=16)).facts["score"]["snr"] < decibel
    outcome = run(model, Scheme(kind, block_size=16), budgets=[f"snr>={decibel}"])
    assert outcome.refused == ""
    kept = [each["node"] for each in outcome.facts["kept"]]
    assert kept == ["second"] if kind != "fp16" else set(kept) < {"first", "bias", "relu", "scale", "second"}
    reference = ReferenceEvaluator(str(outcome.path)) if kind == "dynamic" else None  # onnxruntime's products saturate
    found = [reference.run(None, each)[0] for each in HELD] if reference else outputs(outcome.path, HELD)
    assert decibels(list(zip(outputs(model, HELD), found, strict=True))) > decibel - 3
    noises = {layer["node"]: layer["alone"] for layer in outcome.facts["layers"]}
    assert kind == "fp16" or noises["second"] < noises["first"]


def test_the_front_is_what_nothing_beats(tmp_path: Path) -> None:
    variants = run(outlier(tmp_path / "m.onnx"), budgets=["snr>=25"]).facts["variants"]
    assert len(variants) > 3
    for one in variants:
        better = [
            other
            for other in variants
            if other["bytes"] <= one["bytes"]
            and all(other[name] >= one[name] for name in ("agreement", "cosine", "snr"))
            and (other["bytes"], other["snr"], other["cosine"]) != (one["bytes"], one["snr"], one["cosine"])
        ]
        assert one["front"] == (not better)


def test_a_budget_that_cannot_be_met(tmp_path: Path) -> None:
    outcome = run(outlier(tmp_path / "m.onnx"), budgets=["snr>=150"])
    assert outcome.path == tmp_path / "small.missed.onnx"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "small.missed.onnx"]
    assert outcome.facts["status"] == "missed"
    assert outcome.refused.startswith("the budget snr>=150 is not met: snr is ")
    assert "small.missed.onnx. Try bias correction, the method percentile, fp16, more samples" in outcome.refused
    (chosen,) = (each for each in outcome.facts["variants"] if each["chosen"])
    (nothing,) = (each for each in outcome.facts["variants"] if each["snr"] == 200)  # a Relu alone stays as it is
    assert nothing["kept"] == 4
    assert chosen["snr"] == max(each["snr"] for each in outcome.facts["variants"] if each is not nothing)
    onnx.checker.check_model(onnx.load(outcome.path))


def test_a_slower_result_is_refused_with_a_budget_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurement, "times", lambda *_: (0.002, 0.003))
    model = convolutions(tmp_path / "m.onnx")
    outcome = run(model, feeds=samples(2, 3, 8, 8))
    assert (outcome.refused, outcome.path) == ("", tmp_path / "small.onnx")
    assert "The result is slower than the model on CPU: 1.50 times its time" in outcome.facts["warnings"]
    outcome.path.unlink()
    outcome = run(model, feeds=samples(2, 3, 8, 8), budgets=["snr>=10"])
    assert outcome.facts["status"] == "slower"
    assert outcome.path == tmp_path / "small.slower.onnx"
    assert not (tmp_path / "small.onnx").exists()
    assert "takes 1.50 times as long as the model on CPU" in outcome.refused


class Interrupted:
    """Lets so many variants be measured, then is Ctrl+C."""

    def __init__(self, after: int) -> None:
        self.after = after

    def __call__(self, order: Sequence[str], meets: Callable[[tuple[str, ...]], bool]) -> None:
        for number in range(self.after):
            meets(tuple(order[: number + 1]))
        raise KeyboardInterrupt


@pytest.mark.parametrize(("after", "name"), [(0, "small.missed.onnx"), (2, "small.onnx")])
def test_what_was_found_survives_an_interruption(
    after: int, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sardonyx.quantization.tuning.tuner.kept_nodes", Interrupted(after))
    outcome = run(outlier(tmp_path / "m.onnx"), budgets=["snr>=25"])
    assert outcome.interrupted
    assert outcome.path == tmp_path / name
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", name]
    onnx.checker.check_model(onnx.load(outcome.path))
    jsonschema.validate(outcome.facts, SCHEMA)
    report(outcome.facts, tmp_path / "r.html")
    assert "Interrupted" in (tmp_path / "r.html").read_text()


def test_an_interruption_before_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sardonyx.quantization.tuning.workshop.Workshop.build", stop)
    outcome = run(outlier(tmp_path / "m.onnx"))
    assert (outcome.interrupted, outcome.path) == (True, None)
    jsonschema.validate(outcome.facts, SCHEMA)
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_excluded_nodes_stay(tmp_path: Path) -> None:
    outcome = run(outlier(tmp_path / "m.onnx"), exclude=["scale", "second"])
    assert outcome.facts["score"]["snr"] > 25
    assert [each["reason"] for each in outcome.facts["kept"]] == ["excluded", "excluded"]
    with pytest.raises(InvalidArgument, match="has no node 'secnd', but 'second'"):
        run(tmp_path / "m.onnx", exclude=["secnd"])


def test_nothing_to_quantize(tmp_path: Path) -> None:
    nodes = [onnx.helper.make_node("Sin", ["x"], ["y"], "sine")]
    model = networks.saved(tmp_path / "m.onnx", nodes, {}, ["N", 16], ["N", 16])
    for kind in ("int8", "int4", "dynamic"):
        with pytest.raises(InvalidArgument, match=rf"has nothing that {kind} can quantize \(Sin\); nothing is written"):
            run(model, Scheme(kind))
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ([], "samples has no samples; give at least one"),
        ([{"z": np.zeros((1, 16), np.float32)}], "sample 1 of samples has no 'x', only z; the model takes x"),
        ([{**FEEDS[0], "z": 1}], "sample 1 of samples has 'z', which is no input; the model takes x"),
        (
            [FEEDS[0], {"x": np.zeros((1, 8), np.float32)}],
            "sample 2 of samples: 'x' is 1x8, and the model declares Nx16",
        ),
        ([{"x": np.zeros((1, 16), np.float64)}], "'x' is float64, and the model wants float32"),
    ],
    ids=["none", "missing", "unknown", "shape", "dtype"],
)
def test_samples_that_do_not_fit(feeds: list[Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument) as error:
        run(outlier(tmp_path / "m.onnx"), feeds=feeds)
    assert message in str(error.value)


def test_one_sample_is_learnt_from_and_measured_by(tmp_path: Path) -> None:
    facts = run(outlier(tmp_path / "m.onnx"), feeds=FEEDS[:1]).facts
    assert facts["samples"]["shared"]
    assert facts["warnings"][0].startswith("There is one sample")


def test_spooled_samples_are_the_same() -> None:
    spooled = Spooled(iter(FEEDS), "a reader", 5)
    assert len(spooled) == 5
    for one, other in zip(spooled, FEEDS, strict=False):
        np.testing.assert_array_equal(one["x"], other["x"])
    with pytest.raises(IndexError):
        spooled[5]


def test_schemes_that_make_no_sense() -> None:
    with pytest.raises(InvalidArgument, match="kind 'int3': take one of int8, dynamic, int4, fp16"):
        Scheme("int3")
    with pytest.raises(InvalidArgument, match="smooth is for int8 with ranges from samples, not for fp16"):
        Scheme("fp16", smooth=0.5)
    with pytest.raises(InvalidArgument, match="smooth 2: alpha is 0 to 1"):
        Scheme(smooth=2)


def test_peak_memory_is_that_of_another_process(tmp_path: Path) -> None:
    model = outlier(tmp_path / "m.onnx")
    held = np.zeros(300 << 20, np.uint8)
    held[:] = 1
    peak = measurement.peak_memory(model, FEEDS[0], "CPUExecutionProvider")
    assert peak is not None
    assert 10 << 20 < peak < held.nbytes
