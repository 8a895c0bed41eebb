"""The models that mutations start from, each with feeds that it takes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from sardonyx.api.bundling import bundle_of
from sardonyx.demo import assets
from sardonyx.plans.plan_cache import Source
from tests.conformance.cases import cases
from tests.engine.graphs import CHAIN, CONTROL_FLOW, model
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


BUNDLED = [
    "attention_4d_causal",
    "conv_with_strides_padding",
    "cumsum_1d_exclusive",
    "gather_elements_0",
    "if",
    "lstm_defaults",
    "maxpool_2d_pads",
    "nonzero_example",
    "qlinearmatmul_2D_uint8_float32",
    "resize_upsample_sizes_nearest",
    "scan9_sum",
    "scatter_elements_with_axis",
    "softmax_axis_1",
    "top_k",
    "unique_sorted_with_axis",
]
"""ONNX's cases that bundles are made of, besides models of our own."""
WORDS = """g (int64[N] i) => (string[N] y) {
    words = Constant <value_strings = ["a", "b", "c"]> ()
    y = Gather (words, i)
}"""
X = np.linspace(-2, 2, 8, dtype=np.float32).reshape(2, 4)


@cache
def bundles() -> list[Seed]:
    """Bundles for WebAssembly: sizes that are open or that data tell, control flow, weights, strings."""
    known = {seed.name: seed for seed in nodes()}
    own = [
        Seed("chain", model(CHAIN), {"x": X}),
        Seed("words", model(WORDS), {"i": np.array([2, 0, 1])}),
        Seed("control flow", model(CONTROL_FLOW), {"x": X, "n": np.array(3), "c": np.array(True)}),
        Seed("digits", (assets() / "digits.onnx").read_bytes(), {"image": np.ones((2, 1, 28, 28), np.float32)}),
    ]
    return [Seed(seed.name, _bundle(seed), seed.feeds) for seed in (*own, *(known[f"test_{name}"] for name in BUNDLED))]


def _bundle(seed: Seed) -> bytes:
    feeds = {name: np.asarray(array) for name, array in seed.feeds.items() if array.dtype.kind in "iu"}
    return b"".join(bundle_of(Source(seed.data), ["wasm"], [feeds]))


SEEDS = {"node": nodes, "real": real, "bundle": bundles, "damage": bundles}
