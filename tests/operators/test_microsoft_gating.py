"""Gates, branches and linear attention, as onnxruntime has them."""

from __future__ import annotations

from collections.abc import Callable
from math import erf

import ml_dtypes
import numpy as np
import pytest

from sardonyx.errors import SardonyxError
from tests.engine.providers import require_provider

from .microsoft import ON_ALL, Call, check
from .test_samples import assert_near

RNG = np.random.default_rng(0)


def noise(*shape: int, dtype: type[np.floating] = np.float32) -> np.ndarray:
    return RNG.normal(size=shape).astype(dtype)


def half(*shape: int) -> np.ndarray:
    return noise(*shape, dtype=np.float16)


def short(*shape: int) -> np.ndarray:
    return np.asarray(RNG.normal(size=shape)).astype(ml_dtypes.bfloat16)


TWO = ("y0", "y1")
PLACES = np.array([[[0, 1], [2, 2]], [[2, 3], [0, 5]], [[4, 1], [1, 1]]])
HEADS = {"q_num_heads": 2, "kv_num_heads": 2}
LINEAR: list[np.ndarray | None] = [noise(2, 3, 6), noise(2, 3, 6), noise(2, 3, 10)]

CASES = {
    "branchwise, half": Call("BranchwiseRMSNorm", [half(2, 3, 4), noise(4)]),
    "branchwise, flat": Call("BranchwiseRMSNorm", [noise(2, 5, 12), noise(3, 4)], {"num_branches": 3}),
    "branchwise, flat and half": Call("BranchwiseRMSNorm", [half(12) * 99, half(12)], {"num_branches": 2}),
    "branchwise, scale of 16 bits": Call("BranchwiseRMSNorm", [noise(2, 3, 4), short(3, 4)]),
    "branchwise of one": Call("BranchwiseRMSNorm", [noise(1, 1), noise(1)], {"epsilon": 0.5}),
    "premix, half": Call("HyperConnectionPreMix", [half(2, 3, 4), noise(2, 3, 1)], {"reduction_scale": -1.5}),
    "premix, flat": Call("HyperConnectionPreMix", [noise(2, 12), half(2, 3)], {"num_branches": 3}),
    "premix, flat gates": Call("HyperConnectionPreMix", [noise(2, 12), noise(2, 12)], {"num_branches": 3}),
    "premix, one branch": Call("HyperConnectionPreMix", [noise(2, 1, 4), noise(2, 1)]),
    "postmix, half": Call("HyperConnectionPostMix", [half(2, 3, 4), half(2, 4), noise(2, 3), noise(2, 3, 3)]),
    "postmix, gates of 16 bits": Call("HyperConnectionPostMix", [noise(2, 3, 4), noise(2, 4), short(2, 3)]),
    "postmix, flat": Call(
        "HyperConnectionPostMix",
        [noise(2, 12), noise(2, 4), noise(2, 3, 4), noise(2, 3, 3)],
        {"num_branches": 3},
    ),
    "postmix, two axes in front": Call("HyperConnectionPostMix", [noise(2, 5, 3, 4), noise(2, 5, 4), noise(2, 5, 3)]),
    "gated add, half": Call("GatedAdd", [half(2, 3, 4), half(2, 3, 4), half(2, 3, 1)]),
    "gated norm, half": Call("GatedRMSNorm", [half(2, 3, 8), half(4), half(2, 3, 8)]),
    "silu, half": Call("ScaledSiLU", [half(4, 5), np.array(1.7, np.float32)]),
    "silu, scale of 16 bits": Call("ScaledSiLU", [noise(4, 5), short()]),
    "silu of nothing": Call("ScaledSiLU", [noise(0, 5)]),
    "gate of attention, half": Call("LinearAttentionGate", [half(2, 3, 4), noise(4), noise(4), half(2, 3, 4)], {}, TWO),
    "gate of attention, far": Call(
        "LinearAttentionGate", [np.array([[[-200, 200, 30]]], np.float32), noise(3), noise(3)]
    ),
    "engram, half": Call(
        "EngramGate", [half(1, 2, 3, 4), half(1, 2, 3, 4), half(1, 2, 4), half(3, 4), half(3, 4), half(3, 4)], {}, TWO
    ),
    "engram of zeros": Call(
        "EngramGate", [noise(1, 2, 1, 4) * 0, noise(1, 2, 1, 4), noise(1, 2, 4), *[noise(1, 4)] * 2]
    ),
    "attention": Call("LinearAttention", [*LINEAR, noise(2, 2, 3, 5)], {**HEADS, "update_rule": "linear"}, TWO),
    "attention, gates that do not count": Call(
        "LinearAttention", [*LINEAR, None, noise(2, 3, 2), noise(2, 3, 2)], {**HEADS, "update_rule": "linear"}, TWO
    ),
    "attention, gated": Call(
        "LinearAttention",
        [*LINEAR, None, -np.abs(noise(2, 3, 2))],
        {**HEADS, "update_rule": "gated", "scale": 0.3},
        TWO,
    ),
    "attention, delta": Call(
        "LinearAttention", [*LINEAR, None, None, np.abs(noise(2, 3, 1))], {**HEADS, "update_rule": "delta"}, TWO
    ),
    "attention, gated delta": Call(
        "LinearAttention", [*LINEAR, noise(2, 2, 3, 5), -np.abs(noise(2, 3, 6)), np.abs(noise(2, 3, 2))], HEADS, TWO
    ),
    "attention, shared keys": Call(
        "LinearAttention",
        [noise(1, 4, 12), noise(1, 4, 6), noise(1, 4, 4)],
        {"q_num_heads": 4, "kv_num_heads": 2, "update_rule": "linear"},
        TWO,
    ),
    "attention, shared queries": Call(
        "LinearAttention",
        [noise(1, 1, 3), noise(1, 1, 6), noise(1, 1, 4)],
        {"q_num_heads": 1, "kv_num_heads": 2, "update_rule": "linear"},
        TWO,
    ),
    "convolution, dilated": Call(
        "CausalConvWithState",
        [noise(1, 2, 6), noise(2, 1, 3), noise(2), noise(1, 2, 4)],
        {"dilation": 2, "activation": "silu"},
        TWO,
    ),
    "convolution, channels last": Call(
        "CausalConvWithState",
        [noise(2, 5, 2, 2), noise(4, 1, 2), None, noise(2, 3, 2, 2)],
        {"channels_last": 1, "dilation": 3},
        TWO,
    ),
    "convolution, one tap": Call("CausalConvWithState", [noise(1, 2, 4), noise(2, 1, 1)], {"activation": "swish"}, TWO),
    "rotary": Call(
        "MRotaryEmbedding",
        [noise(2, 2, 16), PLACES, noise(6, 4), noise(6, 4)],
        {"num_heads": 2, "mrope_section": [1, 1, 2]},
    ),
    "rotary, in turn": Call(
        "MRotaryEmbedding",
        [noise(2, 3, 2, 12), PLACES, noise(6, 6), noise(6, 6)],
        {"mrope_section": [3, 2, 1], "mrope_layout": 1},
    ),
    "rotary, interleaved": Call(
        "MRotaryEmbedding",
        [noise(2, 2, 16), PLACES, noise(6, 4), noise(6, 4)],
        {"num_heads": 2, "mrope_section": [4, 0, 0], "interleaved": 1},
    ),
    "rotary, half of heads": Call(
        "MRotaryEmbedding",
        [half(2, 2, 16), PLACES, half(6, 2), half(6, 2)],
        {"num_heads": 2, "mrope_section": [0, 1, 1], "rotary_embedding_dim": 4},
    ),
}


