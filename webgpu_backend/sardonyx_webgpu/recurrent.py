"""Recurrent layers on their way to the routine: which ones it can do, and their weights with gates side by side."""

from __future__ import annotations

from sardonyx import dtypes
from sardonyx import primitives as p
from sardonyx.array import Equation
from sardonyx.compiler.rewriting import Rewriter
from sardonyx.primitives.recurrent import GATES, Layer
from sardonyx_webgpu import primitives as own

LARGEST = 1024
"""The most units whose states are in a workgroup's memory."""
MOST_BUFFERS = 8


def takes(equation: Equation) -> bool:
    """Whether the routine can do it: float32, a known number of units, no rounded states."""
    layer = Layer(**equation.params)
    inputs, weights, *_ = equation.inputs
    count, hidden = weights.shape[0], weights.shape[2]
    if inputs.dtype is not dtypes.float32 or not isinstance(hidden, int) or not isinstance(count, int):
        return False
    buffers = len(equation.inputs) + len(equation.outputs)
    return 0 < hidden <= LARGEST and "scale" not in layer.operands and buffers <= MOST_BUFFERS


def recur(rewriter: Rewriter, equation: Equation) -> bool:
    """recurrent -> recur"""
    inputs, weights, *others = equation.inputs
    count, _, hidden = map(int, weights.shape)
    gates = GATES[equation.params["cell"]]
    side = p.transpose(p.reshape(weights, (count, gates, hidden, hidden)), [0, 3, 2, 1])
    if gates == 3:
        side = p.pad(side, [0, 0, 0, 0], [0, 0, 0, 1])
    packed = p.reshape(side, (count, hidden, hidden * int(side.shape[3])))
    types = [(array.dtype, array.shape) for array in equation.outputs]
    params = {**equation.params, "hidden": hidden}
    made = rewriter.trace.append(own.RECUR, (inputs, packed, *others), params, types)[0].equation
    assert made is not None
    for array in equation.outputs:
        array.equation = made
    made.outputs = equation.outputs
    return True
