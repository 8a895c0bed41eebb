"""That the scripts measure and print; how fast anything is, no test says."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import onnxruntime
import pytest

import sardonyx
from tests.benchmarks import choosing, fresh, integer_products, memory, report, startup, table, threads, tracks
from tests.benchmarks.fresh import ONNXRUNTIME, SIDES
from tests.benchmarks.integer_kernels import Case
from tests.benchmarks.stages import STAGES
from tests.models import inputs
from tests.support import require


def row(side: str, run: float) -> table.Row:
    return {ONNXRUNTIME: {"run": 2.0}, side: {"run": run}}


def test_the_table_names_what_is_slow_wrong_and_failed() -> None:
    rows = {
        "one": {"NumPy": row("NumPy", 4.0), "WASM": row("WASM", 1.0) | {"wrong": "off by 1"}, "WebGPU": {"slow": 120}},
        "two": {"NumPy": row("NumPy", 1.0), "WASM": {"failed": "no memory"}},
    }
    assert table.rendered(rows, "run", dynamic=["one"])[2:] == [
        "| one | 2.00 | 4.00 | 2.00 | 2.00 | 1.00 (wrong) | 0.50 |  | > 120 s |  |",
        "| two | 2.00 | 1.00 | 0.50 |  | failed |  |  |  |  |",
        "| geometric mean |  | 2 of 2 | **1.00** |  | 0 of 2 |  |  | 0 of 2 |  |",
        "| median |  |  | 1.25 |  |  |  |  |  |  |",
        "| slower than onnxruntime |  |  | 1 |  |  |  |  |  |  |",
        "| geometric mean, dynamic int8 |  | 1 of 1 | **2.00** |  | 0 of 1 |  |  | 0 of 1 |  |",
    ]
    assert table.complaints(rows) == ["* one on WASM: off by 1", "* two on WASM: no memory"]


def test_a_side_that_was_not_measured_has_no_column() -> None:
    head, _, line, *_ = table.rendered({"one": {"NumPy": row("NumPy", 4.0)}}, "run")
    assert head == "| model | onnxruntime, ms | NumPy, ms | ratio |"
    assert line == "| one | 2.00 | 4.00 | 2.00 |"


def test_results_are_kept_for_the_same_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "machine", lambda: "this")
    file = tmp_path / "results" / "table.json"
    table.Results(file, again=False).add("one", "NumPy", {"slow": 120})
    kept = table.Results(file, again=False)
    assert kept.rows == {"one": {"NumPy": {"slow": 120}}}
    assert [kept.has("one", "NumPy", limit) for limit in (60, 120, 180)] == [True, True, False]
    assert not kept.has("one", "WASM", 60)
    assert not table.Results(file, again=True).rows
    monkeypatch.setattr(table, "machine", lambda: "that")
    assert not table.Results(file, again=False).rows


def test_published_figures_are_not_forgotten(tmp_path: Path) -> None:
    rows = {
        "skl-rf-validity": {"NumPy": row("NumPy", 4.0), "WASM": row("WASM", 1.0)},
        "minilm-l3": {"WASM": {"slow": 9}},
    }
    kept = table.figures(table.rendered(rows, "run"))
    assert kept == [("skl-rf-validity", "NumPy"), ("skl-rf-validity", "WASM"), ("minilm-l3", "WASM")]
    results = table.Results(tmp_path / "table.json", again=False)
    assert table.forgotten(kept, results, ["skl-rf-validity"], ["WASM"]) == [
        "skl-rf-validity on NumPy",
        "minilm-l3 on WASM",
    ]
    results.add("minilm-l3", "WASM", {"slow": 120})
    assert table.forgotten(kept, results, ["skl-rf-validity"], ["WASM", "NumPy"]) == []


def test_only_its_section_of_the_page_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "README.md"
    page.write_text("a\n<!-- run -->\nold\n<!-- /run -->\nb\n<!-- start -->\n<!-- /start -->\n")
    monkeypatch.setattr(report, "README", page)
    report.publish("run", ["new"], write=True)
    report.publish("start", ["kept"], write=False)
    assert report.published("run") == ["new"]
    assert page.read_text() == "a\n<!-- run -->\nnew\n<!-- /run -->\nb\n<!-- start -->\n<!-- /start -->\n"


def of_threads(*times: float) -> threads.Row:
    names = ("ours 1", "ours N", "theirs 1", "theirs N")
    return {name: {"run": run, "cpu": 2 * run} for name, run in zip(names, times, strict=True)}


def test_the_table_of_threads_tells_who_loses() -> None:
    rows = {"one": of_threads(4.0, 2.0, 4.0, 1.0), "two": of_threads(4.0, 8.0, 9.0, 9.0)}
    assert threads.rendered(rows, "WASM", 2) == [
        "| model | WASM, 1, ms | WASM, 2, ms | gain | onnxruntime, 1, ms | onnxruntime, 2, ms | gain | ratio | CPU |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
        "| one | 4.00 | 2.00 | 2.00 | 4.00 | 1.00 | 4.00 | 2.00 | 0.50 |",
        "| two | 4.00 | 8.00 | 0.50 | 9.00 | 9.00 | 1.00 | 0.89 | 2.00 |",
        "| geometric mean |  |  | **1.00** |  |  | **2.00** | **1.33** | **1.00** |",
        "| gain below 0.98 |  |  | 1 |  |  | 0 |  |  |",
        "| slower than onnxruntime |  |  |  |  |  |  | 1 |  |",
    ]
    assert threads.long_enough(table.rendered({"minilm-l3": {"WASM": row("WASM", 4.0)}}, "run")) == ["minilm-l3"]


def test_threads_are_recorded_and_drawn_side_by_side(tmp_path: Path) -> None:
    require("wasm")
    from sardonyx_wasm import provider

    text = """<ir_version: 8, opset_import: ["": 18]> g (float[N, 256] x) => (float[N, 256] y) {
      a = MatMul (x, w)  b = Softmax (a)  c = MatMul (b, w)  y = Relu (c)
    }"""
    model = onnx.parser.parse_model(text)
    w = np.ones((256, 256), np.float32) / 256
    model.graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))
    recorder, feeds = tracks.Recorder(), {"x": np.ones((300, 256), np.float32)}
    with recorder.on(provider.device({"intra_op_num_threads": "2"})):
        options = sardonyx.SessionOptions()
        options.intra_op_num_threads = 2
        session = sardonyx.InferenceSession(model.SerializeToString(), options, ["WasmExecutionProvider"])
        calls = recorder.run(lambda: session.run(None, feeds))
    spans = tracks.spans(calls)
    assert {span.step for span in spans if span.is_product} == {0, 1}
    assert {span.step for span in spans if not span.is_product} == {0, 1, 2}
    assert {thread for times in tracks.by_step(spans).values() for thread in times} <= {0, 1}
    tracks.write(tmp_path / "trace.json", spans, {0: "first"})
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert len([event for event in events if event["ph"] == "X"]) == len(spans)
    assert {"module", "first", "step 1"} == {event["name"] for event in events if event["ph"] == "X"}


def test_products_of_integers_are_right_natively() -> None:
    require("wasm")
    head, _, line = integer_products.rendered(integer_products.measured([Case(3, 10, 20)], 1, None))
    assert head.startswith("| rows x K x N | wasmtime: bytes | wasmtime: int8 | wasmtime: int16 | wasmtime: float32 |")
    assert line.startswith("| 3 x 10 x 20 | ")
    assert line.count("|") == head.count("|") == 9


@pytest.mark.slow
def test_a_first_answer_counts_the_import(tmp_path: Path) -> None:
    feeds = tmp_path / "feeds"
    feeds.write_bytes(pickle.dumps(inputs("skl-logreg-digits")))
    imported, made, answered = startup.measure("skl-logreg-digits", "NumPy", tmp_path, feeds)
    assert 0 < imported < made < answered
    stages = startup.measure("skl-logreg-digits", "NumPy", tmp_path / "another", feeds, stages=True)
    assert {"import", "trace"} < stages.keys() < {*STAGES, "rest"}
    assert max(stages, key=stages.__getitem__) == "import"
    with pytest.raises(RuntimeError, match="feeds"):
        startup.measure("skl-logreg-digits", "NumPy", tmp_path, tmp_path / "no feeds")


def test_a_fresh_process_answers_or_says_why_not() -> None:
    found = [fresh.call("tests.benchmarks.table", "measure", "skl-rf-validity", "NumPy", 3, k) for k in range(2)]
    assert [list(row) for row in found] == [[ONNXRUNTIME, "NumPy"], ["NumPy", ONNXRUNTIME]]
    assert all(len(one["runs"]) == 3 for row in found for one in row.values())
    joined = table.joined(found, "NumPy")
    assert all(one.keys() == {"start", "run"} for one in joined.values())
    with pytest.raises(RuntimeError, match="KeyError: 'no-such-model'"):
        fresh.call("tests.benchmarks.table", "measure", "no-such-model", "NumPy", 3, 0)
    with pytest.raises(TimeoutError, match=r"no answer in 0.01 s"):
        fresh.call("tests.benchmarks.table", "measure", "skl-rf-validity", "NumPy", 3, 0, limit=0.01)


@pytest.mark.slow
def test_plans_are_found_in_both_languages(tmp_path: Path) -> None:
    require("node")
    found = choosing.of_bundle("skl-logreg-digits", "node", tmp_path)
    assert 0 < found["reached"] <= found["plans"]
    assert all(found[kind][place] > 0 for kind in ("python", "javascript") for place in ("first", "last"))


@pytest.mark.slow
def test_the_perceptron_runs(tmp_path: Path) -> None:
    path = tmp_path / "perceptron.onnx"
    assert memory.write(path, 1) == 4 * memory.WIDTH * (memory.WIDTH + 1)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert session.run(None, {"x": np.ones((2, memory.WIDTH), np.float32)})[0].std() > 0.1
    assert memory.measure(str(path), next(iter(SIDES)))["run"] > 0
