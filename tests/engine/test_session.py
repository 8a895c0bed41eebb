"""The session's interface, as onnxruntime has it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import sardonyx
from sardonyx.errors import InvalidArgument, InvalidProtobuf, NoSuchFile
from tests.engine.graphs import model
from tests.engine.providers import NUMPY

MODEL = model(
    """
<agent> (float[N, 3] x, float[3] w) => (float[N, 3] y, float[N] s)
<float[3] w = {1, 2, 3}> {
  y = Mul (x, w)
  axes = Constant <value_ints = [1]> ()
  s = ReduceSum <keepdims = 0> (y, axes)
}
""".replace("<agent> ", "agent ")
)
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_facts_are_those_of_onnxruntime() -> None:
    ours = sardonyx.InferenceSession(MODEL, providers=[NUMPY])
    theirs = onnxruntime.InferenceSession(MODEL)
    for name in ("get_inputs", "get_outputs", "get_overridable_initializers"):
        pairs = zip(getattr(ours, name)(), getattr(theirs, name)(), strict=True)
        for a, b in pairs:
            assert (a.name, a.type, a.shape) == (b.name, b.type, b.shape)
    for field in ("producer_name", "graph_name", "domain", "description", "graph_description", "custom_metadata_map"):
        assert getattr(ours.get_modelmeta(), field) == getattr(theirs.get_modelmeta(), field)
    assert ours.get_providers() == [NUMPY]


def test_outputs_by_name_and_overridden_initializers() -> None:
    session = sardonyx.InferenceSession(MODEL, providers=[NUMPY])
    reference = onnxruntime.InferenceSession(MODEL)
    calls: list[tuple[list[str] | None, dict[str, np.ndarray]]] = [
        (None, {"x": X}),
        (["s"], {"x": X}),
        (["s", "y", "s"], {"x": X}),
        (["y"], {"x": X, "w": np.ones(3, np.float32)}),
    ]
    for names, feeds in calls:
        for a, b in zip(session.run(names, feeds), reference.run(names, feeds), strict=True):
            np.testing.assert_array_equal(a, b, strict=True)


@pytest.mark.parametrize("kind", ["float", "int64", "uint8", "double"])
@pytest.mark.parametrize("given", [[1, 2], [], [[3]]])
def test_lists_take_the_type_of_the_input(kind: str, given: list[int]) -> None:
    sizes = ", ".join("AB"[: np.ndim(given)])
    made = model(f"agent ({kind}[{sizes}] x) => ({kind}[{sizes}] y) {{ y = Identity (x) }}")
    session = sardonyx.InferenceSession(made, providers=[NUMPY])
    (wanted,) = onnxruntime.InferenceSession(made).run(None, {"x": given})
    np.testing.assert_array_equal(session.run(None, {"x": given})[0], wanted, strict=True)


def test_lists_that_would_lose_something() -> None:
    made = model("agent (uint8[N] x) => (uint8[N] y) { y = Identity (x) }")
    session = sardonyx.InferenceSession(made, providers=[NUMPY])
    with pytest.raises(InvalidArgument, match="input 'x' wants uint8, which does not hold all of these numbers"):
        session.run(None, {"x": [1, 256]})
    with pytest.raises(InvalidArgument, match="input 'x' wants uint8, not NumPy's float64; use astype"):
        session.run(None, {"x": [1.5]})


def test_options_have_onnxruntimes_defaults() -> None:
    ours, theirs = sardonyx.SessionOptions(), onnxruntime.SessionOptions()
    for name in dir(theirs):
        value = getattr(theirs, name)
        if not name.startswith("_") and not callable(value):
            found = getattr(ours, name)
            assert getattr(found, "value", found) == getattr(value, "value", value), name
    ours.add_session_config_entry("session.disable_prepacking", "1")
    assert ours.get_session_config_entry("session.disable_prepacking") == "1"


def test_levels_give_the_same_numbers() -> None:
    results = []
    for level in sardonyx.GraphOptimizationLevel:
        options = sardonyx.SessionOptions()
        options.graph_optimization_level = level
        session = sardonyx.InferenceSession(MODEL, options, providers=[NUMPY])
        results.append(session.run(None, {"x": X})[1])
    assert all(np.array_equal(results[0], other) for other in results)


def test_available_providers() -> None:
    names = sardonyx.get_available_providers()
    assert {"CPUExecutionProvider", NUMPY} <= set(names)
    with pytest.warns(UserWarning, match="CUDAExecutionProvider is not available here"):
        session = sardonyx.InferenceSession(MODEL, providers=["CUDAExecutionProvider", NUMPY])
    assert session.get_providers() == [NUMPY]


def test_files_that_are_no_models(tmp_path: Path) -> None:
    with pytest.raises(NoSuchFile, match=r"nowhere\.onnx"):
        sardonyx.InferenceSession(tmp_path / "nowhere.onnx")
    (tmp_path / "page.onnx").write_text("<!doctype html><p>not found")
    with pytest.raises(InvalidProtobuf, match="HTML"):
        sardonyx.InferenceSession(tmp_path / "page.onnx")


def test_warm_up() -> None:
    session = sardonyx.InferenceSession(MODEL, providers=[NUMPY])
    session.warm_up({"x": (2, 3)}, {"x": (1, 3)})
    compiled = session.compiled
    session.run(None, {"x": X})
    assert session.compiled == compiled
    with pytest.raises(InvalidArgument, match="no input 'z'; it has 'x'"):
        session.warm_up({"z": (1,)})
    session.warm_up()  # for all sizes
    assert session.compiled > compiled
