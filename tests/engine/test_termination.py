"""Runs that are ended from outside, while others go on within them."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import onnx.parser
import pytest

import sardonyx
from sardonyx.common.termination import governed, is_governed, poll
from sardonyx.errors import Fail
from tests.engine.graphs import CHAIN, model
from tests.engine.providers import NUMPY, PROVIDERS

X = np.ones((2, 4), np.float32)
OUTER = """<ir_version: 10, opset_import: ["" : 21, "my" : 1]>
g (float[N, M] x) => (float[N, M] z) { y = my.Inner (x)  z = Neg (y) }"""


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_run_within_a_run_leaves_it_its_options(provider: str) -> None:
    inner = sardonyx.InferenceSession(model(CHAIN), providers=[NUMPY])
    options = sardonyx.RunOptions()
    ended: list[bool] = []

    @sardonyx.custom_op("my", "Inner", host=True, infer=lambda x: (x.dtype, x.shape))
    def run(x: np.ndarray) -> np.ndarray:
        inner.run(None, {"x": x})
        options.terminate = bool(ended)
        return x

    outer = sardonyx.InferenceSession(onnx.parser.parse_model(OUTER).SerializeToString(), providers=[provider])
    np.testing.assert_array_equal(outer.run(None, {"x": X}, options)[0], -X)
    ended.append(True)
    with pytest.raises(Fail, match="terminate is set"):
        outer.run(None, {"x": X}, options)
    assert not is_governed()


def test_options_hold_within_their_block() -> None:
    ended = sardonyx.RunOptions(terminate=True)
    poll()
    with governed(ended):
        with governed(None):
            poll()
        with suppress(ZeroDivisionError), governed(sardonyx.RunOptions()):
            poll()
            _ = 1 // 0
        with pytest.raises(Fail, match="the run was ended"):
            poll()
    poll()


def test_who_comes_late_is_told_at_once() -> None:
    options = sardonyx.RunOptions()
    told: list[str] = []
    with options.on_terminate(lambda: told.append("early")):
        options.terminate = True
        with options.on_terminate(lambda: told.append("late")):
            assert told == ["early", "late"]
    options.terminate = True
    assert told == ["early", "late"]
