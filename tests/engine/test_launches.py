"""What `verify` finds: the launches that go wrong on one device, and none that only start from wrong values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from sardonyx import InferenceSession
from sardonyx.code.kernel import Kernel, Routine, Rows
from sardonyx.code.program import Program
from sardonyx.common.record import replace
from sardonyx.providers import registry
from sardonyx.providers.contract import Device, SegmentLaunch
from tests.engine.graphs import CHAIN, CONTROL_FLOW, model
from tests.engine.providers import PROVIDERS, WASM
from tests.support.forwarding import ForwardingDevice
from tests.support.launches import Difference, verify

X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
FLOATS = """
g (float[N, 4] x) => (float[N, 4] y, float16[N, 1] h) {
  s = Sin (x)
  last = Constant <value_ints = [1]> ()
  t = ReduceSum (s, last)
  y = Sub (x, t)
  h = Cast <to = 10> (t)
}
"""
INTEGERS = "g (int64[N] x, int64[N] y) => (int64[N] z) { z = Add (x, y) }"


class Faulty(ForwardingDevice):
    """A device with one mistake: instead of `right` (a function and its dtype) it computes another function."""

    def __init__(self, inner: Device, right: list[str], wrong: str) -> None:
        super().__init__(inner)
        self.right, self.wrong = right, wrong

    def load(self, codes: Sequence[Any], segments: Sequence[Sequence[SegmentLaunch]]) -> Any:
        fields = {Program: ["body"], Kernel: ["nodes", "folds"], Rows: ["kernels"], Routine: []}
        spoilt = [
            replace(code, **{name: self.spoilt(getattr(code, name)) for name in fields[type(code)]}) for code in codes
        ]
        return self.inner.load(spoilt, segments)

    def spoilt(self, part: Any) -> Any:
        if not isinstance(part, (list, tuple)):
            return part
        if list(part[:2]) == self.right:
            part = [self.wrong, *part[1:]]
        return type(part)(map(self.spoilt, part))


def found(text: str, feeds: dict[str, Any], provider: str = WASM, right: str = "", wrong: str = "") -> list[Difference]:
    """What differs between the devices of a plan, spoilt or not, and WASM."""
    session = InferenceSession(model(text), providers=[provider])
    session.run(None, feeds)
    plan = session.plans[0]
    devices = [registry.load(name).device({}) for name in plan.devices]
    if right:
        devices = [Faulty(device, right.split(), wrong) for device in devices]
    return verify(plan, feeds, devices, registry.load(WASM).device({}))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_right_devices_agree(provider: str) -> None:
    assert found(CHAIN, {"x": X}, provider) == []
    assert found(CONTROL_FLOW, {"x": X, "n": np.array(4), "c": np.array(True)}, provider) == []
    assert found(FLOATS, {"x": X}, provider) == []


def test_only_the_launch_that_goes_wrong_is_found() -> None:
    (first,) = found(FLOATS, {"x": X}, right="sin float32", wrong="cos")
    expected, wrong = np.sin(X).sum(axis=1), np.cos(X).sum(axis=1)
    assert (first.launch, first.reads, first.writes) == (0, (("float32", 12),), (("float32", 3),))
    assert first.count == 3
    assert first.place == np.abs(expected - wrong).argmax()
    assert first.found == pytest.approx(wrong[first.place])
    assert first.expected == pytest.approx(expected[first.place])
    assert first.error == pytest.approx(np.abs(expected - wrong).max() / np.abs(expected).max())
    assert "ReduceSum 't'" in first.label
    assert str(first).startswith(f"launch 0, {first.label}: 3 elements of output 0 differ")
    (later,) = found(FLOATS, {"x": X}, right="sub float32", wrong="add")
    assert later.launch > 0
    assert "Sub 'y'" in later.label


def test_every_turn_of_a_loop_is_checked() -> None:
    feeds = {"x": X, "n": np.array(3), "c": np.array(True)}
    doubled = [item for item in found(CONTROL_FLOW, feeds, right="mul float32", wrong="add") if "Mul" in item.label]
    assert len(doubled) == 3
    assert [item.launch for item in doubled] == sorted({item.launch for item in doubled})


def test_integers_are_compared_exactly() -> None:
    large = np.array([1 << 60, 5], np.int64)
    (item,) = found(INTEGERS, {"x": large, "y": np.array([1, 0])}, right="add int64", wrong="sub")
    assert (item.count, item.place) == (1, 0)
    assert (item.found, item.expected) == ((1 << 60) - 1, (1 << 60) + 1)


def test_what_is_not_finite() -> None:
    feeds = {"x": np.array([[1, np.inf, 1, 1], [np.nan, 1, 1, 1], [1, 1, 1, 1]], np.float32)}
    item = found(FLOATS, feeds, right="sin float32", wrong="abs")[0]
    assert (item.count, item.error, item.found) == (2, np.inf, np.inf)
    assert np.isnan(item.expected)
