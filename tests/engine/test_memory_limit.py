"""A session with a memory limit gives the same results within it, or says before it runs what it would need."""

from __future__ import annotations

import gc
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from sardonyx import InferenceSession, SessionOptions
from sardonyx.common import memory
from sardonyx.errors import InvalidArgument, RuntimeException
from tests import models
from tests.benchmarks import fresh
from tests.benchmarks.fresh import SIDES
from tests.engine.graphs import CONTROL_FLOW, model
from tests.engine.providers import NUMPY, PROVIDERS, WASM, require_provider
from tests.support.memory import STATUS, private

WIDTH, LAYERS, WORDS = 96, 6, 2000
LAYER = 4 * WIDTH * WIDTH
COMPILER = 8 << 20
"""Bytes that a session takes besides what counts: its plan and code, what the compiler leaves, a thread's scratch."""


def perceptron(path: Path, rows: str = "N") -> Path:
    """Write a model that looks words up, and takes the rows through layers; no weight of it is aligned."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array(rng.normal(size=(WORDS, WIDTH)).astype(np.float32), "words")]
    nodes, x = [helper.make_node("Gather", ["words", "ids"], ["x0"])], "x0"
    for k in range(LAYERS):
        weights.append(numpy_helper.from_array(rng.normal(0, 0.1, (WIDTH, WIDTH)).astype(np.float32), f"w{k}"))
        weights.append(numpy_helper.from_array(rng.normal(0, 0.1, WIDTH).astype(np.float32), f"b{k}"))
        nodes.append(helper.make_node("MatMul", [x, f"w{k}"], [f"p{k}"], f"product{k}"))
        nodes.append(helper.make_node("Add", [f"p{k}", f"b{k}"], [f"s{k}"]))
        nodes.append(helper.make_node("Tanh", [f"s{k}"], [x := f"x{k + 1}"]))
    size = int(rows) if rows.isdecimal() else rows
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, [size])
    y = helper.make_tensor_value_info(x, TensorProto.FLOAT, [size, WIDTH])
    graph = helper.make_graph(nodes, "perceptron", [ids], [y], weights)
    opsets = [helper.make_opsetid("", 21)]
    matrices = [weight for weight in graph.initializer if len(weight.dims) == 2]
    data, aligned = b"", True
    while aligned:
        graph.name = "a" * int(rng.integers(1, 9))
        for weight in matrices:
            weight.doc_string = "a" * int(rng.integers(1, 9))  # it moves what follows
        data = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
        aligned = any(data.index(weight.raw_data[:64]) % 4 == 0 for weight in matrices)
    path.write_bytes(data)
    return path


def limited(limit: int | str) -> SessionOptions:
    options = SessionOptions()
    options.memory_limit = limit  # type: ignore[assignment]
    return options


def feeds(rows: int) -> dict[str, np.ndarray]:
    return {"ids": np.random.default_rng(rows).integers(0, WORDS, rows)}


def check(session: InferenceSession, free: InferenceSession, rows: int) -> None:
    (found,), (wanted,) = (each.run(None, feeds(rows)) for each in (session, free))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    report = session.memory()[0]
    assert 0 < report.held <= report.limit


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("layers", [4, 5, 8])
def test_results_are_those_without_a_limit(provider: str, layers: int, tmp_path: Path) -> None:
    require_provider(provider)
    path = perceptron(tmp_path / "m.onnx")
    free = InferenceSession(path, providers=[provider])
    session = InferenceSession(path, limited(layers * LAYER), providers=[provider])
    for rows in (3, 3, 17, 1, 0, 40, 3):  # more rows leave less for weights
        check(session, free, rows)


def test_what_is_given_back_is_held_by_nobody(tmp_path: Path) -> None:
    """A plan that takes the place of another has the memory of that one at once, not when the collector comes by."""
    limit = 5 * LAYER
    session = InferenceSession(perceptron(tmp_path / "m.onnx"), limited(limit), providers=[NUMPY])
    arrays = [tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)]
    gc.disable()
    tracemalloc.start()
    try:
        for rows in (3, 60, 3, 17, 60):
            session.run(None, feeds(rows))
            held = tracemalloc.take_snapshot().filter_traces(arrays).statistics("filename")
            assert LAYER < sum(each.size for each in held) <= 1.02 * limit
    finally:
        tracemalloc.stop()
        gc.enable()


def need(path: Path, provider: str, rows: int) -> int:
    """The least limit with which a run succeeds."""
    low, high = 0, 1 << 23
    while high - low > 1:
        middle = (low + high) // 2
        try:
            InferenceSession(path, limited(middle), providers=[provider]).run(None, feeds(rows))
        except RuntimeException:
            low = middle
        else:
            high = middle
    return high


def test_the_figure_of_a_refusal_is_what_is_needed(tmp_path: Path) -> None:
    path = perceptron(tmp_path / "m.onnx")
    least = need(path, NUMPY, 3)
    assert LAYER < least < 2 * LAYER  # one weight at a time, and a few rows
    assert least < 100_000  # the figure is exact
    session = InferenceSession(path, limited(least - 1), providers=[NUMPY])
    what = rf"needs {least:,} bytes, the limit is {least - 1:,} bytes; the largest single step, .* 'x\d', needs \d"
    with pytest.raises(RuntimeException, match=what):
        session.run(None, feeds(3))
    check(InferenceSession(path, limited(least), providers=[NUMPY]), InferenceSession(path), 3)


def test_only_what_is_looked_up_in_may_stay_in_its_file(tmp_path: Path) -> None:
    """Rows of a table are read where they lie; positions are read whole, and have to be aligned."""
    from onnx import TensorProto, helper, numpy_helper

    positions, name = np.random.default_rng(0).integers(0, 50, 20_000), "g"
    while True:
        x, y = (helper.make_tensor_value_info(each, TensorProto.FLOAT, [None]) for each in "xy")
        nodes, weights = [helper.make_node("Gather", ["x", "at"], ["y"])], [numpy_helper.from_array(positions, "at")]
        graph = helper.make_graph(nodes, name, [x], [y], weights)
        opsets = [helper.make_opsetid("", 21)]
        data = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
        if data.index(positions[:9].tobytes()) % 8:
            break
        name += "g"
    path, given = tmp_path / "m.onnx", {"x": np.arange(50, dtype=np.float32)}
    path.write_bytes(data)
    result = 4 * positions.size
    session = InferenceSession(path, limited(result + positions.nbytes + 1000), providers=[NUMPY])
    np.testing.assert_array_equal(session.run(None, given)[0], given["x"][positions])
    with pytest.raises(RuntimeException, match="the limit is"):
        InferenceSession(path, limited(result + positions.nbytes), providers=[NUMPY]).run(None, given)


def test_what_was_refused_leaves_the_session_usable(tmp_path: Path) -> None:
    path = perceptron(tmp_path / "m.onnx")
    session = InferenceSession(path, limited(3 * LAYER), providers=[NUMPY])
    free = InferenceSession(path, providers=[NUMPY])
    check(session, free, 3)
    with pytest.raises(RuntimeException, match="the limit is"):
        session.run(None, feeds(1000))
    check(session, free, 5)


def test_sizes_that_are_declared_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(RuntimeException, match="the limit is"):
        InferenceSession(perceptron(tmp_path / "m.onnx", rows="64"), limited("20kB"), providers=[NUMPY])


@pytest.mark.parametrize("provider", [NUMPY, WASM])
def test_threads_keep_the_limit_together(provider: str, tmp_path: Path) -> None:
    path = perceptron(tmp_path / "m.onnx")
    free = InferenceSession(path, providers=[provider])
    session = InferenceSession(path, limited(5 * LAYER), providers=[provider])
    together = threading.Barrier(4, timeout=60)

    def work(number: int) -> None:
        together.wait()
        for rows in (number + 1, 20, number + 1):
            check(session, free, rows)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


@pytest.mark.parametrize("provider", [NUMPY, WASM])
def test_control_flow(provider: str) -> None:
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    given = {"x": x, "n": np.array(3), "c": np.array(True)}
    free = InferenceSession(model(CONTROL_FLOW), providers=[provider])
    session = InferenceSession(model(CONTROL_FLOW), limited("32kB"), providers=[provider])
    for found, wanted in zip(session.run(None, given), free.run(None, given), strict=True):
        np.testing.assert_array_equal(found, wanted)
    with pytest.raises(RuntimeException, match=r"the limit is|left of the memory limit"):
        InferenceSession(model(CONTROL_FLOW), limited(600), providers=[provider]).run(None, given)


@pytest.mark.parametrize("provider", [NUMPY, WASM])
def test_constants_that_the_optimizer_computes_stay_in_a_file(provider: str, tmp_path: Path) -> None:
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    w = rng.normal(size=(64, 64, 3, 3)).astype(np.float32)
    vectors = {name: rng.uniform(0.5, 1, 64).astype(np.float32) for name in ("scale", "bias", "mean", "var")}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", *vectors], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 64, 8, 8]) for name in "xy")
    held = [numpy_helper.from_array(array, name) for name, array in {"w": w, **vectors}.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], held)
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]).SerializeToString())
    given = {"x": rng.normal(size=(1, 64, 8, 8)).astype(np.float32)}
    session = InferenceSession(path, limited("4MB"), providers=[provider])
    (wanted,) = InferenceSession(path, providers=[provider]).run(None, given)
    np.testing.assert_allclose(session.run(None, given)[0], wanted, rtol=1e-5, atol=1e-5)
    large = [array for array in session.plans[0].weights.values() if array.nbytes > 1 << 16]
    assert large
    assert all(memory.owner(array) is not None for array in large)


def test_options_take_numbers_and_units() -> None:
    options = SessionOptions()
    assert options.memory_limit == 0
    options.add_session_config_entry("session.memory_limit", "64MB")
    assert options.memory_limit == 64_000_000
    options.memory_limit = 1 << 20
    assert options.memory_limit == 1 << 20
    assert limited("1.5 MiB").memory_limit == 3 << 19
    for wrong in ("much", "-1", -1, 1.5, "inf"):
        with pytest.raises(InvalidArgument, match="memory_limit"):
            limited(wrong)  # type: ignore[arg-type]


def test_the_report_tells_limit_and_use() -> None:
    session = InferenceSession("examples/digits/digits.onnx", limited("2MiB"), providers=[NUMPY])
    session.run(None, {"image": np.zeros((1, 1, 28, 28), np.float32)})
    report = session.memory()[0]
    assert report.limit == 2 << 20
    assert report.arena < report.held <= report.arena + report.weights
    assert "held of 2.0 MiB at most" in str(report)
    free = InferenceSession("examples/digits/digits.onnx", providers=[NUMPY])
    assert free.memory()[0].limit == 0
    assert "at most" not in str(free.memory()[0])


def grown(side: str, id: str, limit: int) -> dict[str, int]:
    """What a session with a limit, and three runs of it, add to a process that has run another model."""
    provider = SIDES[side][1]
    options = limited(limit)
    options.intra_op_num_threads = 1
    first = InferenceSession("examples/digits/digits.onnx", providers=[provider])
    first.run(None, {"image": np.zeros((1, 1, 28, 28), np.float32)})
    path, given = models.path(id), models.inputs(id)
    start, most, going = private(), [0], threading.Event()

    def watch() -> None:
        while not going.wait(0.001):
            most[0] = max(most[0], private())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        session = InferenceSession(path, options, providers=[provider])
        for _ in range(3):
            results = session.run(None, given)
    finally:  # a process ends after its threads
        going.set()
        watcher.join(60)
    models.assert_close(id, results, models.reference(id))
    return {"peak": most[0] - start, "held": session.memory()[0].held}


@pytest.mark.slow
@pytest.mark.skipif(not STATUS.exists(), reason="only Linux tells what is private")
@pytest.mark.parametrize("part", [2, 6])
@pytest.mark.parametrize("side", ["NumPy", "WASM"])
def test_a_process_keeps_the_limit(side: str, part: int) -> None:
    weights = 65.8 * (1 << 20)
    limit = int(weights / part)
    models.path("minilm-l3")
    found = fresh.call(__name__, "grown", side, "minilm-l3", limit)
    assert found["held"] <= limit
    assert found["peak"] <= limit + COMPILER
