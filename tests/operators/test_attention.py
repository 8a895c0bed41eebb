"""Attention of ai.onnx, and what stands around it, beyond ONNX's own cases."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from sardonyx import InferenceSession, errors, ops
from sardonyx.ops.operator import Sample, sample
from tests.engine.providers import PROVIDERS, require_provider

from .test_samples import assert_near, expected, run_sample

RNG = np.random.default_rng(1)


def noise(*shape: int, dtype: type[np.floating] = np.float32) -> np.ndarray:
    return RNG.normal(size=shape).astype(dtype)


Q, K, PAST = noise(2, 4, 3, 4), noise(2, 2, 5, 4), noise(2, 2, 2, 4)
MASK = RNG.random((2, 1, 3, 7)) < 0.7
BIASED, DOUBLE = {"qk_matmul_output_mode": 2}, TensorProto.DOUBLE
GATED = {"q_num_heads": 4, "kv_num_heads": 2}

CASES: dict[str, tuple[str, Sample]] = {
    "plain": ("Attention", sample((2, 3, 4, 8), (2, 3, 6, 8), (2, 3, 6, 5), outputs=4)),
    "three axes": ("Attention", sample((2, 4, 32), (2, 6, 16), (2, 6, 10), is_causal=1, **GATED)),
    "softcap": ("Attention", sample(Q, K, K, (3, 5), scale=0.5, softcap=2.0, outputs=4, **BIASED)),
    "cache": ("Attention", sample(Q, K, K, MASK, PAST, PAST, is_causal=1, outputs=3)),
    "window": (
        "Attention",
        sample(Q, K, K, None, PAST, PAST, left_window_size=2, right_window_size=1, outputs=4, **BIASED),
    ),
    "lengths": ("Attention", sample(Q, K, K, noise(3, 4), None, None, np.array([4, 2]), is_causal=1)),
    "nothing allowed": ("Attention", sample(Q, K, K, np.zeros((1, 3, 5), bool))),
    "softmax in float64": ("Attention", sample(Q, K, K, softmax_precision=DOUBLE)),
    "rotary, part of each head": (
        "RotaryEmbedding",
        sample((2, 3, 2, 8), (9, 2), (9, 2), np.array([[0, 1], [8, 3]]), rotary_embedding_dim=4, interleaved=1),
    ),
    "rotary, three axes": (
        "RotaryEmbedding",
        sample((1, 2, 24), (5, 3), (5, 3), np.array([[4, 2]]), num_heads=3, rotary_embedding_dim=6),
    ),
    "linear": ("LinearAttention", sample((2, 3, 8), (2, 3, 4), (2, 3, 6), outputs=2, update_rule="linear", **GATED)),
    "gated, one token": (
        "LinearAttention",
        sample((2, 1, 8), (2, 1, 4), (2, 1, 6), (2, 2, 2, 3), (2, 1, 4), outputs=2, update_rule="gated", **GATED),
    ),
    "delta": (
        "LinearAttention",
        sample((1, 3, 8), (1, 3, 4), (1, 3, 6), None, None, (1, 3, 1), outputs=2, update_rule="delta", **GATED),
    ),
    "gated delta": (
        "LinearAttention",
        sample((2, 3, 8), (2, 3, 4), (2, 3, 6), (2, 2, 2, 3), (2, 3, 2), (2, 3, 2), outputs=2, scale=0.5, **GATED),
    ),
    "convolution": ("CausalConvWithState", sample((2, 3, 5), (3, 1, 4), (3,), (2, 3, 3), outputs=2)),
    "convolution of one place": (
        "CausalConvWithState",
        sample((2, 3, 1), (3, 1, 4), None, (2, 3, 3), outputs=2, activation="silu"),
    ),
    "convolution, short": ("CausalConvWithState", sample((1, 2, 2), (2, 1, 4), outputs=2)),
    "convolution, one tap": ("CausalConvWithState", sample((1, 2, 4), (2, 1, 1), (2,), activation="swish")),
    "convolution, half": (
        "CausalConvWithState",
        sample(np.ones((1, 2, 4), np.float16), np.ones((2, 1, 3), np.float16), outputs=2),
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("provider", [pytest.param("eager", id="eager"), *PROVIDERS])
def test_like_the_reference(name: str, provider: str) -> None:
    require_provider(provider)
    op_type, call = CASES[name]
    operator = ops.load()["", op_type]
    assert_near(run_sample(operator, call, provider), expected(operator, call), call.tolerance)


def test_half_is_computed_in_float32() -> None:
    """Products that overflow 16 bits do no harm, and results are rounded once."""
    operator = ops.load()["", "Attention"]
    wide = [noise(1, 2, 3, 8) * scale for scale in (300, 300, 1)]
    halves = [x.astype(np.float16) for x in wide]
    (found,) = run_sample(operator, sample(*halves, scale=1e-3), "eager")
    (wanted,) = expected(operator, sample(*(x.astype(np.float32) for x in halves), scale=1e-3))
    assert_near([found], [wanted.astype(np.float16)], 1e-3)


def test_no_keys_give_zeros() -> None:
    operator = ops.load()["", "Attention"]
    (found,) = run_sample(operator, sample((1, 2, 3, 4), (1, 2, 0, 4), (1, 2, 0, 5)), "eager")
    np.testing.assert_array_equal(found, np.zeros((1, 2, 3, 5), np.float32))


@pytest.mark.parametrize(
    ("op_type", "call", "message"),
    [
        ("Attention", sample((2, 3, 8), (2, 3, 8), (2, 3, 8)), "set both attributes"),
        ("Attention", sample(Q, K[:, :1].repeat(3, 1), K), "4 heads of queries do not share 3 heads"),
        ("Attention", sample(Q, K, K, None, PAST), "past_value come together; one of them is missing"),
        ("Attention", sample(Q, K, K, qk_matmul_output_mode=4), "qk_matmul_output_mode is 4; use 0..3"),
        ("RotaryEmbedding", sample((2, 3, 8), (2, 3, 4), (2, 3, 4)), "num_heads splits: set it"),
        ("RotaryEmbedding", sample((2, 1, 3, 8), (2, 3, 3), (2, 3, 3)), "are not of 4 pairs"),
        ("TensorScatter", sample((2, 3), (2, 1), axis=0), "axis 0 is that of the batch; choose another one"),
        ("TensorScatter", sample((2, 3), (2, 1), axis=1, mode="ring"), "mode 'ring' is unknown; use 'linear'"),
        ("LinearAttention", sample((1, 1, 4), (1, 1, 4), (1, 1, 4), **GATED), "'gated_delta' needs decay"),
        ("CausalConvWithState", sample((1, 1, 4), (1, 1, 2), activation="relu"), "activation 'relu' is unknown"),
        ("SwiGLU", sample((2, 3), (2, 1)), "differ in shape, and are not broadcast"),
    ],
)
def test_errors(op_type: str, call: Sample, message: str) -> None:
    with pytest.raises(errors.SardonyxError, match=message):
        run_sample(ops.load()["", op_type], call, "eager")


def generator() -> onnx.ModelProto:
    """Causal attention of tokens to a cache and themselves, with rotary embedding."""
    nodes = [
        helper.make_node("RotaryEmbedding", ["q", "cos", "sin", "positions"], ["q_turned"]),
        helper.make_node("RotaryEmbedding", ["k", "cos", "sin", "positions"], ["k_turned"]),
        helper.make_node(
            "Attention",
            ["q_turned", "k_turned", "v", "mask", "past_k", "past_v"],
            ["y", "present_k", "present_v"],
            is_causal=1,
        ),
    ]
    sizes: dict[str, list[Any]] = {
        "q": ["batch", 4, "length", 8],
        "k": ["batch", 2, "length", 8],
        "v": ["batch", 2, "length", 8],
        "past_k": ["batch", 2, "past", 8],
        "past_v": ["batch", 2, "past", 8],
    }
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in sizes.items()]
    inputs += [
        helper.make_tensor_value_info("positions", TensorProto.INT64, ["batch", "length"]),
        helper.make_tensor_value_info("mask", TensorProto.BOOL, ["batch", 1, "length", "total"]),
    ]
    angles = np.arange(64)[:, None] / 10000 ** (np.arange(4) / 4)
    tables = (("cos", np.cos(angles)), ("sin", np.sin(angles)))
    held = [onnx.numpy_helper.from_array(array.astype(np.float32), name) for name, array in tables]
    outputs = [onnx.ValueInfoProto(name=name) for name in ("y", "present_k", "present_v")]
    graph = helper.make_graph(nodes, "generator", inputs, outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=11)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_growing_cache_needs_no_new_plan(provider: str) -> None:
    require_provider(provider)
    model = generator()
    session = InferenceSession(model.SerializeToString(), providers=[provider])
    reference = ReferenceEvaluator(model)
    feeds = {name: noise(2, 2, 0, 8) for name in ("past_k", "past_v")}
    compiled = []
    for step in range(12):
        length = 1 if step else 4
        first = 3 + step if step else 0
        feeds |= {"q": noise(2, 4, length, 8), "k": noise(2, 2, length, 8), "v": noise(2, 2, length, 8)}
        feeds["positions"] = np.broadcast_to(first + np.arange(length), (2, length)).copy()
        feeds["mask"] = np.ones((2, 1, length, first + length), bool)  # The reference does not broadcast its rows.
        feeds["mask"][1, ..., 0] = False
        found, wanted = session.run(None, feeds), reference.run(None, feeds)
        assert_near(found, wanted, 1e-5)
        feeds |= {"past_k": wanted[1], "past_v": wanted[2]}
        compiled.append(session.compiled)
    assert len(set(compiled[1:])) == 1
