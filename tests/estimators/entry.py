"""What a table of estimators consists of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .data import Data, line, three

Method = str | Callable[[Any, Any], Any]
"""A method by its name, or a function of an estimator and rows."""


@dataclass(frozen=True)
class Entry:
    """An estimator: how it is made, what it learns from, and which of its methods give the outputs of its model.

    `options` are those of the converter, `inner` those for classes inside the estimator, `fit` what `fit` is told
    beside the data. `tolerance` is relative to the largest number of each output. `float64` says whether the converter
    allows inputs of float64. `library` names the converter. Where a converter's model means something else than its
    estimator, `wrong` says what, and onnxruntime is the reference.
    """

    make: Callable[[], Any]
    data: Callable[[], Data]
    methods: tuple[Method, ...]
    options: dict[str, Any] = field(default_factory=dict)
    inner: dict[type, dict[str, Any]] = field(default_factory=dict)
    fit: dict[str, Any] = field(default_factory=dict)
    tolerance: float = 1e-5
    float64: bool = True
    library: str = "skl2onnx"
    wrong: str = ""


Table = dict[str, Entry]


def classifier(make: Callable[[], Any], data: Callable[[], Data] = three, **more: Any) -> Entry:
    """An entry whose outputs are labels and probabilities."""
    more = {"options": {"zipmap": False}, "methods": ("predict", "predict_proba"), **more}
    return Entry(make, data, **more)


def scorer(make: Callable[[], Any], data: Callable[[], Data] = three, **more: Any) -> Entry:
    """An entry whose outputs are labels and scores."""
    more = {"options": {"zipmap": False, "raw_scores": True}, "methods": ("predict", "decision_function"), **more}
    return Entry(make, data, **more)


def regressor(make: Callable[[], Any], data: Callable[[], Data] = line, **more: Any) -> Entry:
    """An entry whose output is what it predicts."""
    return Entry(make, data, ("predict",), **more)


def transformer(make: Callable[[], Any], data: Callable[[], Data] = three, **more: Any) -> Entry:
    """An entry whose output is what it makes of the rows."""
    return Entry(make, data, ("transform",), **more)
