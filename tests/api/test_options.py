"""What options of sessions and runs do; where onnxruntime does it too, the same."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import sardonyx
from sardonyx import errors
from sardonyx.common import debug
from sardonyx.providers import Device, Provider
from tests.engine.graphs import model
from tests.engine.providers import NUMPY, PROVIDERS, WASM, require_provider

CPU = "CPUExecutionProvider"
SIDES = pytest.mark.parametrize("side", [sardonyx, onnxruntime], ids=lambda side: side.__name__)
ADD = model(
    """
agent (float[N, M] x) => (float[N, M] y) <float[2] w = {1, 2}> {
  t = Relu (x)
  y = Add (t, w)
}
"""
)
X = np.ones((3, 2), np.float32)


@pytest.fixture(autouse=True)
def warn_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug, "_warned", set())
    monkeypatch.setattr(debug, "severity", debug.WARNING)


def denoted() -> bytes:
    proto = onnx.load_from_string(ADD)
    proto.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    return proto.SerializeToString()


@SIDES
@pytest.mark.parametrize("by", ["name", "denotation"])
def test_free_dimensions(side: ModuleType, by: str) -> None:
    options = side.SessionOptions()
    if by == "name":
        options.add_free_dimension_override_by_name("N", 4)
        options.add_free_dimension_override_by_name("no such size", 4)
    else:
        options.add_free_dimension_override_by_denotation("DATA_BATCH", 4)
    session = side.InferenceSession(denoted(), options, providers=[CPU])
    assert session.get_inputs()[0].shape == [4, "M"]
    assert session.get_outputs()[0].shape[0] == 4
    (y,) = session.run(None, {"x": np.ones((4, 2), np.float32)})
    assert y.shape == (4, 2)
    with pytest.raises(Exception, match=r"axis 0 is 3, not 4|Got: 3 Expected: 4"):
        session.run(None, {"x": X})


def test_known_sizes_make_a_plan_at_once() -> None:
    options = sardonyx.SessionOptions()
    for name, size in {"N": 3, "M": 2}.items():
        options.add_free_dimension_override_by_name(name, size)
    session = sardonyx.InferenceSession(ADD, options, providers=[NUMPY])
    assert session.compiled == 1
    session.run(None, {"x": X})
    assert session.compiled == 1


def test_plans_of_other_sizes_are_not_recalled(own_cache: Path, tmp_path: Path) -> None:
    keys = []
    for size in (None, 3, 4):
        options = sardonyx.SessionOptions()
        if size:
            options.add_free_dimension_override_by_name("N", size)
        keys.append(options.changes.key())
    for size in (3, 4):
        options = sardonyx.SessionOptions()
        options.add_free_dimension_override_by_denotation("N", size)
        keys.append(options.changes.key())
    assert len(set(map(repr, keys))) == 5
    options.add_initializer("w", X)
    assert options.changes.key() is None


@SIDES
def test_an_initializer(side: ModuleType) -> None:
    options = side.SessionOptions()
    given = np.array([5, 6], np.float32)
    value = onnxruntime.OrtValue.ortvalue_from_numpy(given)
    options.add_initializer("w", value)
    options.add_initializer("no such initializer", value)
    (y,) = side.InferenceSession(ADD, options, providers=[CPU]).run(None, {"x": X})
    np.testing.assert_array_equal(y, np.broadcast_to(given + 1, (3, 2)))


@pytest.mark.parametrize("given", [np.ones(3, np.float32), np.ones(2, np.float64)], ids=["shape", "type"])
def test_an_initializer_that_does_not_fit(given: np.ndarray) -> None:
    options = sardonyx.SessionOptions()
    options.add_initializer("w", given)
    with pytest.raises(errors.InvalidArgument, match=r"initializer 'w' is float32\[2\], not"):
        sardonyx.InferenceSession(ADD, options, providers=[NUMPY]).run(None, {"x": X})


def without_data() -> bytes:
    """A model whose initializer lies in a file."""
    proto = onnx.load_from_string(ADD)
    (weight,) = proto.graph.initializer
    weight.ClearField("float_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": "w.bin", "offset": "0", "length": "8"}.items():
        weight.external_data.add(key=key, value=value)
    return bytes(proto.SerializeToString())


@SIDES
def test_external_initializers(side: ModuleType) -> None:
    data = without_data()
    given = np.array([5, 6], np.float32)
    value = onnxruntime.OrtValue.ortvalue_from_numpy(given)
    options = side.SessionOptions()
    options.add_external_initializers(["w"], [value])
    (y,) = side.InferenceSession(data, options, providers=[CPU]).run(None, {"x": X})
    np.testing.assert_array_equal(y, np.broadcast_to(given + 1, (3, 2)))


@SIDES
def test_data_files_in_memory(side: ModuleType) -> None:
    data = without_data()
    given = np.array([5, 6], np.float32).tobytes()
    options = side.SessionOptions()
    options.add_external_initializers_from_files_in_memory(["w.bin"], [given], [len(given)])
    (y,) = side.InferenceSession(data, options, providers=[CPU]).run(None, {"x": X})
    np.testing.assert_array_equal(y, np.broadcast_to(np.float32([6, 7]), (3, 2)))


@SIDES
def test_loading_is_cancelled(side: ModuleType) -> None:
    options = side.SessionOptions()
    options.set_load_cancellation_flag(True)
    with pytest.raises(Exception, match=r"cancel|CANCEL") as caught:
        side.InferenceSession(ADD, options, providers=[CPU])
    assert type(caught.value).__name__ == "ModelLoadCanceled"
    options.set_load_cancellation_flag(False)
    side.InferenceSession(ADD, options, providers=[CPU]).run(None, {"x": X})


def test_providers_by_options() -> None:
    options = sardonyx.SessionOptions()
    assert not options.has_providers()
    options.add_provider(NUMPY, {})
    assert options.has_providers()
    assert sardonyx.InferenceSession(ADD, options).get_providers() == [NUMPY]
    assert sardonyx.InferenceSession(ADD, options, providers=[WASM]).get_providers()[0] == WASM
    options = sardonyx.SessionOptions()
    (device,) = (each for each in sardonyx.get_ep_devices() if each.ep_name == NUMPY)
    options.add_provider_for_devices([device], {})
    assert sardonyx.InferenceSession(ADD, options).get_providers() == [NUMPY]
    options = sardonyx.SessionOptions()
    options.set_provider_selection_policy(sardonyx.OrtExecutionProviderDevicePolicy.PREFER_CPU)
    assert sardonyx.InferenceSession(ADD, options).get_providers() == [CPU, WASM, NUMPY]


def test_options_of_providers_that_have_no_effect() -> None:
    given = {"arena_extend_strategy": "kSameAsRequested", "intra_op_num_threads": 1}
    quiet = sardonyx.SessionOptions()
    quiet.log_severity_level = 4
    sardonyx.InferenceSession(ADD, quiet, providers=[(CPU, given)])
    with pytest.warns(UserWarning, match="'arena_extend_strategy' has no effect here; there are intra_op_num_threads"):
        session = sardonyx.InferenceSession(ADD, providers=[(CPU, given)])
    assert session.get_provider_options() == {name: {"intra_op_num_threads": "1"} for name in (CPU, WASM, NUMPY)}
    sardonyx.InferenceSession(ADD, providers=[(CPU, given)])  # it is said once
    sardonyx.set_default_logger_severity(3)
    sardonyx.InferenceSession(ADD, providers=[(NUMPY, {"speed": "high"})])
    aloud = sardonyx.SessionOptions()
    aloud.log_severity_level = 2
    with pytest.warns(UserWarning, match="'speed' has no effect here; there are intra_op_num_threads"):
        sardonyx.InferenceSession(ADD, aloud, providers=[(NUMPY, {"speed": "high"})])
    with pytest.raises(ValueError, match="a severity is one of 0"):
        sardonyx.set_default_logger_severity(9)


@SIDES
@pytest.mark.parametrize(
    ("wanted", "options"),
    [([CPU], [{}, {}]), ([(CPU,)], None), ([(CPU, "fast")], None), ([3], None)],
    ids=str,
)
def test_providers_in_a_form_that_makes_no_sense(side: ModuleType, wanted: Any, options: Any) -> None:
    with pytest.raises(ValueError, match="provider"):
        side.InferenceSession(ADD, providers=wanted, provider_options=options, enable_fallback=0)


@SIDES
def test_providers_that_nobody_knows(side: ModuleType) -> None:
    with pytest.warns(UserWarning, match="NoSuchProvider"):
        session = side.InferenceSession(ADD, providers=["NoSuchProvider", CPU])
    assert session.get_providers()[0] == CPU
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(RuntimeError, match="Unknown Provider Type: NoSuchProvider"):
            side.InferenceSession(ADD, providers=["NoSuchProvider"], enable_fallback=0)
        with pytest.raises(RuntimeError, match="Unknown Provider Type: NoSuchProvider"):
            session.set_providers(["NoSuchProvider"])


@pytest.mark.parametrize(
    ("short", "names"),
    [
        (["numpy"], [NUMPY]),
        (["wasm"], [WASM, NUMPY]),
        (["WebAssembly", "NumPy"], [WASM, NUMPY]),
        ([("cpu", {"intra_op_num_threads": 1})], [CPU, WASM, NUMPY]),
        (["webgpu", "numpy"], ["WebGpuExecutionProvider", NUMPY]),
    ],
    ids=str,
)
def test_short_names_of_providers(short: list[Any], names: list[str]) -> None:
    require_provider(names[0] if names[0] != CPU else WASM)
    assert sardonyx.InferenceSession(ADD, providers=short).get_providers() == names
    options = sardonyx.SessionOptions()
    options.add_provider(short[0] if isinstance(short[0], str) else short[0][0], {})
    assert sardonyx.InferenceSession(ADD, options).get_providers()[0] == names[0]


def test_short_names_without_fallback() -> None:
    options = sardonyx.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    assert sardonyx.InferenceSession(ADD, options, providers=["wasm"]).get_providers() == [WASM]
    with pytest.raises(errors.InvalidArgument, match="CPUExecutionProvider is asked for"):
        sardonyx.InferenceSession(ADD, options, providers=["cpu"])


def test_an_address_is_no_file() -> None:
    with pytest.raises(errors.NoSuchFile, match=r"await InferenceSession\.from_url\('https://example\.com/m\.onnx'\)"):
        sardonyx.InferenceSession("https://example.com/m.onnx")


def test_a_name_is_no_list_of_providers() -> None:
    with pytest.raises(errors.InvalidArgument, match=r"providers are a list: providers=\['CPUExecutionProvider'\]"):
        sardonyx.InferenceSession(ADD, providers=CPU)


@SIDES
def test_the_cpu_is_asked_for_and_refused(side: ModuleType) -> None:
    options = side.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    with pytest.raises(Exception, match="session config") as caught:
        side.InferenceSession(ADD, options, providers=[CPU])
    assert type(caught.value).__name__ == "InvalidArgument"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_without_fallback(provider: str) -> None:
    require_provider(provider)
    options = sardonyx.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    session = sardonyx.InferenceSession(ADD, options, providers=[provider])
    assert session.get_providers() == [provider]
    (y,) = session.run(None, {"x": X})
    np.testing.assert_array_equal(y, np.broadcast_to(np.float32([2, 3]), (3, 2)))
    strings = model("agent (string[N] x) => (string[N] y) { y = StringConcat (x, x) }")
    session = sardonyx.InferenceSession(strings, options, providers=[provider])
    words = {"x": np.array(["a"], object)}
    if provider == NUMPY:
        assert session.run(None, words)[0].tolist() == ["aa"]
    else:
        with pytest.raises(errors.NotImplemented, match=f"StringConcat 'y' cannot run on {provider}"):
            session.run(None, words)


def placed(session: Any) -> list[tuple[str, str, str, str]]:
    return [
        (part.ep_name, node.name, node.domain, node.op_type)
        for part in session.get_provider_graph_assignment_info()
        for node in part.get_nodes()
    ]


@SIDES
def test_where_nodes_run(side: ModuleType) -> None:
    session = side.InferenceSession(ADD, providers=[CPU])
    with pytest.raises(Exception, match=r"session.record_ep_graph_assignment_info.* to"):
        session.get_provider_graph_assignment_info()
    options = side.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    session = side.InferenceSession(ADD, options, providers=[CPU])
    for _ in range(2):  # before a run, and after one
        assert placed(session) == [(CPU, "", "", "Relu"), (CPU, "", "", "Add")]
        assert [len(part.get_nodes()) for part in session.get_provider_graph_assignment_info()] == [1, 1]
        session.run(None, {"x": X})


NESTED = model("""
agent (float[N,4] x, bool c) => (float[M,N] y) {
  h = If (c) <
    then_branch = a () => (float[N,4] p) { p = Exp (x) },
    else_branch = b () => (float[N,4] q) { q = Neg (x) }>
  s = Constant <value_ints = [4, -1]> ()
  y = Reshape (h, s)
}
""")


def test_where_nodes_of_control_flow_run() -> None:
    found = []
    for side in (sardonyx, onnxruntime):
        options = side.SessionOptions()
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        found.append(placed(side.InferenceSession(NESTED, options, providers=[CPU])))
    assert sorted(found[0]) == sorted(found[1])
    assert [each[-1] for each in found[0]][2:] == ["If", "Reshape"]


def test_where_nodes_run_that_a_provider_cannot_run() -> None:
    options = sardonyx.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    strings = model("agent (string[N] x) => (string[N] y) { a = Identity (x)  y = StringConcat (a, x) }")
    options.graph_optimization_level = sardonyx.GraphOptimizationLevel.ORT_DISABLE_ALL
    found = placed(sardonyx.InferenceSession(strings, options, providers=[WASM]))
    assert [(name, op_type) for name, *_, op_type in found] == [(WASM, "Identity"), (NUMPY, "StringConcat")]


def test_where_nodes_run_is_not_known_without_sizes() -> None:
    options = sardonyx.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    odd = model("agent (float[N] x) => (float[3,7] y) { s = Constant <value_ints = [3, 7]> ()  y = Reshape (x, s) }")
    session = sardonyx.InferenceSession(odd, options, providers=[NUMPY])
    with pytest.raises(errors.Fail, match="run it once"):
        session.get_provider_graph_assignment_info()
    session.run(None, {"x": np.ones(21, np.float32)})
    assert placed(session) == [(NUMPY, "", "", "Reshape")]


@SIDES
def test_gelu_is_approximated(side: ModuleType) -> None:
    data = model("agent (float[N] x) => (float[N] y) { y = Gelu (x) }")
    x = np.linspace(-4, 4, 99, dtype=np.float32)
    results = []
    for value in ("0", "1"):
        options = side.SessionOptions()
        options.add_session_config_entry("optimization.enable_gelu_approximation", value)
        results += side.InferenceSession(data, options, providers=[CPU]).run(None, {"x": x})
    if side is sardonyx:
        tanh = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
        np.testing.assert_allclose(results[1], tanh, atol=1e-6)
        assert 1e-5 < np.abs(results[0] - results[1]).max() < 1e-3
    else:
        assert np.abs(results[0] - results[1]).max() < 1e-3


@pytest.mark.parametrize("provider", PROVIDERS)
def test_memory_is_given_back_after_a_run(provider: str) -> None:
    require_provider(provider)
    session = sardonyx.InferenceSession("examples/digits/digits.onnx", providers=[provider])
    feeds = {"image": np.zeros((4, 1, 28, 28), np.float32)}
    (wanted,) = session.run(None, feeds)
    assert session.memory()[0].arena > 0
    options = sardonyx.RunOptions()
    options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    session.run(None, feeds, options)
    assert session.memory()[0].arena == 0
    for _ in range(3):
        np.testing.assert_array_equal(session.run(None, feeds)[0], wanted)


def test_formats_and_libraries_that_are_not_read() -> None:
    options = sardonyx.SessionOptions()
    with pytest.raises(errors.NotImplemented, match=r"@sardonyx\.custom_op"):
        options.register_custom_ops_library("ops.so")
    with pytest.raises(errors.NotImplemented, match="models are written as 'ONNX' alone, not as 'ORT'"):
        options.add_session_config_entry("session.save_model_format", "ORT")
    with pytest.raises(errors.InvalidArgument, match="a model comes as 'ONNX' or 'ORT', not 'TF'"):
        options.add_session_config_entry("session.load_model_format", "TF")
    writing = sardonyx.SessionOptions()
    writing.optimized_model_filepath = "made.ort"
    with pytest.raises(errors.NotImplemented, match=r"made\.ort: models are written as ONNX alone"):
        sardonyx.InferenceSession(ADD, writing, providers=[NUMPY])
    options.add_session_config_entry("session.save_model_format", "ONNX")
    with pytest.warns(UserWarning, match="set_denormal_as_zero has no effect"):
        options.add_session_config_entry("session.set_denormal_as_zero", "1")


@SIDES
def test_entries_that_are_not_there(side: ModuleType) -> None:
    with pytest.raises(RuntimeError, match="does not have configuration with key: speed"):
        side.SessionOptions().get_session_config_entry("speed")
    with pytest.raises(RuntimeError, match="does not have configuration with key: speed"):
        side.RunOptions().get_run_config_entry("speed")


def test_other_providers() -> None:
    session = sardonyx.InferenceSession(ADD, providers=[WASM])
    (first,) = session.run(None, {"x": X})
    session.set_providers([NUMPY])
    assert session.get_providers() == [NUMPY]
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], first)
    session.set_providers()
    assert session.get_providers() == [CPU, WASM, NUMPY]
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], first)


class RefusingDevice(Device):
    """A device that does nothing of what it is asked for."""

    def refuse(self, *_: Any) -> Any:
        raise errors.EPFail("it refuses")

    allocate = upload = download = load = refuse


class Refusing(Provider):
    """A provider on which each run fails."""

    name = "RefusingExecutionProvider"
    _device = RefusingDevice()

    def supports(self, *_: Any) -> bool:
        return True

    def device(self, options: Any) -> Any:
        return self._device


def test_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    from sardonyx.providers import registry

    refusing = Refusing()
    monkeypatch.setitem(registry.installed(), refusing.name, lambda: refusing)
    try:
        session = sardonyx.InferenceSession(ADD, providers=[refusing.name])
        assert session.get_providers()[0] == refusing.name
        session.disable_fallback()
        with pytest.raises(errors.EPFail, match="it refuses"):
            session.run(None, {"x": X})
        session.enable_fallback()
        with pytest.warns(RuntimeWarning, match="it refuses; the session goes on with CPUExecutionProvider"):
            (y,) = session.run(None, {"x": X})
        np.testing.assert_array_equal(y, np.broadcast_to(np.float32([2, 3]), (3, 2)))
        assert session.get_providers() == [CPU, WASM, NUMPY]
        session = sardonyx.InferenceSession(ADD, providers=[refusing.name], enable_fallback=0)
        with pytest.raises(errors.EPFail, match="it refuses"):
            session.run(None, {"x": X})
    finally:
        registry.load.cache_clear()


@SIDES
def test_callbacks(side: ModuleType) -> None:
    import threading

    session = side.InferenceSession(ADD, providers=[CPU])
    heard: list[Any] = []
    over = threading.Event()

    def callback(results: Any, user_data: Any, error: str) -> None:
        heard.extend([results, user_data, error])
        over.set()

    session.run_async(["y"], {"x": X}, callback, "mine", side.RunOptions())
    assert over.wait(10)
    np.testing.assert_array_equal(heard[0][0], np.broadcast_to(np.float32([2, 3]), (3, 2)))
    assert heard[1:] == ["mine", ""]


@SIDES
def test_a_profile_is_an_array_of_events(side: ModuleType, tmp_path: Path) -> None:
    options = side.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "trace")
    session = side.InferenceSession(ADD, options, providers=[CPU])
    session.run(None, {"x": X})
    events = json.loads(Path(session.end_profiling()).read_text())
    nodes = [event for event in events if event.get("cat") == "Node"]
    assert nodes
    for event in nodes:
        assert event["name"].endswith("_kernel_time")
        assert event["ph"] == "X"
        assert {"op_name", "provider", "input_type_shape", "output_type_shape"} <= event["args"].keys()
    assert {"float": [3, 2]} in nodes[0]["args"]["input_type_shape"]
    assert any(event["name"] == "model_run" and event["cat"] == "Session" for event in events)
    assert session.get_profiling_start_time_ns() > 0


@SIDES
def test_the_optimized_model_is_written(side: ModuleType, tmp_path: Path) -> None:
    options = side.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.graph_optimization_level = side.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    side.InferenceSession(ADD, options, providers=[CPU])
    (y,) = onnxruntime.InferenceSession(tmp_path / "optimized.onnx", providers=[CPU]).run(None, {"x": X})
    np.testing.assert_array_equal(y, np.broadcast_to(np.float32([2, 3]), (3, 2)))


WIDE = model(
    """
