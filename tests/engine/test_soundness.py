"""Bundles and plans whose checksums are right and which lie: each is refused in one line, when it is opened."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sardonyx
from sardonyx.api.bundling import bundle_of
from sardonyx.common import cache
from sardonyx.errors import InvalidArgument, UnsoundError
from sardonyx.plans import plan_cache
from sardonyx.plans.bundle import Bundle
from sardonyx.plans.plan import Plan
from sardonyx.plans.plan_cache import Source, key
from sardonyx.plans.terms import LONG, resolved
from tests.engine.graphs import CHAIN, CONTROL_FLOW, model
from tests.engine.providers import NUMPY, require_provider
from tests.fuzz.manifests import rewritten

X = np.linspace(-2, 2, 8, dtype=np.float32).reshape(2, 4)
FLOW = {"x": X, "n": np.array(3), "c": np.array(True)}


def lying(text: str, lie: Callable[[Any, Any], object]) -> bytes:
    """A bundle of which `lie(manifest, plan)` changed something."""
    data = b"".join(bundle_of(Source(model(text)), ["wasm"], [{}]))
    bundle = Bundle(data)
    lie(bundle.manifest, bundle.manifest["targets"]["wasm"]["plans"][0])
    return rewritten(bundle.manifest, [data[s.offset : s.offset + s.nbytes] for s in bundle.sections.values()])


def loop(plan: Any) -> Any:
    return next(step for step in plan["steps"] if isinstance(step, dict) and step["do"] == "loop")


def launch(plan: Any) -> Any:
    return next(step for step in plan["steps"] if isinstance(step, list))


LIES: dict[str, tuple[str, Callable[[Any, Any], object], str]] = {
    "a code": (CHAIN, lambda m, p: launch(p).__setitem__(0, 7), "there are 1 codes"),
    "a code below 0": (CHAIN, lambda m, p: launch(p).__setitem__(0, -1), "there are 1 codes"),
    "a buffer": (CHAIN, lambda m, p: launch(p)[1].__setitem__(0, 99), "buffers, and one is asked for"),
    "too few buffers": (CHAIN, lambda m, p: launch(p)[1].pop(), "another number of buffers"),
    "a parameter": (CHAIN, lambda m, p: launch(p)[2].__setitem__(0, None), "None is no size"),
    "a symbol": (CHAIN, lambda m, p: launch(p)[2].__setitem__(0, "s9"), "nothing tells s9"),
    "a type": (CHAIN, lambda m, p: p["buffers"][0].__setitem__(0, "float65"), "no element type"),
    "an epoch": (CHAIN, lambda m, p: p["buffers"][0].insert(2, 5), "1 epochs|unpack|is asked for"),
    "above itself": (CHAIN, lambda m, p: p["buffers"].__setitem__(0, ["float32", ["s0", 4], 0, [0]]), "above itself"),
    "an operator": (CHAIN, lambda m, p: p["sizes"].append(["__import__", "s0"]), "'__import__' of 1"),
    "an operand": (CHAIN, lambda m, p: p["sizes"].append(["floordiv", "s0"]), "'floordiv' of 1"),
    "an input": (CHAIN, lambda m, p: p["symbols"]["s0"][0].__setitem__(0, 3), "list index out of range"),
    "an axis": (CHAIN, lambda m, p: p["symbols"]["s0"][0].__setitem__(1, 9), "axis 9 of an input of rank 2"),
    "an output": (CHAIN, lambda m, p: p["outputs"][0].__setitem__(3, 99), "is asked for"),
    "an output's name": (CHAIN, lambda m, p: p["outputs"][0].__setitem__(0, "z"), "other inputs or outputs"),
    "an input's type": (CHAIN, lambda m, p: m["model"][0][0][1].__setitem__(1, "int8"), "'x' is float32"),
    "reads": (CHAIN, lambda m, p: m["targets"]["wasm"]["codes"][0].__setitem__(1, 2**31), "too many buffers"),
    "memory": (CHAIN, lambda m, p: m["targets"]["wasm"]["modules"][0].__setitem__("memory", 5), "cannot have"),
    "table": (CHAIN, lambda m, p: m["targets"]["wasm"]["modules"][0].__setitem__("table", 2**40), "cannot have"),
    "no targets": (CHAIN, lambda m, p: m.pop("targets"), "there is no 'targets'"),
    "sections": (CHAIN, lambda m, p: m["sections"][0].__setitem__(1, -1), "no name, or no size"),
    "a function": (CONTROL_FLOW, lambda m, p: loop(p).__setitem__("function", 99), "list index out of range"),
    "another function": (CONTROL_FLOW, lambda m, p: loop(p).__setitem__("function", 1), "function takes"),
    "no end": (CONTROL_FLOW, lambda m, p: loop(p).update(trips=-1, condition=-1), "a loop has no end"),
    "a bound of floats": (CONTROL_FLOW, lambda m, p: loop(p).update(trips=loop(p)["carried"][0]), "is no int64"),
    "a host": (CONTROL_FLOW, lambda m, p: loop(p).update(do="host"), "unexpected keyword"),
    "a result": (CONTROL_FLOW, lambda m, p: loop(p)["results"].__setitem__(0, 0), "another epoch|something else"),
}


@pytest.mark.parametrize("name", LIES)
def test_lies_are_refused(name: str) -> None:
    require_provider("WasmExecutionProvider")
    text, lie, reason = LIES[name]
    with pytest.raises(UnsoundError, match=rf"the bundle is damaged: .*({reason}).*; compile the model anew") as caught:
        sardonyx.InferenceSession(lying(text, lie), providers=["WasmExecutionProvider"])
    assert "\n" not in str(caught.value)


def test_what_is_no_lie_runs() -> None:
    require_provider("WasmExecutionProvider")
    for text, feeds in ((CHAIN, {"x": X}), (CONTROL_FLOW, FLOW)):
        session = sardonyx.InferenceSession(lying(text, lambda m, p: None), providers=["WasmExecutionProvider"])
        wanted = sardonyx.InferenceSession(model(text), providers=[NUMPY]).run(None, feeds)
        for found, right in zip(session.run(None, feeds), wanted, strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-6)


def test_too_little_room_is_refused_at_the_run() -> None:
    require_provider("WasmExecutionProvider")

    def lie(manifest: Any, plan: Any) -> None:
        for buffer in plan["buffers"]:
            buffer[:] = [*buffer, *[0, [], "", 0][len(buffer) - 2 :], 1][:7]

    session = sardonyx.InferenceSession(lying(CHAIN, lie), providers=["WasmExecutionProvider"])
    with pytest.raises(InvalidArgument, match="a tensor of 32 bytes has room for 4 in the plan"):
        session.run(None, {"x": X})


@pytest.mark.parametrize("value", [1 << 24, -1])
def test_a_launch_that_goes_too_far_is_refused(value: int) -> None:
    require_provider("WasmExecutionProvider")
    session = sardonyx.InferenceSession(lying(CHAIN, lambda m, p: launch(p)[2].__setitem__(0, value)))
    with pytest.raises(InvalidArgument, match=r"mul_tanh_add_max is to go over .* the bundle is damaged"):
        session.run(None, {"x": X})


def test_sizes_are_shared_and_no_bombs() -> None:
    doubled = [["+", "s0", "s0"], *(["+", f"@{k}", f"@{k}"] for k in range(40))]
    with pytest.raises(UnsoundError, match="too long"):
        resolved(doubled)
    deep = [["+", "s0", 1], *(["+", f"@{k}", 1] for k in range(100))]
    with pytest.raises(UnsoundError, match="too deep"):
        resolved(deep)
    assert LONG < 1 << 14


def test_sizes_come_back_from_json() -> None:
    session = sardonyx.InferenceSession(model(CONTROL_FLOW), providers=[NUMPY])
    session.run(None, FLOW)
    (plan,) = session.plans
    read = Plan.from_json(plan.to_json())
    for name in ("inputs", "outputs", "buffers", "steps", "setup", "guards"):
        assert getattr(read, name) == getattr(plan, name)


def test_an_entry_of_the_cache_that_lies_is_compiled_anew(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_cache, "key", key)
    monkeypatch.setattr(plan_cache, "SETTLED", -1.0)
    keep = cache.keep

    def lie(key: bytes, packages: Sequence[str], head: bytes, *parts: bytes) -> None:
        told = pickle.loads(head[8:])
        told["plans"][0]["outputs"][0]["buffers"] = [99]
        lying = pickle.dumps(told)
        keep(key, packages, len(lying).to_bytes(8, "little") + lying, bytes(-(8 + len(lying)) % 64), *parts[1:])

    with monkeypatch.context() as patched:
        patched.setattr(cache, "keep", lie)
        wanted = sardonyx.InferenceSession(model(CHAIN), providers=[NUMPY]).run(None, {"x": X})
    session = sardonyx.InferenceSession(model(CHAIN), providers=[NUMPY])
    np.testing.assert_array_equal(session.run(None, {"x": X}), wanted)
    assert session.compiled == 1
