"""Bundles run by the page runtime, in Chromium without Python."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx.parser

from sardonyx.api.bundling import bundle_of
from sardonyx.common import dtypes
from sardonyx.common.convert import inward
from sardonyx.plans.plan_cache import Source
from tests.support.browser import Chromium, open_chromium

HERE = Path(__file__).parent
RUNTIME = HERE.parents[1] / "web" / "sardonyx"
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


@contextmanager
def open_page() -> Iterator[Chromium]:
    """Chromium with the page runtime at /sardonyx and the workers of these tests at /web."""
    with open_chromium({"sardonyx": RUNTIME, "web": HERE}) as chromium:
        yield chromium


def run(
    chromium: Chromium, cases: Sequence[Case], target: str, threads: int = 1, limit: float = 300
) -> list[Arrays | str]:
    """What each case gives: arrays as the engine stores them, or the text of an error."""
    site = chromium.site
    site.data.clear()
    site.posted.clear()
    told = []
    for number, case in enumerate(cases):
        site.data[f"{number}.sdx"] = case.bundle
        arrays = {name: inward(array, dtypes.of(array.dtype)) for name, array in case.feeds.items()}
        site.data.update({f"{number}.{k}": _bytes(array) for k, array in enumerate(arrays.values())})
        kinds = [dtypes.of(array.dtype).name for array in case.feeds.values()]
        told.append({"inputs": [[name, kind, list(a.shape)] for (name, a), kind in zip(arrays.items(), kinds)]})
    message = {"cases": told, "target": target, "threads": threads}
    answers = chromium.call("/web/bundles.mjs", message, limit)
    return [
        answer["error"]
        if "error" in answer
        else [_array(site.posted[f"{number}.{k}"], *kind) for k, kind in enumerate(answer["outputs"])]
        for number, answer in enumerate(answers)
    ]


def _bytes(array: npt.NDArray[Any]) -> bytes:
    return json.dumps(array.ravel().tolist()).encode() if array.dtype == object else array.tobytes()


def _array(data: bytes, dtype: str, shape: Sequence[int]) -> npt.NDArray[Any]:
    if dtype == "string":
        return np.array([*json.loads(data), None], object)[:-1].reshape(shape)
    return np.frombuffer(data, dtypes.by_name(dtype).storage).reshape(shape)