agent (float[N, 100] x, int64[2] i) => (float[N, 100] y, float[2] z) <float[100] w, float[25] e> {
  y = Add (x, w)
  z = Gather (e, i)
}
""".replace("w,", f"w = {{{', '.join(['2'] * 100)}}},").replace("[25] e", f"[25] e = {{{', '.join(['3'] * 25)}}}")
)


@SIDES
@pytest.mark.parametrize(
    ("least", "outside"),
    [("0", {"w", "e"}), ("100", {"w", "e"}), ("101", {"w"}), ("400", {"w"}), ("401", set()), (None, set())],
)
def test_initializers_of_the_optimized_model_outside(
    side: ModuleType, least: str | None, outside: set[str], tmp_path: Path
) -> None:
    options = side.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "made.onnx")
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "made.bin")
    if least is not None:
        entry = "session.optimized_model_external_initializers_min_size_in_bytes"
        options.add_session_config_entry(entry, least)
    side.InferenceSession(WIDE, options, providers=[CPU])
    proto = onnx.load(tmp_path / "made.onnx", load_external_data=False)
    found = {each.name for each in proto.graph.initializer if each.data_location == onnx.TensorProto.EXTERNAL}
    assert found == outside
    assert (tmp_path / "made.bin").exists() == bool(outside)
    feeds = {"x": np.ones((1, 100), np.float32), "i": np.array([0, 24])}
    y, z = onnxruntime.InferenceSession(tmp_path / "made.onnx", providers=[CPU]).run(None, feeds)
    assert (y == 3).all()
    assert (z == 3).all()


@SIDES
def test_a_size_that_is_no_number(side: ModuleType, tmp_path: Path) -> None:
    options = side.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "made.onnx")
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "made.bin")
    options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "few")
    with pytest.raises(Exception, match="Failed to parse value") as caught:
        side.InferenceSession(WIDE, options, providers=[CPU])
    assert type(caught.value).__name__ == "Fail"


def with_config(text: str) -> bytes:
    proto = onnx.load_from_string(ADD)
    onnx.helper.set_model_props(proto, {"ort_config": text})
    return bytes(proto.SerializeToString())


@SIDES
def test_options_that_a_model_brings_along(side: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    told = {"inter_op_num_threads": 5, "intra_op_num_threads": 2, "graph_optimization_level": 1, "enable_profiling": 1}
    data = with_config(json.dumps({"session_options": {**told, "no_such_option": 3}, "others": 1}))
    given = side.SessionOptions()
    assert side.InferenceSession(data, given, providers=[CPU]).get_session_options().intra_op_num_threads == 0
    monkeypatch.setenv("ORT_LOAD_CONFIG_FROM_MODEL", "1")
    session = side.InferenceSession(data, given, providers=[CPU])
    found = session.get_session_options()
    assert (found.inter_op_num_threads, found.intra_op_num_threads) == (5, 2)
    assert found.graph_optimization_level == side.GraphOptimizationLevel.ORT_ENABLE_BASIC
    assert found.execution_mode == side.ExecutionMode.ORT_SEQUENTIAL
    assert Path(session.end_profiling()).exists()
    assert given.intra_op_num_threads == 0
    for text in ("{}", "[1]", '{"session_options": 3}'):
        found = side.InferenceSession(with_config(text), providers=[CPU]).get_session_options()
        assert found.intra_op_num_threads == 0
    side.InferenceSession(ADD, providers=[CPU])


@SIDES
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be parsed"),
        ('{"session_options": {"intra_op_num_threads": "2"}}', "must be an integer"),
        ('{"session_options": {"enable_profiling": true}}', "must be an integer"),
        ('{"session_options": {"graph_optimization_level": 7}}', "Unsupported graph_optimization_level value"),
        ('{"session_options": {"execution_mode": 5}}', "Unsupported execution_mode value"),
        ('{"session_options": {"intra_op_num_threads": -2}}', "Unsupported .*intra_op_num_threads"),
    ],
    ids=lambda text: text[:40],
)
def test_options_of_a_model_that_make_no_sense(
    side: ModuleType, text: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORT_LOAD_CONFIG_FROM_MODEL", "1")
    with pytest.raises(RuntimeError, match=message):
        side.InferenceSession(with_config(text), providers=[CPU], enable_fallback=0)


def test_options_of_a_model_that_nest_deeply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORT_LOAD_CONFIG_FROM_MODEL", "1")
    with pytest.raises(errors.InvalidArgument, match="cannot be parsed"):
        sardonyx.InferenceSession(with_config("[" * 100_000), providers=[CPU])


def test_a_bundle_brings_no_options(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from sardonyx.cli import main

    monkeypatch.setenv("ORT_LOAD_CONFIG_FROM_MODEL", "1")
    assert main(["compile", "examples/digits/digits.onnx", "--out", str(tmp_path / "d.sdx")]) == 0
    assert sardonyx.InferenceSession(tmp_path / "d.sdx").get_session_options().intra_op_num_threads == 0


@SIDES
def test_a_function_chooses_devices(side: ModuleType) -> None:
    seen: list[Any] = []

    def choose(devices: Any, about_model: Any, about_run: Any, most: int) -> Any:
        seen.extend(devices)
        return [device for device in devices if device.ep_name == CPU][:most]

    options = side.SessionOptions()
    options.set_provider_selection_policy_delegate(choose)
    session = side.InferenceSession(ADD, options)
    assert session.get_providers()[0] == CPU
    assert CPU in [device.ep_name for device in seen]
    options.set_ep_context_data_read_func(print, 1 << 20)
    options.clear_ep_context_data_read_func()


def test_threads_for_all_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    from sardonyx.common import threads

    asked: list[int] = []
    monkeypatch.setattr(threads, "check", asked.append)
    monkeypatch.setattr(threads, "shared", 0)
    sardonyx.set_global_thread_pool_sizes(3)
    options = sardonyx.SessionOptions()
    sardonyx.InferenceSession(ADD, options, providers=[NUMPY])
    options.use_per_session_threads = False
    sardonyx.InferenceSession(ADD, options, providers=[NUMPY])
    assert asked == [0, 3]


def test_functions_without_effect() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sardonyx.enable_telemetry_events()
        sardonyx.disable_telemetry_events()
        sardonyx.preload_dlls()
        sardonyx.set_default_logger_verbosity(1)
        memory = sardonyx.OrtMemoryInfo(
            "Cpu", sardonyx.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, sardonyx.OrtMemType.CPU
        )
        sardonyx.create_and_register_allocator(memory, sardonyx.OrtArenaCfg(1, 2, 3, 4))
    assert not sardonyx.has_collective_ops()
    assert sardonyx.get_device().startswith("CPU")
    assert sardonyx.get_version_string() == sardonyx.__version__
    with pytest.raises(errors.NotImplemented, match=r"entry point group 'sardonyx\.execution_providers'"):
        sardonyx.register_execution_provider_library("mine", "lib.so")


def test_what_a_session_tells() -> None:
    ours = sardonyx.InferenceSession(ADD, providers=[CPU])
    theirs = onnxruntime.InferenceSession(ADD, providers=[CPU])
    for name in ("get_input_memory_infos", "get_output_memory_infos"):
        for mine, other in zip(getattr(ours, name)(), getattr(theirs, name)(), strict=True):
            assert mine.name == other.name
            assert int(mine.mem_type) == int(other.mem_type)
            assert int(mine.device_mem_type) == int(other.device_mem_type)
            assert (mine.device_id, mine.device_vendor_id) == (other.device_id, other.device_vendor_id)
    assert [device.ep_name for device in ours.get_input_epdevices()] == [WASM]
    assert str(ours.get_inputs()[0]) == str(theirs.get_inputs()[0])


@SIDES
@pytest.mark.parametrize(("kind", "name"), [("SessionOptions", "intra_op_threads"), ("RunOptions", "terminated")])
def test_misspelt_options_are_refused(side: ModuleType, kind: str, name: str) -> None:
    with pytest.raises(AttributeError, match=name):
        setattr(getattr(side, kind)(), name, 1)


def test_the_option_that_was_meant_is_named() -> None:
    with pytest.raises(AttributeError, match=r"no option 'intra_op_threads'; did you mean 'intra_op_num_threads'\?"):
        sardonyx.SessionOptions().intra_op_threads = 1  # type: ignore[attr-defined]


def test_every_event_of_a_profile_has_a_category(tmp_path: Path) -> None:
    options = sardonyx.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "p")
    session = sardonyx.InferenceSession(ADD, options, providers=[NUMPY])
    session.run(None, {"x": X})
    events = json.loads(Path(session.end_profiling()).read_text())
    assert [event for event in events if event["cat"] == "Node"]


@SIDES
def test_a_model_in_bytes_has_its_data_in_a_folder(side: ModuleType, tmp_path: Path) -> None:
    proto = onnx.load_from_string(ADD)
    proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.array([3, 4], np.float32), "w"))
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    data = (tmp_path / "m.onnx").read_bytes()
    options = side.SessionOptions()
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(tmp_path))
    (y,) = side.InferenceSession(data, options, providers=[CPU]).run(None, {"x": X})
    np.testing.assert_array_equal(y, np.add(X, [3, 4]))


def test_what_cannot_be_is_refused() -> None:
    options = sardonyx.SessionOptions()
    value = sardonyx.OrtValue.ortvalue_from_numpy(np.ones(2, np.float32))
    with pytest.raises(errors.InvalidArgument, match="'N' cannot be -1"):
        options.add_free_dimension_override_by_name("N", -1)
    with pytest.raises(errors.InvalidArgument, match="2 names and 1 values"):
        options.add_external_initializers(["w", "v"], [value])
    with pytest.raises(errors.InvalidArgument, match="1 names, 1 buffers and 2 lengths"):
        options.add_external_initializers_from_files_in_memory(["w.bin"], [b"ab"], [1, 2])
    options.add_external_initializers(["W"], [value])
    with pytest.raises(errors.InvalidArgument, match="no initializer 'W'"):
        sardonyx.InferenceSession(ADD, options, providers=[CPU])
