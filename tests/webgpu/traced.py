"""Functions of Arrays compiled for the native device and run there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from sardonyx.common import dtypes
from sardonyx.compiler.schedule import schedule
from sardonyx.plans.plan import Launch, Plan
from sardonyx.plans.weight_table import WeightTable
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.primitives.trace import Trace
from sardonyx.providers.registry import NUMPY, load
from sardonyx.runtime.replay import replay
from sardonyx.sizes.symbolic import Guards, Size
from sardonyx_webgpu import provider


def evaluate(
    function: Callable[..., Array | Sequence[Array]],
    *arrays: np.ndarray[Any, Any],
    weights: Sequence[np.ndarray[Any, Any]] = (),
    opened: Collection[tuple[int, int]] = (),
) -> tuple[list[np.ndarray[Any, Any]], Plan]:
    """What a function of Arrays makes of some inputs, and then of weights, and the plan for it.

    `opened` are the input axes whose sizes are symbols, by the number of the input and that of the axis.
    """
    trace = Trace(Guards())
    symbols: dict[str, list[list[int]]] = {}
    names: dict[int, Size] = {}
    for number, array in enumerate(arrays):
        shape: list[Size] = list(array.shape)
        for axis, size in enumerate(array.shape):
            if (number, axis) in opened:
                names.setdefault(size, trace.guards.symbol(f"s{len(names)}", size))
                shape[axis] = names[size]
                symbols.setdefault(str(names[size]), []).append([number, axis])
        trace.input(dtypes.of(array.dtype), tuple(shape), f"x{number}")
    with trace:
        trace.origin = 0
        trace.labels.append("tested")
        results = function(*trace.inputs, *map(constant, weights))
        trace.give([results] if isinstance(results, Array) else list(results))
    outputs = [f"y{k}" for k in range(len(trace.outputs))]
    providers = [provider, load(NUMPY)]
    inputs = [array.name for array in trace.inputs]
    plan = schedule(trace, providers, WeightTable(trace.strings), inputs, outputs, symbols)
    return replay(plan, dict(zip(inputs, arrays, strict=True))), plan


def launches(plan: Plan) -> Counter[str]:
    """How often each primitive, or kernel by its name, is launched in a run."""
    codes = [plan.codes[step.code] for step in plan.steps if isinstance(step, Launch)]
    return Counter(code.get("primitive", code["name"]) for code in codes)
