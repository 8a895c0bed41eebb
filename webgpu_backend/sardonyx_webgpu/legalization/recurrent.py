"""Recurrent layers on their way to the routine: which ones it can do, and their weights with gates side by side."""

from __future__ import annotations

from sardonyx import primitives as p
from sardonyx.code.layer import GATES, Layer
from sardonyx.common import dtypes
from sardonyx.compiler.rewriting import Rewriter
from sardonyx.compiler.views import SHIFTS
from sardonyx.primitives.array import Array, Equation
from sardonyx.sizes.symbolic import hint, product
from sardonyx_webgpu import primitives as own
from sardonyx_webgpu.routines.phases import phases

LARGEST = 1024
"""The most units whose states are in a workgroup's memory."""
ROWS = 4
"""The most sequences that share the weights which a workgroup reads."""
MOST_READ = 1 << 20
"""Weights that all workgroups read in a step. Where there are more, products over the whole device are faster, although
each step is some dispatches then."""
MOST_BUFFERS = 8
MOST_ROUNDED = 896
"""The most units of all sequences whose states a workgroup rounds."""


def takes(equation: Equation) -> bool:
    """Whether the routine can do it, and well: float32, and a known number of units. States that are rounded are those
    of so many sequences as one workgroup has, for all of them have one scale."""
    layer = Layer(**equation.params)
    inputs, weights, *_ = equation.inputs
    count, hidden = weights.shape[0], weights.shape[2]
    if inputs.dtype is not dtypes.float32 or not isinstance(hidden, int) or not isinstance(count, int):
        return False
    buffers = len(equation.inputs) + len(equation.outputs)
    if not 0 < hidden <= LARGEST or buffers > MOST_BUFFERS:
        return False
    known, batch = inputs.shape[2], hint(inputs.shape[2])
    if "scale" in layer.operands and not (
        isinstance(known, int) and 0 < known <= ROWS and known * hidden <= MOST_ROUNDED
    ):
        return False
    return -(-batch // _together(layer, hidden, batch)) * hidden * hidden * GATES[layer.cell] < MOST_READ


def _together(layer: Layer, hidden: int, batch: int) -> int:
    """How many sequences a workgroup takes."""
    if "scale" in layer.operands:
        return batch
    most = max(1, min(ROWS, LARGEST // hidden, batch // 2))
    return 1 << (most.bit_length() - 1)


def packed(layer: Layer, weights: Array) -> Array:
    """Weights [directions, gates * H, H] as [directions, N]: for each product all of the state's units, for each of
    these the fours of sums, filled up with zeros."""
    count, _, hidden = map(int, weights.shape)
    side = p.transpose(p.reshape(weights, (count, GATES[layer.cell], hidden, hidden)), [0, 3, 2, 1])
    parts = []
    for gates, units in phases(layer):
        part = p.slice_axis(side, 3, gates.start, len(gates))
        part = p.pad(part, [0, 0, 0, 0], [0, 0, -hidden % units, 4 // units - len(gates)])
        parts.append(p.reshape(part, (count, product(part.shape[1:]))))
    return p.concat(parts, 1)


def recur(rewriter: Rewriter, equation: Equation) -> bool:
    """recurrent -> recur, whose steps have the directions of a sequence side by side"""
    inputs, weights, *others = equation.inputs
    layer = Layer(**equation.params)
    rows, *last = equation.outputs
    used = {name: x for name, x in zip(layer.operands, others, strict=True) if name not in "hc" or not _is_zero(x)}
    hidden = int(weights.shape[2])
    order = [0, 2, 1, 3]
    shape = tuple(rows.shape[axis] for axis in order)
    types = [(rows.dtype, shape), *((array.dtype, array.shape) for array in last)]
    together = _together(layer, hidden, hint(inputs.shape[2]))
    params = {**equation.params, "operands": tuple(used), "hidden": hidden, "rows": together}
    (states, *_) = rewriter.trace.append(own.RECUR, (inputs, packed(layer, weights), *used.values()), params, types)
    assert states.equation is not None
    states.equation.outputs = (states, *last)
    for array in last:
        array.equation = states.equation
    rewriter.define_transposed(rows, states, order)
    return True


def _is_zero(x: Array) -> bool:
    """Whether all elements are known to be zero."""
    while x.value is None and x.equation is not None:
        if x.equation.primitive.name == "full":
            return bool(x.equation.params["value"] == 0)
        if x.equation.primitive.name not in SHIFTS:
            return False
        (x,) = x.equation.inputs
    return x.value is not None and not x.value.any()
