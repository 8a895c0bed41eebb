"""What a call should give: ONNX's reference evaluator and onnxruntime say so, but for known faults of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from onnx.reference import ReferenceEvaluator

from sardonyx.common import dtypes

from .faults import FAULTS
from .runtime import RUNTIME
from .strategies.call import HALVES, Call
from .strategies.draw import DROPPED

NEWEST = 26
"""The newest operator set that onnxruntime loads."""
SETTLED = 21
"""The operator set in which it has most operators."""
GELUS = {"BiasGelu", "Gelu"}
"""Operators that are ONNX's Gelu of a sum."""


def verdicts(call: Call) -> Iterator[tuple[str, list[Any]]]:
    """The judges that take a call, and their results."""
    for judge, run in JUDGES.items():
        if any(fault.applies(judge, call) for fault in FAULTS):
            continue
        try:
            with np.errstate(all="ignore"):
                yield judge, run(call)
        except Exception:  # it lacks the operator, or takes less than ONNX allows
            continue


def judged(run: Callable[[Call], list[Any]]) -> Callable[[Call], list[Any]]:
    """A judge that computes in float32 what has floats of 16 bits."""

    def judge(call: Call) -> list[Any]:
        if call.wide and call.halves and call.schema:
            return call.narrowed(run(call.widened()))
        return run(call)

    return judge


def by_reference(call: Call) -> list[Any]:
    if call.op_type in GELUS:
        call = replace(call, op_type="Gelu", domain="", inputs=[sum(call.inputs[1:], start=call.inputs[0])])
    found = ReferenceEvaluator(call.model()).run(None, call.feeds())
    return [x if isinstance(x, list) else np.asarray(x) for x in found]


def by_runtime(call: Call) -> list[Any]:
    """What onnxruntime gives, in the first operator set in which it has the node."""
    since = call.schema.since_version if call.schema and not call.domain else 1
    opsets = [since] * (SETTLED < since <= NEWEST) + [SETTLED if call.domain else DROPPED.get(call.op_type, SETTLED)]
    foreign = {k for k, x in enumerate(call.inputs) if isinstance(x, np.ndarray) and not is_native(x)}
    held = call.constant | foreign
    return RUNTIME.run([call.model(opset, held).SerializeToString() for opset in opsets], call.feeds(held))


def is_native(x: np.ndarray) -> bool:
    return x.dtype.kind in "biufcO" and x.dtype.num < 25


JUDGES = {"reference": judged(by_reference), "runtime": judged(by_runtime)}


def difference(call: Call, found: list[Any], wanted: list[Any]) -> str:
    """How results differ from what they should be; empty if they do not."""
    for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
        said = compare(call, one, other)
        if said:
            return f"y{number}: {said}"
    return ""


def compare(call: Call, one: Any, other: Any) -> str:
    if isinstance(other, list) or isinstance(one, list):
        if not isinstance(one, list) or not isinstance(other, list) or len(one) != len(other):
            return f"{one!r} is not {other!r}"
        return next((said for pair in zip(one, other, strict=True) if (said := compare(call, *pair))), "")
    if isinstance(other, dict):
        if not isinstance(one, dict) or one.keys() != other.keys():
            return f"{one} is not {other}"
        return compare(call, *(np.array([x[key] for key in other]) for x in (one, other)))
    if one.dtype != other.dtype and not {one.dtype.kind, other.dtype.kind} <= set("OUS"):
        return f"the type is {one.dtype}, not {other.dtype}"
    if one.shape != other.shape:
        return f"the shape is {one.shape}, not {other.shape}"
    if call.chance:
        return ""
    if one.dtype.kind == "O":
        return "" if (one == other).all() else f"{one.tolist()} is not {other.tolist()}"
    known = dtypes.of(one.dtype)
    if not (known.is_float or known.kind == "complex"):
        if known.kind == "bool":
            off = one != other
        else:
            a, b = one.astype(object), other.astype(object)
            off = np.asarray(np.abs(a - b) > call.steps, bool)
        return "" if not off.any() else f"{one[off].tolist()[:6]} is not {other[off].tolist()[:6]}"
    kind = np.complex128 if known.kind == "complex" else np.float64
    with np.errstate(all="ignore"):  # a signalling NaN warns when it is cast
        a, b = one.astype(kind), other.astype(kind)
        finite = np.isfinite(b)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        scale = max(np.abs(b[finite]).max(initial=0.0), 10 * call.magnitude)
        limit = max(call.tolerance, HALVES.get(one.dtype, 0)) * (np.abs(b) + 0.1 * scale)
        near = finite & (np.abs(a - b) <= limit)
    off = ~(same | near)
    return "" if not off.any() else f"{a[off].tolist()[:6]} is not {b[off].tolist()[:6]}"


def check(call: Call, run: Callable[[Call], list[Any]]) -> int:
    """Assert that a provider gives what the judges give; the number of them."""
    wanted = list(verdicts(call))
    try:
        found = run(call)
    except Exception as error:
        if not wanted:
            return 0
        raise AssertionError(f"{call}\nfails where the {wanted[0][0]} gives {str(wanted[0][1])[:500]}") from error
    for judge, results in wanted:
        said = difference(call, found, results)
        assert not said, f"{call}\nthe {judge} judges: {said}\n" + "\n".join(
            f"{j}: {' '.join(str(r).split())[:500]}" for j, r in wanted
        )
    return len(wanted)
