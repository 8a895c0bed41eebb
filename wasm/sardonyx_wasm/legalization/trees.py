"""Tree ensembles on their way to the routine: which ones it can do, and their tables as records."""

from __future__ import annotations

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.primitives.array import Equation

from .. import primitives as own
from ..routines.trees import RECORD, SIDE_BY_SIDE
from .legalizer import Legalizer


def takes(equation: Equation, target: str) -> bool:
    """Whether the routine can do it: a known number of features, records that addresses of 31 bits reach."""
    x, _, feature, *_ = equation.inputs
    return isinstance(x.shape[1], int) and isinstance(feature.shape[0], int) and feature.shape[0] < 1 << 26


def pack(legalizer: Legalizer, equation: Equation) -> bool:
    """Feature, split and next as records of 4 numbers of 32 bits."""
    x, roots, feature, split, following, votes = equation.inputs
    params = equation.params
    nodes = feature.shape[0]
    stride = int(following.shape[0]) // int(nodes)
    offsets = p.reshape(feature * x.dtype.itemsize, (nodes, 1))
    after = p.reshape(following * RECORD, (nodes, stride))
    inside = x.dtype is dtypes.float32 and stride == 2
    if inside:
        columns = [p.reshape(p.bitcast(split, dtypes.int32), (nodes, 1)), offsets, after]
        split = p.slice_axis(split, 0, 0, 0)
    else:
        columns = [offsets, after, *[p.full((nodes, 1), 0, dtypes.int32)] * (3 - stride)]
    spare = p.pad(roots * RECORD, [0], [SIDE_BY_SIDE])
    operands = [x, spare, p.concat(columns, 1), split, votes]
    attributes = {"targets": params["targets"], "function": params["function"], "depth": params["depth"]}
    (output,) = equation.outputs
    legalizer.define(output, own.WALK_TREES, operands, {**attributes, "absent": stride == 3})
    return True
