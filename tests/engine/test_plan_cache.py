"""Plans of earlier sessions: what is taken from the cache gives the same bits, and is taken only where it may be."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import sardonyx
from sardonyx.cli import main
from sardonyx.common import cache, sources
from sardonyx.compiler.compile import Compiler
from sardonyx.demo import assets
from sardonyx.ops.operator import Operator
from sardonyx.passes.levels import GraphOptimizationLevel
from sardonyx.plans import plan_cache
from sardonyx.plans.plan_cache import key
from tests.engine.graphs import CHAIN, CONTROL_FLOW, model
from tests.engine.providers import NUMPY, PROVIDERS, require_provider

Feeds = dict[str, np.ndarray]
X = np.linspace(-2, 2, 8, dtype=np.float32).reshape(2, 4)


@pytest.fixture(autouse=True)
def folder(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(plan_cache, "key", key)
    monkeypatch.setattr(plan_cache, "SETTLED", -1.0)
    return own_cache


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Compiler]:
    """The compilers that were made: a session that needs none of them came from the cache."""
    made: list[Compiler] = []
    original = Compiler.__init__

    def count(self: Compiler, *arguments: Any, **options: Any) -> None:
        made.append(self)
        original(self, *arguments, **options)

    monkeypatch.setattr(Compiler, "__init__", count)
    return made


def with_opset(graph: onnx.GraphProto) -> bytes:
    """The bytes of the model with this graph."""
    opset = helper.make_opsetid("", 21)
    return bytes(helper.make_model(graph, opset_imports=[opset], ir_version=10).SerializeToString())


def convolution(constant: float = 0.0) -> bytes:
    """The bytes of a model with weights, some of which are computed while optimizing; all sizes are declared."""
    rng = np.random.default_rng(0)
    shapes = {"w": (8, 3, 3, 3), "scale": (8,), "offset": (8,), "mean": (8,), "variance": (8,), "m": (8, 5)}
    tensors = [numpy_helper.from_array(rng.uniform(0.5, 1, s).astype("f4") + constant, n) for n, s in shapes.items()]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", *list(shapes)[1:5]], ["n"]),
        helper.make_node("GlobalAveragePool", ["n"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("MatMul", ["f", "m"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 9, 9])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])
    graph = helper.make_graph(nodes, "g", [x], [y], tensors)
    return with_opset(graph)


IMAGE = {"x": np.random.default_rng(1).normal(size=(1, 3, 9, 9)).astype(np.float32)}


def session(given: Any, provider: str = NUMPY, **options: Any) -> sardonyx.InferenceSession:
    return sardonyx.InferenceSession(given, providers=[provider], **options)


def entries(folder: Path) -> list[Path]:
    """The entries of plans: generated code has others."""
    return [file for file in folder.glob("*.entry") if b"is_covered" in file.read_bytes()]


def assert_same(one: list[Any], other: list[Any]) -> None:
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b, strict=True)


MODELS: dict[str, Callable[[], tuple[bytes, Feeds]]] = {
    "static": lambda: (convolution(), IMAGE),
    "symbolic": lambda: (model(CHAIN), {"x": X}),
    "control flow": lambda: (model(CONTROL_FLOW), {"x": X, "n": np.array(3), "c": np.array(True)}),
    "digits": lambda: (
        (assets() / "digits.onnx").read_bytes(),
        {"image": np.random.default_rng(2).uniform(size=(3, 1, 28, 28)).astype(np.float32)},
    ),
}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("by_path", [False, True], ids=["bytes", "path"])
def test_the_second_session_compiles_nothing_and_gives_the_same(
    provider: str, name: str, by_path: bool, tmp_path: Path, compiled: list[Compiler]
) -> None:
    require_provider(provider)
    data, feeds = MODELS[name]()
    given: Any = data
    if by_path:
        given = tmp_path / "model.onnx"
        given.write_bytes(data)
    first = session(given, provider)
    expected = first.run(None, feeds)
    compiled.clear()
    second = session(given, provider)
    assert_same(second.run(None, feeds), expected)
    assert compiled == []
    for facts in ("get_inputs", "get_outputs", "get_overridable_initializers", "get_modelmeta", "get_providers"):
        assert getattr(second, facts)() == getattr(first, facts)()
    assert second.plans[0].summary() == first.plans[0].summary()


def test_other_sizes_read_the_model_and_join_the_entry(compiled: list[Compiler]) -> None:
    longer = np.ones((5, 4), np.float32)
    data = model(CHAIN.replace("float[N, 4] x", "float[N, K] x").replace("float[N, 4] y", "float[N, K] y"))
    wider = np.ones((5, 1), np.float32)
    expected = [session(data).run(None, {"x": feed}) for feed in (X, longer, wider)]
    for _ in range(2):  # whoever meets two sizes has plans for others, too, once for all
        compiled.clear()
        later = session(data)
        for feed, want in zip((wider, X, longer), expected[2:] + expected[:2], strict=True):
            assert_same(later.run(None, {"x": feed}), want)
    assert compiled == []


def test_plans_made_later_share_the_weights(compiled: list[Compiler]) -> None:
    weights = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    graph = onnx.parser.parse_graph("g (float[N, 64] x) => (float[M, 64] y) { y = Add(x, w) }")
    graph.initializer.append(numpy_helper.from_array(weights, "w"))
    data = with_opset(graph)
    session(data).run(None, {"x": np.ones((64, 64), np.float32)})
    compiled.clear()
    second = session(data)
    for size in (64, 1):  # one is stretched, the other is not: no plan does both
        x = np.full((size, 64), 0.5, np.float32)
        assert_same(second.run(None, {"x": x}), [x + weights])
    assert len(compiled) == 1
    first, other = (list(plan.weights) for plan in second.plans)
    assert first == other


def test_control_flow_for_other_sizes_is_compiled(compiled: list[Compiler]) -> None:
    data = model(CONTROL_FLOW)

    def feeds(trips: int, going: bool) -> Feeds:
        return {"x": X, "n": np.array(trips), "c": np.array(going)}

    expected = {args: session(data).run(None, feeds(*args)) for args in ((3, True), (0, True), (7, True), (2, False))}
    second = session(data)
    for args, want in expected.items():
        assert_same(second.run(None, feeds(*args)), want)


def test_initializers_can_be_fed(compiled: list[Compiler]) -> None:
    data = model("g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }")
    x = np.array([1, 1], np.float32)
    assert_same(session(data).run(None, {"x": x}), [np.array([2, 3], np.float32)])
    compiled.clear()
    second = session(data)
    assert [argument.name for argument in second.get_overridable_initializers()] == ["w"]
    assert compiled == []
    assert_same(second.run(None, {"x": x, "w": x}), [np.array([2, 2], np.float32)])
    assert_same(second.run(None, {"x": x}), [np.array([2, 3], np.float32)])


def test_what_was_read_is_not_stored_again(tmp_path: Path, folder: Path) -> None:
    weights = np.random.default_rng(0).normal(size=(256, 1024)).astype(np.float32)
    graph = onnx.parser.parse_graph("g (float[1, 256] x) => (float[1, 1024] y) { y = MatMul(x, w) }")
    graph.initializer.append(numpy_helper.from_array(weights, "w"))
    made = onnx.load_from_string(with_opset(graph))
    for name, outside in (("inside", False), ("outside", True)):
        path = tmp_path / f"{name}.onnx"
        onnx.save(made, path, save_as_external_data=outside, location="weights.bin", size_threshold=1024)
        before = set(entries(folder)) if folder.exists() else set()
        x = {"x": np.ones((1, 256), np.float32)}
        expected = session(path).run(None, x)
        (entry,) = set(entries(folder)) - before
        assert entry.stat().st_size < weights.nbytes / 4  # most of it are the names of sources
        assert_same(session(path).run(None, x), expected)


@pytest.mark.parametrize(("body", "sign"), [("y = MatMul(x, w)", 1), ("v = Neg(w) y = MatMul(x, v)", -1)])
def test_a_changed_data_file_is_noticed(body: str, sign: int, tmp_path: Path, compiled: list[Compiler]) -> None:
    """What lies there, and what was computed from it while the model was optimized."""
    graph = onnx.parser.parse_graph(f"g (float[1, 64] x) => (float[1, 64] y) {{ {body} }}")
    graph.initializer.append(numpy_helper.from_array(np.eye(64, dtype=np.float32), "w"))
    made = onnx.load_from_string(with_opset(graph))
    path = tmp_path / "model.onnx"
    onnx.save(made, path, save_as_external_data=True, location="weights.bin", size_threshold=1024)
    x = {"x": np.arange(64, dtype=np.float32)[None]}
    assert_same(session(path).run(None, x), [sign * x["x"]])
    (tmp_path / "weights.bin").unlink()
    (tmp_path / "weights.bin").write_bytes((2 * np.eye(64, dtype=np.float32)).tobytes())
    assert_same(session(path).run(None, x), [2 * sign * x["x"]])


def test_another_model_at_the_same_path_is_compiled(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    results = []
    for constant in (0.0, 1.0):
        data = convolution(constant)
        path.write_bytes(data)
        results.append(session(path).run(None, IMAGE))
        assert_same(results[-1], session(data).run(None, IMAGE))
    assert (results[0][0] != results[1][0]).any()


def test_a_file_that_was_written_just_now_is_not_remembered(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_cache, "SETTLED", 2.0)
    path = tmp_path / "model.onnx"
    path.write_bytes(convolution())
    session(path)
    assert entries(folder) == []
    os.utime(path, (path.stat().st_mtime - 5,) * 2)
    session(path)
    assert len(entries(folder)) == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: data[:100] + b"x" + data[101:],
    ],
    ids=["empty", "half", "last bit", "in the middle"],
)
def test_damaged_entries_are_replaced(damage: Callable[[bytes], bytes], folder: Path, compiled: list[Compiler]) -> None:
    data = convolution()
    expected = session(data).run(None, IMAGE)
    (entry,) = entries(folder)
    entry.unlink()
    session(data)  # by now all is imported that an entry names
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole))
    compiled.clear()
    assert_same(session(data).run(None, IMAGE), expected)
    assert len(compiled) == 1
    assert entry.read_bytes() == whole


@pytest.mark.parametrize("payload", [b"", b"\xff" * 64, b"\x02" + bytes(7) + b"{}"])
def test_whole_entries_that_make_no_sense_are_removed(
    payload: bytes, folder: Path, compiled: list[Compiler], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = convolution()
    written: list[bytes] = []
    original = cache.write
    with monkeypatch.context() as patch:
        patch.setattr(cache, "write", lambda key, *parts: (written.append(key), original(key, payload)))
        expected = session(data).run(None, IMAGE)
    compiled.clear()
    assert_same(session(data).run(None, IMAGE), expected)
    assert len(compiled) == 1
    assert len(entries(folder)) == 1


def test_what_plans_depend_on_is_part_of_the_key(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = convolution()

    def options(**fields: Any) -> sardonyx.SessionOptions:
        made = sardonyx.SessionOptions()
        for name, value in fields.items():
            setattr(made, name, value)
        return made

    basic = options(graph_optimization_level=sardonyx.GraphOptimizationLevel.ORT_ENABLE_BASIC)
    asked = options()
    asked.add_session_config_entry("optimization.merge_projections", "1")
    limited = options(memory_limit="1GB")
    for count, given in enumerate(
        [
            {},
            {"sess_options": limited},
            {"sess_options": basic},
            {"sess_options": asked},
            {"disabled_optimizers": ["conv_batch_normalization"]},
            {"provider": "WasmExecutionProvider"},
        ],
        1,
    ):
        session(data, **given)
        session(data, **given)
        assert len(entries(folder)) == count
    monkeypatch.setattr(sources, "installation", lambda packages: "another")
    session(data)
    assert len(entries(folder)) == count + 1


def test_what_needs_the_graph_does_without_the_cache(
    folder: Path, tmp_path: Path, compiled: list[Compiler], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = convolution()
    saving, profiling = sardonyx.SessionOptions(), sardonyx.SessionOptions()
    saving.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    profiling.enable_profiling = True
    profiling.profile_file_prefix = str(tmp_path / "profile")
    for given in (saving, profiling):
        session(data, sess_options=given)
    assert (tmp_path / "optimized.onnx").exists()
    monkeypatch.setenv("SARDONYX_REWRITE_LIMIT", "1")
    session(data)
    monkeypatch.delenv("SARDONYX_REWRITE_LIMIT")
    monkeypatch.setenv("SARDONYX_CACHE", "0")
    session(data)
    assert len(compiled) == 4
    assert not folder.exists() or entries(folder) == []


@pytest.mark.parametrize("module", [__name__, None], ids=["named", "executed"])
def test_operators_of_others_are_not_remembered(module: Any, folder: Path) -> None:
    class Twice(Operator, domain="test"):
        def expand(self, x: Any) -> Any:
            return 2 * x

    Twice.__module__ = module
    session(convolution())
    assert not folder.exists()


def test_the_order_of_tests_does_not_matter() -> None:
    """An example in a docstring declares an operator: while it is there, no plans are kept."""
    tests = ["core/sardonyx/ops/custom", f"{Path(__file__).relative_to(Path.cwd())}::test_initializers_can_be_fed"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stdout


def test_sources_change_the_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "some_backend"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = [sources.release(("some_backend",))]
    for name in ("inner/kernel.py", "shader.wgsl", "__init__.py"):
        (package / name).write_text("# more")
        sources.release.cache_clear()
        found.append(sources.release(("some_backend",)))
    assert len(set(found)) == 4


def test_no_plan_depends_on_the_rooms_that_are_not_looked_at() -> None:
    """They are above `api`, so that none below imports them, as `make lint` shows, and they declare no operators."""
    with open(Path(__file__).parents[2] / "pyproject.toml", "rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    assert set(layers[: layers.index("api")]) >= sources.ABOVE
    folder = Path(sources.__file__).parents[1]
    looked_at = {Path(path).relative_to(folder).as_posix() for path, _, _ in sources._sources(str(folder))}
    assert {"passes/vision/__init__.py", "compat.py", "api/session.py", "quantization/watch.py"} <= looked_at
    others = {path.relative_to(folder).as_posix() for path in folder.rglob("*.py")} - looked_at
    assert {path.partition("/")[0] for path in others} == sources.ABOVE
    declaring = re.compile(r"^@custom_op\(|^class \w+\(Operator\b", re.MULTILINE)
    assert [path for path in sorted(others) if declaring.search((folder / path).read_text())] == []
    assert declaring.search((folder / "quantization/watch.py").read_text())


def test_a_wheel_says_what_is_the_same_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In Pyodide times tell when the wheel was unpacked, anew in each visit of a page."""
    source, record = tmp_path / "some_backend" / "__init__.py", tmp_path / "sardonyx-1.dist-info" / "RECORD"
    for file in (source, record):
        file.parent.mkdir()
    (tmp_path / "other-1.dist-info").mkdir()
    source.write_text("a = 1")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sources, "IN_MEMORY", True)

    def release(text: str, time: int) -> str:
        record.write_text(text)
        os.utime(source, (time, time))
        sources.release.cache_clear()
        return sources.release(("some_backend",))

    listed = "some_backend/__init__.py,sha256={},5\nother/__init__.py,,\n".format
    assert release(listed("a"), 1000) == release(listed("a"), 2000)
    assert release(listed("b"), 1000) != release(listed("a"), 1000)
    assert release("", 1000) != release("", 2000)
    sources.release.cache_clear()


