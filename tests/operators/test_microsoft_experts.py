"""Mixtures of experts, as onnxruntime has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sardonyx import errors

from .microsoft import ON_ALL, Call, check
from .test_samples import assert_near

RNG = np.random.default_rng(0)
SWIGLU: dict[str, Any] = {"activation_type": "swiglu", "swiglu_fusion": 1}


def noise(*shape: int, dtype: type[np.floating] = np.float32) -> np.ndarray:
    return RNG.normal(size=shape).astype(dtype)


def mixture(tokens: tuple[int, ...], experts: int = 3, bias: bool = True, **attributes: Any) -> Call:
    hidden, inner, rows = 8, 6, int(np.prod(tokens))
    wide = inner * (2 if attributes.get("activation_type") == "swiglu" else 1)
    layers = [noise(experts, wide, hidden), noise(experts, wide), noise(experts, hidden, inner), noise(experts, hidden)]
    layers = [layer if bias or layer.ndim == 3 else None for layer in layers]
    return Call("MoE", [noise(*tokens, hidden), noise(rows, experts), *layers], {"k": 2, **attributes})


def tied() -> Call:
    call = mixture((5,))
    call.inputs[1] = np.array([[1, 1, 1], [0, 1, 1], [1, 0, 1], [1, 1, 0], [-1, -1, -1]], np.float32)
    return call


def quantized(
    tokens: int = 5,
    bits: int = 4,
    block: int = 0,
    zeros: bool = False,
    shares: bool = False,
    bias: bool = True,
    dtype: type[np.floating] = np.float32,
    **attributes: Any,
) -> Call:
    hidden, inner, experts, pack = 64, 32, 3, 8 // bits
    wide = inner * (2 if attributes.get("activation_type") == "swiglu" else 1)
    layers: list[np.ndarray | None] = []
    added: list[np.ndarray | None] = []
    for rows, columns in ((wide, hidden), (hidden, inner)):
        count = (experts, rows, columns // block) if block else (experts, rows)
        scales = (np.abs(noise(*count)) * 0.3 / 2**bits + 0.01).astype(dtype)
        stored = RNG.integers(0, 256, (experts, rows, columns // pack)).astype(np.uint8)
        layers += [stored, scales, noise(experts, rows, dtype=dtype) if bias else None]
        packed = (*count[:-1], -(-count[-1] // pack))
        added.append(RNG.integers(0, 256, packed).astype(np.uint8) if zeros else None)
    router = noise(tokens, experts, dtype=dtype)
    weights = np.abs(noise(tokens, experts, dtype=dtype)) if shares else None
    attributes = {"k": 2, "expert_weight_bits": bits, **attributes} | ({"block_size": block} if block else {})
    inputs = [noise(tokens, hidden, dtype=dtype), router, *layers, None, None, None, *added, None, weights]
    return Call("QMoE", inputs, attributes, constant=(2, 3, 5, 6, 11, 12))


FLOATS = {
    "relu": mixture((5,)),
    "three axes": mixture((2, 3), activation_type="silu"),
    "normalized": mixture((5,), normalize_routing_weights=1, bias=False),
    "gelu": mixture((5,), activation_type="gelu"),
    "identity, all experts": mixture((5,), k=3, activation_type="identity"),
    "swiglu": mixture((5,), **SWIGLU),
    "swiglu, limited": mixture((5,), **SWIGLU, activation_alpha=1.702, activation_beta=1.0, swiglu_limit=0.5),
    "one token": mixture((1,), **SWIGLU),
    "few tokens": mixture((2, 1), experts=5, normalize_routing_weights=1),
    "one expert": mixture((4,), experts=1, k=1),
    "sparse mixer": mixture((4,), use_sparse_mixer=1),
    "ties": tied(),
}
INTEGERS = {
    "4 bits": quantized(),
    "4 bits, zero points": quantized(zeros=True, activation_type="silu"),
    "4 bits, one token": quantized(1, k=1, zeros=True, activation_type="gelu"),
    "4 bits, blocks": quantized(block=16, **SWIGLU),
    "4 bits, blocks, zero points": quantized(block=32, zeros=True, **SWIGLU, activation_alpha=1.7, swiglu_limit=1.0),
    "4 bits, half": quantized(dtype=np.float16),
    "8 bits": quantized(bits=8, bias=False),
    "8 bits, zero points": quantized(bits=8, zeros=True, activation_type="identity"),
    "8 bits, blocks": quantized(bits=8, block=16, zeros=True),
    "2 bits": quantized(bits=2),
    "2 bits, blocks, zero points": quantized(bits=2, block=16, zeros=True),
    "shares": quantized(shares=True),
    "shares, normalized": quantized(shares=True, normalize_routing_weights=1),
}


@ON_ALL
@pytest.mark.parametrize("name", FLOATS)
def test_floats(name: str, provider: str) -> None:
    check(FLOATS[name], provider)


@ON_ALL
@pytest.mark.parametrize("name", INTEGERS)
def test_integers(name: str, provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """onnxruntime is kept from rounding the activations."""
    monkeypatch.setenv("ORT_QMOE_CPU_QNBIT_GEMM", "fp32")
    check(INTEGERS[name], provider)


def gated(activation: str, fused: int) -> tuple[Call, np.ndarray]:
    """A MoE with a gate of its own, or with halves one behind the other, which onnxruntime's CPU provider lacks, and
    what it is to give."""
    call = mixture((5,), activation_type=activation, swiglu_fusion=fused, activation_beta=0.5)
    x, scores, inner, inner_bias, outer, outer_bias = (np.zeros(()) if x is None else x for x in call.inputs)
    gate, gate_bias = inner[:, -6:], inner_bias[:, -6:]
    if fused:
        inner, inner_bias = inner[:, :6], inner_bias[:, :6]
    elif activation == "swiglu":
        call.inputs[2:4] = inner, inner_bias = [inner[:, :6], inner_bias[:, :6]]
    if not fused:
        call.inputs += [gate, gate_bias]
    shares = np.exp(scores - scores.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    shares = np.where(shares >= np.sort(shares, 1)[:, -2:-1], shares, 0)
    left = np.einsum("th,eih->eti", x, inner) + inner_bias[:, None]
    right = np.einsum("th,eih->eti", x, gate) + gate_bias[:, None]
    middle = left / (1 + np.exp(-left)) * (right + 0.5) if activation == "swiglu" else np.maximum(left, 0) * right
    made = np.einsum("eti,ehi->eth", middle, outer) + outer_bias[:, None]
    return call, np.einsum("te,eth->th", shares, made)


@pytest.mark.parametrize(("activation", "fused"), [("relu", 0), ("swiglu", 0), ("swiglu", 2)])
def test_gates(activation: str, fused: int) -> None:
    call, wanted = gated(activation, fused)
    assert_near(call.run("eager"), [wanted.astype(np.float32)], 1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (mixture((5,), k=4), "k is 4, but there are 3 experts; use 1..3"),
        (mixture((5,), activation_type="selu"), "activation_type 'selu' is unknown; use relu, gelu"),
        (mixture((5,), activation_type="swiglu"), "swiglu needs fc3_experts_weights, or a swiglu_fusion of 1 or 2"),
        (quantized(quant_type="fp4"), "quant_type 'fp4' is not supported; use 'int'"),
        (quantized(weights_prepacked=1), "weights_prepacked is not supported"),
    ],
)
def test_errors(call: Call, message: str) -> None:
    with pytest.raises(errors.SardonyxError, match=message):
        call.run("eager")
