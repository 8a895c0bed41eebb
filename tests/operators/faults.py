"""What is known to be wrong in ONNX's reference evaluator and in onnxruntime, and so does not judge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .strategies.call import Call

REFERENCE, RUNTIME = ("reference",), ("runtime",)
BOTH = REFERENCE + RUNTIME


@dataclass(frozen=True)
class Fault:
    """Judges, the operators that they get wrong, when they do (always, if not said), and how."""

    judges: tuple[str, ...]
    operators: str
    reason: str
    when: Callable[[Call], Any] = lambda _: True

    def applies(self, judge: str, call: Call) -> bool:
        return judge in self.judges and call.op_type in self.operators.split() and bool(self.when(call))


def by_zero(call: Call) -> bool:
    x, y = call.inputs[:2]
    return x.dtype.kind in "iu" and (not y.all() or bool((x.astype(object) == lowest(x)).any()))


def lowest(x: np.ndarray) -> int:
    return int(np.iinfo(x.dtype).min) if x.dtype.kind == "i" else -1


def has(name: str, *values: Any) -> Callable[[Call], bool]:
    """Whether an attribute has one of these values."""
    return lambda call: call.attributes.get(name) in values


def empty(call: Call) -> bool:
    """Whether an input that is no list of axes has no elements."""
    return any(isinstance(x, np.ndarray) and x.size == 0 for k, x in enumerate(call.inputs) if k not in call.constant)


REDUCTIONS = (
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare"
)

FAULTS = [
    Fault(RUNTIME, REDUCTIONS + " ArgMax ArgMin", "does not know negative axes of nothing", lambda call: call.inputs[0].size == 0),
    Fault(REFERENCE, "ReduceSumSquare", "gives int64 for a scalar", lambda call: call.inputs[0].dtype.kind in "iu"),
    Fault(REFERENCE, "Trilu", "puts the number 0 among strings", lambda call: call.inputs[0].dtype == object),
    Fault(RUNTIME, "Div Mod", "ends the process where integers are divided by 0, and the lowest by -1", by_zero),
    Fault(RUNTIME, "Shrink", "takes unsigned integers as signed ones", lambda call: call.inputs[0].dtype.kind == "u"),
]
