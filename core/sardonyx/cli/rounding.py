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
from sardonyx.sizes.parse import parsed
from sardonyx.sizes.polynomial import evaluate


def difference(
    model: Model, file: str, bundle: Path, bucket: Mapping[str, Typical], sizes: Mapping[str, str]
) -> dict[str, Any]:
    """`error`, relative to the largest expected value; where it is None, `reason` tells why."""
    arrays = {name: value for name, value in bucket.items() if isinstance(value, np.ndarray)}
    shapes = [
        f"{name}={'x'.join(str(size).removeprefix('?') or '1' for size in sizes)}"
        for name, sizes in bucket.items()
        if name not in arrays
    ]
    shapes += [f"{name}={number}" for name, number in _numbers(sizes).items()]
    try:
        values = feeds(model, None, shapes).present | arrays
        expected = InferenceSession(file, providers=["CPUExecutionProvider"]).run(None, values)
        error = worst(InferenceSession(bundle).run(None, values), expected)
    except SardonyxError as failure:
        return {"error": None, "reason": str(failure)}
    if error == float("inf"):
        return {"error": None, "reason": "integers, texts, shapes or what is finite differ"}
    return {"error": error}


def _numbers(sizes: Mapping[str, str]) -> dict[str, int]:
    """The sizes that are given, 1 where they are open.

    >>> _numbers({"T": "P+S", "P": "?4", "S": "1"})
    {'P': 4, 'S': 1, 'T': 5}
    """
    words = {name: size.removeprefix("?") or "1" for name, size in sizes.items()}
    numbers = {name: int(word) for name, word in words.items() if word.isdecimal()}
    for name, word in words.items():
        if name not in numbers:
            size = parsed(word)
            numbers[name] = evaluate(size.json(), dict.fromkeys(size.symbols(), 1) | numbers)
    return numbers


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