@ON_ALL
@pytest.mark.parametrize("name", CASES)
def test_like_onnxruntime(name: str, provider: str) -> None:
    check(CASES[name], provider)


WEB: dict[str, tuple[Call, Callable[..., np.ndarray]]] = {
    "add": (
        Call("BiasAdd", [noise(2, 3, 4), noise(4), noise(2, 3, 4)]),
        lambda x, bias, skip: x + bias + skip,
    ),
    "add, half": (
        Call("BiasAdd", [half(2, 3, 4), half(4), half(2, 3, 4)]),
        lambda x, bias, skip: x + bias + skip,
    ),
    "split": (
        Call("BiasSplitGelu", [noise(2, 3, 8), noise(8)]),
        lambda x, bias: (x + bias)[..., :4] * _gelu((x + bias)[..., 4:]),
    ),
    "split, half": (
        Call("BiasSplitGelu", [half(1, 2, 6), half(6)]),
        lambda x, bias: (x + bias)[..., :3] * _gelu((x + bias)[..., 3:]),
    ),
}
"""Operators that onnxruntime has on GPUs alone, and their formulas."""


def _gelu(x: np.ndarray) -> np.ndarray:
    result: np.ndarray = 0.5 * x * (1 + np.vectorize(erf)(x / 2**0.5))
    return result


@ON_ALL
@pytest.mark.parametrize("name", WEB)
def test_by_formula(name: str, provider: str) -> None:
    require_provider(provider)
    call, formula = WEB[name]
    x = call.inputs[0]
    assert x is not None
    wide = [array.astype(np.float64) for array in call.inputs if array is not None]
    assert_near(call.run(provider), [formula(*wide).astype(x.dtype)], 2e-3 if x.dtype == np.float16 else 1e-5)


REFUSED = {
    "odd": (Call("BiasSplitGelu", [noise(1, 1, 3), noise(3)]), "does not split into halves"),
    "activation": (Call("GatedRMSNorm", [noise(4), noise(4), noise(4)], {"activation": "relu"}), "use one of silu"),
    "groups": (Call("GatedRMSNorm", [noise(4), noise(3), noise(4)]), "no multiple of 3"),
    "gate": (Call("GatedAdd", [noise(2, 4), noise(2, 4), noise(2, 4)]), r"is not \[2,1\]"),
    "branches": (Call("BranchwiseRMSNorm", [noise(8)]), "needs num_branches"),
    "uneven branches": (Call("BranchwiseRMSNorm", [noise(8)], {"num_branches": 3}), "3 branches of equal size"),
    "no scale": (
        Call("EngramGate", [noise(1, 1, 1, 4), noise(1, 1, 1, 4), noise(1, 1, 4), noise(1, 4), noise(1, 4)], {}, TWO),
        "no conv_norm_scale",
    ),
    "no b": (Call("LinearAttentionGate", [noise(1, 1, 2), noise(2), noise(2)], {}, TWO), "there is no b"),
    "window": (Call("LinearAttention", LINEAR, {**HEADS, "update_rule": "linear", "state_window": 2}), "state_window"),
    "axes": (Call("CausalConvWithState", [noise(1, 2, 3, 3), noise(2, 1, 1, 2)], {"ndim": 2}), "ndim"),
    "heads": (
        Call("MRotaryEmbedding", [noise(2, 2, 8), PLACES, noise(6, 4), noise(6, 4)], {"mrope_section": [1, 1, 2]}),
        "num_heads",
    ),
    "section": (
        Call(
            "MRotaryEmbedding",
            [noise(2, 1, 2, 8), PLACES, noise(6, 4), noise(6, 4)],
            {"mrope_section": [1, 1, 1]},
        ),
        "not of all pairs",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    call, words = REFUSED[name]
    with pytest.raises(SardonyxError, match=words):
        call.run("eager")
