"""Bundles run by the page runtime, in Chromium without Python."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import onnx.parser

from sardonyx.api.bundling import bundle_of
from sardonyx.common import dtypes
from sardonyx.common.convert import inward
from sardonyx.plans.plan_cache import Source
from tests.support.browser import Site

HERE = Path(__file__).parent
RUNTIME = HERE.parents[1] / "web" / "sardonyx"
FOLDERS: Mapping[str, Path] = {"sardonyx": RUNTIME, "web": HERE}
"""The page runtime, and the workers and pages of these tests, by the first part of their addresses."""
Arrays = list[npt.NDArray[Any]]


def model_of(text: str, opset: int = 21) -> bytes:
    """The model with this graph, and functions, in ONNX's text form; `my.domain` is a domain of its own."""
    head = f'<ir_version: 10, opset_import: ["" : {opset}, "my.domain" : 1]>'
    return bytes(onnx.parser.parse_model(head + text).SerializeToString())


@dataclass(frozen=True)
class Case:
    """A bundle and its feeds."""

    bundle: bytes
    feeds: Mapping[str, npt.NDArray[Any]]


def bundled(
    model: str | Path | bytes,
    feeds: Mapping[str, npt.NDArray[Any]],
    targets: Sequence[str],
    compress: bool = False,
    weights: str = "float32",
) -> bytes:
    """The bundle of a model for inputs of these shapes; integers among them are typical values."""
    typical = {name: array if array.dtype.kind in "iu" else list(array.shape) for name, array in feeds.items()}
    return b"".join(bundle_of(Source(model), targets, [typical], compress=compress, weights=weights))


class Opened(Protocol):
    """Where bundles run: a site, and what a worker of one of its pages answers."""

    @property
    def site(self) -> Site: ...

    def call(self, script: str, message: Mapping[str, Any], limit: float) -> Any: ...


def run(
    chromium: Opened, cases: Sequence[Case], target: str, threads: int = 1, limit: float = 300
) -> list[Arrays | str]:
    """What each case gives: arrays as the engine stores them, or the text of an error."""
    told = offered(chromium, [case.feeds for case in cases])
    chromium.site.data.update({f"{number}.sdx": case.bundle for number, case in enumerate(cases)})
    message = {"cases": told, "target": target, "threads": threads}
    return _answered(chromium, "/web/bundles.mjs", message, limit)


def run_in_turn(
    chromium: Opened,
    bundle: Path,
    turns: Sequence[Mapping[str, npt.NDArray[Any]]],
    target: str,
    kept: Mapping[str, str] | None = None,
    limit: float = 600,
) -> list[Arrays | str]:
    """What one session of a bundle gives for these feeds, one after another.

    Inputs that are left out are outputs of the turn before: `kept` says which.
    """
    told = offered(chromium, turns)
    chromium.site.data["turns.sdx"] = bundle
    message = {"cases": told, "target": target, "kept": [*(kept or {}).items()]}
    return _answered(chromium, "/web/turns.mjs", message, limit)


def offered(chromium: Opened, cases: Sequence[Mapping[str, npt.NDArray[Any]]]) -> list[dict[str, Any]]:
    """Lay the feeds of each case where the page finds them, and return what it is to be told of them."""
    site = chromium.site
    site.data.clear()
    site.posted.clear()
    told = []
    for number, feeds in enumerate(cases):
        arrays = {name: inward(array, dtypes.of(array.dtype)) for name, array in feeds.items()}
        site.data.update({f"{number}.{k}": _bytes(array) for k, array in enumerate(arrays.values())})
        kinds = [dtypes.of(array.dtype).name for array in feeds.values()]
        told.append({"inputs": [[name, kind, list(a.shape)] for (name, a), kind in zip(arrays.items(), kinds)]})
    return told


def _answered(chromium: Opened, script: str, message: Mapping[str, Any], limit: float) -> list[Arrays | str]:
    return collected(chromium, chromium.call(script, message, limit))


def collected(chromium: Opened, answers: Sequence[Mapping[str, Any]]) -> list[Arrays | str]:
    """The arrays that a page has posted, or the texts of its errors, for what it says of each case."""
    return [
        answer["error"]
        if "error" in answer
        else [_array(chromium.site.posted[f"{number}.{k}"], *kind) for k, kind in enumerate(answer["outputs"])]
        for number, answer in enumerate(answers)
    ]


def _bytes(array: npt.NDArray[Any]) -> bytes:
    return json.dumps(array.ravel().tolist()).encode() if array.dtype == object else array.tobytes()


def _array(data: bytes, dtype: str, shape: Sequence[int]) -> npt.NDArray[Any]:
    if dtype == "string":
        return np.array([*json.loads(data), None], object)[:-1].reshape(shape)
    return np.frombuffer(data, dtypes.by_name(dtype).storage).reshape(shape)
