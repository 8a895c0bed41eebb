"""The models that mutations start from, each with feeds that it takes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from sardonyx.demo import assets
from tests.conformance.cases import cases
from tests.models import inputs, path

REAL = ("skl-rf-validity", "skl-gbr-mlp", "asr-feat-kaldi", "lgbm-decode-te5", "ppocr2-cls", "silero-vad")


@dataclass(frozen=True)
class Seed:
    name: str
    data: bytes
    feeds: dict[str, Any]


@cache
def nodes() -> list[Seed]:
    """ONNX's own test models of single operators, control flow and functions among them."""
    found = []
    for case in cases():
        if case.kind == "node":
            names = [value.name for value in case.model.graph.input]
            fed = dict(zip(names, case.data_sets()[0][0], strict=False))
            found.append(Seed(case.name, case.model.SerializeToString(), fed))
    return found


@cache
def real() -> list[Seed]:
    """Small models of many kinds: convolutions, recurrence in control flow, signals, trees."""
    digits = Seed("digits", (assets() / "digits.onnx").read_bytes(), {})
    return [digits, *(Seed(id, path(id).read_bytes(), inputs(id)) for id in REAL)]


SEEDS = {"node": nodes, "real": real}
