"""Operators that nobody declared are errors where a session is made, of onnxruntime's classes."""

from __future__ import annotations

import onnx
import onnxruntime
import pytest

import sardonyx
from sardonyx.errors import SardonyxError
from tests.engine.providers import NUMPY

HEADER = '<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 3, "com.microsoft" : 1, "my" : 1, "local" : 1]>\n'
BRANCH = """
g (float[N] x, bool c) => (float[N] y) {{
  y = If (c) <
    then_branch = then () => (float[N] t) {{ t = Neg (x) }},
    else_branch = other () => (float[N] e) {{ e = {} (x) }}
  >
}}
"""
KNOWN = """
g (float[N] x) => (float[N] y) {
  true = Constant <value = bool {1}> ()
  y = If (true) <
    then_branch = then () => (float[N] t) { t = Neg (x) },
    else_branch = other () => (float[N] e) { e = my.Thing (x) }
  >
}
"""
FUNCTION = """
<opset_import: ["" : 21, "my" : 1], domain: "local">
Twice (a) => (b) {{ t = {} (a)  b = Add (t, t) }}
"""
CALLS = "g (float[N] x) => (float[N] y) { y = local.Twice (x) }"
CASES = {
    "ai.onnx": "g (float[N] x) => (float[N] y) { y = Thing (x) }",
    "sizes are given": "g (float[3] x) => (float[3] y) { y = Thing (x) }",
    "ai.onnx.ml": "g (float[N] x) => (float[N] y) { y = ai.onnx.ml.Thing (x) }",
    "com.microsoft": "g (float[N] x) => (float[N] y) { y = com.microsoft.Thing (x) }",
    "own domain": "g (float[N] x) => (float[N] y) { y = my.Thing (x) }",
    "not imported": "g (float[N] x) => (float[N] y) { y = other.Thing (x) }",
    "removed": "g (float[N] x) => (float[N] y) { y = Upsample (x, x) }",
    "result that nobody needs": "g (float[N] x) => (float[N] y) { t = my.Thing (x)  y = Neg (x) }",
    "branch": BRANCH.format("Thing"),
    "branch, own domain": BRANCH.format("my.Thing"),
    "branch that is never taken": KNOWN,
    "function": CALLS + FUNCTION.format("Thing"),
    "function, own domain": CALLS + FUNCTION.format("my.Thing"),
}


def parsed(text: str) -> bytes:
    return bytes(onnx.parser.parse_model(HEADER + text).SerializeToString())


@pytest.mark.parametrize("case", CASES)
def test_an_unknown_operator_is_refused(case: str) -> None:
    data = parsed(CASES[case])
    with pytest.raises(Exception, match=r"Thing|Upsample") as expected:
        onnxruntime.InferenceSession(data)
    with pytest.raises(SardonyxError, match=r"(Thing|Upsample) '\w+': (no operator|the operator is no)") as found:
        sardonyx.InferenceSession(data, providers=[NUMPY])
    assert found.type.__name__ == expected.type.__name__


def test_functions_that_nobody_calls_may_have_any() -> None:
    text = "g (float[N] x) => (float[N] y) { y = Neg (x) }" + FUNCTION.format("my.Thing")
    onnxruntime.InferenceSession(parsed(text))
    sardonyx.InferenceSession(parsed(text), providers=[NUMPY])
