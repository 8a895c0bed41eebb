"""Shapes computed inside a model, as PyTorch exports them, stay expressions of the input's sizes: nothing ties them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from sardonyx.common import dtypes
from sardonyx.ops.interpret import interpret
from sardonyx.primitives import show
from sardonyx.primitives.trace import Trace
from sardonyx.sizes.symbolic import Guards
from tests.support import eager

Step = tuple[str, list[str], str, dict[str, Any]]


def step(op_type: str, inputs: str, output: str, **attributes: Any) -> Step:
    return op_type, inputs.split(), output, attributes


def model_of(steps: list[Step], **constants: Any) -> onnx.ModelProto:
    """A model of x float32 [b, s, 24] whose last step makes its output."""
    nodes = [helper.make_node(op_type, names, [output], **known) for op_type, names, output, known in steps]
    held = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", "s", 24])
    graph = helper.make_graph(nodes, "shapes", [x], [onnx.ValueInfoProto(name=steps[-1][2])], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


SIZES = [
    step("Shape", "x", "shape"),
    step("Gather", "shape zero", "b", axis=0),
    step("Gather", "shape one", "s", axis=0),
    step("Unsqueeze", "b front", "b1"),
    step("Unsqueeze", "s front", "s1"),
]
CONSTANTS = {"zero": np.int64(0), "one": np.int64(1), "front": [0], "four": [4], "six": [6], "rest": [-1]}

CHAINS = {
    "heads": (
        [
            step("Concat", "b1 s1 four six", "split", axis=0),
            step("Reshape", "x split", "y"),
            step("Transpose", "y", "z", perm=[0, 2, 1, 3]),
        ],
        "[b,4,s,6]",
    ),
    "merge": (
        [
            step("Concat", "b1 s1 four rest", "split", axis=0),
            step("Reshape", "x split", "y"),
            step("Concat", "b1 s1 rest", "joined", axis=0),
            step("Reshape", "y joined", "z"),
        ],
        "[b,s,24]",
    ),
    "rows": ([step("Reshape", "x flat", "z")], "[b*s,24]"),
    "expand": (
        [
            step("Concat", "b1 unit s1 s1", "wanted", axis=0),
            step("Shape", "wanted", "length"),
            step("ConstantOfShape", "length", "ones", value=helper.make_tensor("one", TensorProto.INT64, [1], [1])),
            step("Mul", "ones minus", "marks"),
            step("Equal", "wanted marks", "kept"),
            step("Where", "kept ones wanted", "target"),
            step("Expand", "mask target", "z"),
        ],
        "[b,1,s,s]",
    ),
    "causal": (
        [
            step("Range", "zero s one", "line"),
            step("Unsqueeze", "line front", "columns"),
            step("Unsqueeze", "line behind", "rows"),
            step("LessOrEqual", "columns rows", "z"),
        ],
        "[s,s]",
    ),
    "positions": ([step("Slice", "table front s1 unit", "z")], "[1,s]"),
    "last": ([step("Gather", "x back", "y", axis=1), step("Unsqueeze", "y front", "z")], "[1,b,24]"),
    "halves": (
        [
            step("Add", "s s", "twice"),
            step("Div", "twice two", "half"),
            step("Unsqueeze", "half front", "half1"),
            step("Concat", "b1 half1 rest", "wanted", axis=0),
            step("Reshape", "x wanted", "z"),
        ],
        "[b,s,24]",
    ),
    "shift": ([step("Slice", "x unit far unit", "y"), step("Pad", "y pads", "z")], "[b,s,24]"),
    "zeros": ([step("ConstantOfShape", "shape", "z")], "[b,s,24]"),
    "tiles": ([step("Concat", "unit s1 unit", "times", axis=0), step("Tile", "x times", "z")], "[b,s*s,24]"),
    "flip": ([step("Slice", "x rest first unit rest", "z")], "[b,s,24]"),
    "product": (
        [
            step("Slice", "shape front two1", "lead"),
            step("ReduceProd", "lead", "rows", keepdims=1),
            step("Concat", "rows rest", "wanted", axis=0),
            step("Reshape", "x wanted", "z"),
        ],
        "[b*s,24]",
    ),
}
MORE = {
    "flat": [-1, 24],
    "unit": [1],
    "minus": np.int64(-1),
    "mask": np.ones((1, 1, 1, 1), np.float32),
    "behind": [1],
    "table": np.arange(512).reshape(1, 512),
    "back": np.int64(-1),
    "two": np.int64(2),
    "far": [2**63 - 1],
    "pads": [0, 1, 0, 0, 0, 0],
    "first": [-(2**63)],
    "two1": [2],
}


def trace(model: onnx.ModelProto) -> Trace:
    """The model's equations for b = 3 and s = 5, which stay symbols."""
    graph = eager.load(model)
    traced = Trace(Guards())
    x = traced.input(dtypes.float32, (traced.guards.symbol("b", 3), traced.guards.symbol("s", 5), 24), "x")
    with traced:
        traced.outputs = [traced.materialise(array) for array in interpret(graph, {graph.inputs[0]: x})]
    return traced


@pytest.mark.parametrize("chain", CHAINS)
def test_chain(chain: str) -> None:
    steps, shape = CHAINS[chain]
    used = {name for _, names, _, _ in SIZES + steps for name in names}
    model = model_of(SIZES + steps, **{name: value for name, value in (CONSTANTS | MORE).items() if name in used})
    rng = np.random.default_rng(0)
    traced = trace(model)
    (output,) = traced.outputs
    assert show(output.shape) == shape
    assert not [str(polynomial) for polynomial, relation, truth in traced.guards if relation == "==" and truth]
    for sizes in ((3, 5, 24), (2, 7, 24)):
        feeds = {"x": rng.normal(size=sizes).astype(np.float32)}
        (found,), (wanted,) = eager.replay(traced, feeds), eager.evaluate(model, feeds)
        np.testing.assert_array_equal(found, wanted)