@pytest.mark.parametrize("name", ["digits.onnx", "digits.sdx"])
def test_in_memory_a_model_is_opened_once(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In JupyterLite the page hands over the whole file each time."""
    path = tmp_path / name
    digits = assets() / "digits.onnx"
    path.write_bytes(digits.read_bytes())
    if path.suffix == ".sdx":
        assert main(["compile", str(digits), "--output", str(path), "--shape", "image=1x1x28x28"]) == 0
    opened, plain = [], open

    def counted(file: Any, *arguments: Any, **named: Any) -> Any:
        opened.append(file)
        return plain(file, *arguments, **named)

    monkeypatch.setattr(sources, "IN_MEMORY", True)
    monkeypatch.setattr("builtins.open", counted)
    image = np.zeros((1, 1, 28, 28), np.float32)
    (found,) = sardonyx.InferenceSession(str(path)).run(None, {"image": image})
    monkeypatch.undo()
    assert opened.count(str(path)) == 1
    (wanted,) = onnxruntime.InferenceSession(digits).run(None, {"image": image})
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)


def test_processes_share_the_cache_at_the_same_time(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(convolution())
    os.utime(path, (path.stat().st_mtime - 5,) * 2)
    script = f"""
import numpy as np, sardonyx
x = np.random.default_rng(1).normal(size=(1, 3, 9, 9)).astype(np.float32)
for _ in range(3):
    session = sardonyx.InferenceSession({str(path)!r}, providers=["NumpyExecutionProvider"])
    print(session.compiled, session.run(None, {{"x": x}})[0].tobytes().hex())
"""
    command = [sys.executable, "-c", script]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    lines = [line.split() for process in running for line in process.communicate(timeout=60)[0].splitlines()]
    assert len(lines) == 9
    assert len({result for _, result in lines}) == 1
    assert [made for made, _ in lines].count("0") >= 6
    assert len(list(folder.iterdir())) == len(entries(folder)) == 1


UNASKED = {
    "sardonyx.api.caches",
    "sardonyx.api.io_binding",
    "sardonyx.api.loaded_bundle",
    "sardonyx.model.serde.wire",
    "sardonyx.numpy_backend.codegen",
    "sardonyx.plans.bundle.recall",
    "sardonyx.runtime.streaming",
}
"""Modules that some sessions need; each brings others."""


@pytest.mark.parametrize("provider", PROVIDERS)
def test_who_finds_a_plan_imports_nothing_that_makes_one(provider: str, tmp_path: Path, folder: Path) -> None:
    require_provider(provider)
    path = tmp_path / "model.onnx"
    path.write_bytes(convolution())
    os.utime(path, (path.stat().st_mtime - 5,) * 2)
    script = f"""
import sys
import numpy as np, sardonyx
session = sardonyx.InferenceSession({str(path)!r}, providers=[{provider!r}])
session.run(None, {{"x": np.ones((1, 3, 9, 9), np.float32)}})
rooms = {{name.split(".")[1] for name in sys.modules if name.startswith("sardonyx.")}}
print(session.compiled, *sorted(rooms & {{"ops", "cli", "primitives"}}), *sorted(
    {{"sardonyx.compiler.compile", "sardonyx.passes.pipeline", "sardonyx.model.serde.reader"}} & sys.modules.keys()
))
print(*sorted({UNASKED!r} & sys.modules.keys()))
"""
    runs = [
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=500
        ).stdout.splitlines()
        for _ in range(2)
    ]
    assert runs[1][1] == ("sardonyx.numpy_backend.codegen" if provider == NUMPY else "")  # it has few kernels
    found = [lines[0].split() for lines in runs]
    assert found[0] == [
        "1",
        "ops",
        "primitives",
        "sardonyx.compiler.compile",
        "sardonyx.model.serde.reader",
        "sardonyx.passes.pipeline",
    ]
    assert found[1] == ["0"]


@pytest.mark.parametrize(
    ("shape", "body"),
    [
        ((1, 2, 6, 6), "y = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)"),
        ((3, 2, 4), "y = LSTM <hidden_size = 5> (x, w, r)"),
    ],
    ids=["windows", "recurrent"],
)
def test_networks_run_without_the_primitives(shape: tuple[int, ...], body: str, tmp_path: Path, folder: Path) -> None:
    """On NumPy, once there is a plan: functions of the host do what routines are."""
    graph = onnx.parser.parse_graph(f"g (float{[*shape]} x) => (float[A, B, C, D] y) {{ {body} }}")
    weights = {"w": np.full((1, 20, 4), 0.5, np.float32), "r": np.full((1, 20, 5), 0.1, np.float32)}
    graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items() if "LSTM" in body)
    path = tmp_path / "model.onnx"
    path.write_bytes(with_opset(graph))
    os.utime(path, (path.stat().st_mtime - 5,) * 2)
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    script = f"""
import sys
import numpy as np, sardonyx
session = sardonyx.InferenceSession({str(path)!r}, providers=["NumpyExecutionProvider"])
(y,) = session.run(None, {{"x": np.load({str(tmp_path / "x.npy")!r})}})
np.save({str(tmp_path / "y.npy")!r}, y)
print(session.compiled, int("sardonyx.primitives" in sys.modules))
"""
    (wanted,) = onnxruntime.InferenceSession(str(path)).run(None, {"x": x})
    for told in ("1 1", "0 0"):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=500)
        assert done.stdout.strip() == told
        np.testing.assert_allclose(np.load(tmp_path / "y.npy"), wanted, rtol=1e-5)


def test_what_is_kept_is_plain() -> None:
    """Numbers and texts of other types become Python's own; what only this process can hold is refused."""
    data = {"a": [1, 2.5, None, True], "b": ("text", (1 << 80,)), "c": GraphOptimizationLevel.ORT_ENABLE_BASIC}
    found = pickle.loads(plan_cache._plain(data | {"d": np.float64(0.1)}))
    assert found == data | {"d": 0.1}
    assert [type(found[name]) for name in "cd"] == [int, float]
    for refused in (np.int64(3), np.zeros(3), len, object(), lambda: 0):
        with pytest.raises(TypeError, match="cannot be kept"):
            plan_cache._plain([refused])


def test_routines_are_there_without_operators() -> None:
    """A process that finds a plan imports none of the modules that made it."""
    script = """
from sardonyx.primitives import find
from sardonyx.numpy_backend import provider, routines
print(sorted(name for name in provider.routines - routines.FUNCTIONS.keys() if find(name).name != name))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=500)
    assert done.stdout == "[]\n"


def test_a_transform_of_an_earlier_process(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(model("g (float[1, 8, 1] x) => (float[A, B, C] y) { y = DFT (x) }"))
    os.utime(path, (path.stat().st_mtime - 5,) * 2)
    script = f"""
import numpy as np, sardonyx
session = sardonyx.InferenceSession({str(path)!r}, providers=["NumpyExecutionProvider"])
print(session.run(None, {{"x": np.ones((1, 8, 1), np.float32)}})[0][0, 0, 0], session.compiled)
"""
    for compiled in (1, 0):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=500)
        assert done.stdout.split() == ["8.0", str(compiled)]


@pytest.mark.parametrize(("limit", "most"), [("ROOM", 3 * 132), ("MOST", 3)])
def test_the_least_recently_used_go(limit: str, most: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, limit, most)
    monkeypatch.setattr(cache, "SELDOM", 1)
    keys = [bytes([k]) for k in range(4)]
    for age, name in zip((40, 30, 20), keys):
        cache.write(name, bytes(100))
        newest = max(folder.iterdir(), key=os.path.getmtime)
        os.utime(newest, (newest.stat().st_mtime - age,) * 2)
    assert cache.read(keys[0]) is not None
    cache.write(keys[3], bytes(100))
    assert [cache.read(name) is not None for name in keys] == [True, False, True, True]
    cache.forget(keys[0])
    assert cache.read(keys[0]) is None
