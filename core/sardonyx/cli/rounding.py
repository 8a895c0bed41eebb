"""How far the outputs of a bundle are from those of its model, for random inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx import InferenceSession
from sardonyx.api.open_inputs import Typical
from sardonyx.cli.comparison import worst
from sardonyx.cli.feeds import feeds
from sardonyx.errors import SardonyxError
from sardonyx.model.ir import Model
from sardonyx.plans.acceptance import holds
from sardonyx.plans.plan import Plan
from sardonyx.sizes.expression import evaluate

NUMBERS = (1, 2, 4, 16, 64, 320, 512)
"""Sizes that are tried where a bundle leaves them open."""


def difference(model: Model, file: str | bytes, bundle: Path, bucket: Mapping[str, Typical]) -> dict[str, Any]:
    """`error`, relative to the largest expected value; where it is None, `reason` tells why."""
    arrays = {name: value for name, value in bucket.items() if isinstance(value, np.ndarray)}
    try:
        session = InferenceSession(bundle)
        values = feeds(model, None, _shapes(session.plans)).present | arrays
        expected = InferenceSession(file, providers=["CPUExecutionProvider"]).run(None, values)
        error = worst(session.run(None, values), expected)
    except SardonyxError as failure:
        return {"error": None, "reason": str(failure)}
    if error == float("inf"):
        return {"error": None, "reason": "integers, texts, shapes or what is finite differ"}
    return {"error": error}


def _shapes(plans: Sequence[Plan]) -> list[str]:
    """Shapes of inputs that one of the plans holds for, as `--shape` has them."""
    for number, plan in product(NUMBERS, plans):
        symbols = dict.fromkeys(plan.symbols, number)
        shapes = [tuple(evaluate(size, symbols) for size in port.shape) for port in plan.inputs]
        if holds(plan, shapes):
            return [f"{port.name}={'x'.join(map(str, shape))}" for port, shape in zip(plan.inputs, shapes, strict=True)]
    return []


def told(facts: Mapping[str, Any]) -> str:
    """The difference in a sentence.

    >>> told({"error": 0.0123}), told({"error": None, "reason": "there is no wasmtime"})
    ('Outputs differ by up to 1.2 % of the largest, for random inputs.', 'No measure of outputs: there is no wasmtime')
    """
    if facts["error"] is None:
        return f"No measure of outputs: {facts['reason']}"
    percent = 100 * facts["error"]
    text = f"{percent:.0f}" if percent >= 10 else f"{percent:.2g}"
    return f"Outputs differ by up to {text} % of the largest, for random inputs."
