"""How far the outputs of a bundle are from those of its model, for random inputs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx import InferenceSession
from sardonyx.api.open_inputs import Typical
from sardonyx.cli.comparison import worst
from sardonyx.cli.feeds import feeds
from sardonyx.errors import SardonyxError
from sardonyx.model.ir import Model


def difference(model: Model, file: str, bundle: Path, bucket: Mapping[str, Typical]) -> dict[str, Any]:
    """`error`, relative to the largest expected value; where it is None, `reason` tells why."""
    arrays = {name: value for name, value in bucket.items() if isinstance(value, np.ndarray)}
    shapes = [
        f"{name}={'x'.join(str(size).removeprefix('?') or '1' for size in sizes)}"
        for name, sizes in bucket.items()
        if name not in arrays
    ]
    try:
        values = feeds(model, None, shapes).present | arrays
        expected = InferenceSession(file, providers=["CPUExecutionProvider"]).run(None, values)
        error = worst(InferenceSession(bundle).run(None, values), expected)
    except SardonyxError as failure:
        return {"error": None, "reason": str(failure)}
    if error == float("inf"):
        return {"error": None, "reason": "integers, texts, shapes or what is finite differ"}
    return {"error": error}


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
