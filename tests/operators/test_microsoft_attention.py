"""onnxruntime's forms of attention: masks, caches, groups, rotary embedding."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from sardonyx import InferenceSession, errors
from tests.engine.providers import PROVIDERS, require_provider

from .microsoft import ON_ALL, Call, check
from .test_samples import assert_near

RNG = np.random.default_rng(0)
HEADS, SIZE = 2, 8
HIDDEN = HEADS * SIZE


def noise(*shape: int, dtype: type[np.floating] = np.float32) -> np.ndarray:
    return RNG.normal(size=shape).astype(dtype)


def ints(*items: Any) -> np.ndarray:
    return np.array(items, np.int32)


def mask(*shape: int) -> np.ndarray:
    return RNG.integers(0, 2, shape).astype(np.int32)


ROTATED = {
    "rotary": Call(
        "RotaryEmbedding", [noise(2, 3, 32), np.array([[0, 1, 2], [4, 3, 2]]), noise(6, 8), noise(6, 8)], {"scale": 0.5}
    ),
    "rotary, part of each head": Call(
        "RotaryEmbedding",
        [noise(2, 3, 32), np.array([[0, 1, 2], [4, 3, 2]]), noise(6, 4), noise(6, 4)],
        {"num_heads": 2, "rotary_embedding_dim": 8, "interleaved": 1},
    ),
    "rotary, half": Call(
        "RotaryEmbedding",
        [noise(2, 2, 3, 8, dtype=np.float16), np.array([2]), *(noise(6, 4, dtype=np.float16) for _ in range(2))],
    ),
}


def merged(
    mask: np.ndarray | None = None,
    past: int = 0,
    bias: np.ndarray | None = None,
    width: int = HIDDEN,
    **attributes: Any,
) -> Call:
    """An Attention of three tokens, with a cache of `past` ones if there are any."""
    total = 2 * HIDDEN + width
    cache = noise(2, 2, HEADS, past, SIZE) if past else None
    inputs = [noise(2, 3, 12), noise(12, total), noise(total), mask, cache, bias]
    return Call("Attention", inputs, {"num_heads": HEADS, **attributes}, ("y0", "y1") if past else ("y0",))


MERGED = {
    "merged": merged(scale=0.5),
    "merged, causal, cache": merged(past=4, unidirectional=1),
    "merged, counts": merged(ints(2, 3)),
    "merged, ends and starts": merged(ints(2, 3, 1, 0)),
    "merged, keys": merged(mask(2, 7), past=4, unidirectional=1, mask_filter_value=-7.0),
    "merged, one for all keys": merged(ints([0], [1])),
    "merged, queries and keys": merged(mask(2, 3, 3)),
    "merged, all keys left out": merged(np.zeros((2, 3), np.int32)),
    "merged, bias": merged(mask(2, 3), bias=noise(1, HEADS, 3, 3)),
    "merged, wide values": merged(width=12, qkv_hidden_sizes=[HIDDEN, HIDDEN, 12]),
}


def multi(
    *others: np.ndarray | None, length: int = 5, width: int = HIDDEN, outputs: int = 1, past: int = 0, **attributes: Any
) -> Call:
    """A MultiHeadAttention of three queries; `others` are bias, mask, and what is added to the scores."""
    caches = [noise(2, HEADS, past, SIZE), noise(2, HEADS, past, SIZE)] if past else []
    padded = [*others, *[None] * (3 - len(others))]
    inputs = [noise(2, 3, HIDDEN), noise(2, length, HIDDEN), noise(2, length, width), *padded, *caches]
    names = tuple(f"y{k}" for k in range(outputs))
    return Call("MultiHeadAttention", inputs, {"num_heads": HEADS, **attributes}, names)


MULTI = {
    "multi": multi(width=12),
    "multi, bias": multi(noise(2 * HIDDEN + 12), width=12, scale=0.5),
    "multi, counts": multi(None, ints(3, 5), outputs=4),
    "multi, counts and more": multi(None, ints(3, 5, 0, 3, 6, 0, 5, 10)),
    "multi, keys": multi(None, mask(2, 5), noise(1, 1, 3, 5), mask_filter_value=-9.0, outputs=4),
    "multi, queries and keys": multi(None, mask(2, 3, 5), noise(2, HEADS, 3, 5)),
    "multi, cache": multi(None, mask(2, 7), length=3, past=4, unidirectional=1, outputs=4),
    "multi, cache as keys": Call(
        "MultiHeadAttention",
        [noise(2, 3, HIDDEN), noise(2, HEADS, 4, SIZE), noise(2, HEADS, 4, SIZE)],
        {"num_heads": HEADS},
    ),
}


def decoder(past: int, *others: np.ndarray | None, bias: np.ndarray | None = None) -> Call:
    """One token for a cache of six of which `past` are in use; `others` are the mask, and what is added to scores."""
    token, caches = [noise(2, 1, HIDDEN) for _ in range(3)], [noise(2, HEADS, 6, SIZE) for _ in range(2)]
    padded = [*others, *[None] * (2 - len(others))]
    inputs = [*token, *padded, *caches, ints(past), None, None, bias]
    attributes = {"num_heads": HEADS, "past_present_share_buffer": 1, "output_qk": 1}
    return Call("DecoderMaskedMultiHeadAttention", inputs, attributes, ("y0", "y1", "y2", "y3"))


def beamed(
    op_type: str, width: int, past: int, mask: np.ndarray | None = None, *, each: bool = False, length: int = 1
) -> Call:
    """Tokens of two prompts with so many beams each, whose words before come from beams that are named."""
    count = 2 * width
    token, caches = [noise(count, length, HIDDEN) for _ in range(3)], [noise(count, HEADS, 6, SIZE) for _ in range(2)]
    beams = np.random.default_rng(past).integers(0, width, (2, width, 6)).astype(np.int32)
    bias, added = noise(3 * HIDDEN), noise(count if each else 1, HEADS, length, past + length)
    if op_type == "MultiHeadAttention":
        inputs, attributes = [*token, bias, mask, added, *caches, ints(past), beams], {}
    else:
        inputs = [*token, mask, added, *caches, ints(past), ints(width), beams, bias]
        attributes = {"past_present_share_buffer": 1, "output_qk": 1}
    return Call(op_type, inputs, {"num_heads": HEADS, **attributes}, ("y0", "y1", "y2", "y3"))


BEAMED = {
    f"{name}, {case}": beamed(op_type, *arguments, **more)
    for name, op_type in (("decoder", "DecoderMaskedMultiHeadAttention"), ("multi", "MultiHeadAttention"))
    for case, arguments, more in [
        ("beams", (3, 4), {}),
        ("beams, nothing yet", (2, 0), {}),
        ("beams, mask", (2, 3, ints([1, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 1], [0, 1, 1, 0])), {}),
        ("beams, bias for each", (2, 5), {"each": True}),
        ("one beam", (1, 3), {}),
    ]
}
BEAMED["multi, beams, several tokens"] = beamed("MultiHeadAttention", 2, 3, length=2)


DECODER = {
    "decoder, nothing yet": decoder(0),
    "decoder, mask and bias": decoder(
        3, ints([1, 0, 1, 1], [1, 1, 0, 1]), noise(1, HEADS, 1, 4), bias=noise(3 * HIDDEN)
    ),
    "decoder, full": decoder(5),
    "decoder, cache as keys": Call(
        "DecoderMaskedMultiHeadAttention",
        [noise(2, 1, HIDDEN), noise(2, HEADS, 4, SIZE), noise(2, HEADS, 4, SIZE), mask(2, 4)],
        {"num_heads": HEADS},
    ),
}


def grouped(
    batch: int,
    length: int,
    cache: int | None,
    totals: list[int],
    *others: np.ndarray | None,
    packed: bool = False,
    dtype: type[np.floating] = np.float32,
    **attributes: Any,
) -> Call:
    """A GroupQueryAttention of four heads in two groups; `others` are positions, what is added to scores, sinks."""
    widths = [64, 32, 32]
    tokens: list[np.ndarray | None] = [noise(batch, length, width, dtype=dtype) for width in widths]
    if packed:
        tokens = [np.concatenate([x for x in tokens if x is not None], 2), None, None]
    caches = [None if cache is None else noise(batch, 2, cache, 16, dtype=dtype) for _ in range(2)]
    tables = [noise(20, 8, dtype=dtype) if attributes.get("do_rotary") else None for _ in range(2)]
    counts = [np.array(totals, np.int32) - 1, np.array(max(totals), np.int32)]
    inputs = [*tokens, *caches, *counts, *tables, *others]
    names = tuple(f"y{k}" for k in range(4 if attributes.get("qk_output") else 3))
    return Call("GroupQueryAttention", inputs, {"num_heads": 4, "kv_num_heads": 2, **attributes}, names)


GROUPED = {
    "prompt": grouped(2, 3, None, [3, 3], do_rotary=1),
    "prompt, empty cache": grouped(1, 4, 0, [4], do_rotary=1, rotary_interleaved=1),
    "prompt, room in the cache": grouped(1, 4, 9, [4], do_rotary=1),
    "prompt, first position": grouped(2, 3, 0, [3, 3], np.array([[4, 6, 9], [8, 1, 2]]), do_rotary=1),
    "prompt, packed": grouped(2, 3, None, [3, 3], packed=True, do_rotary=1),
    "prompt, half": grouped(2, 3, None, [3, 3], packed=True, do_rotary=1, dtype=np.float16),
    "prompt, window": grouped(1, 6, 0, [6], local_window_size=2, qk_output=1),
    "prompt, both ways": grouped(2, 4, None, [4, 3], causal=0),
    "prompt, smooth": grouped(1, 4, None, [4], smooth_softmax=1, softcap=1.5, scale=0.3, qk_output=2),
    "prompt, bias and sinks": grouped(1, 4, None, [4], None, noise(1, 4, 4, 4), noise(4), softcap=1.5, qk_output=1),
    "token": grouped(1, 1, 5, [6], do_rotary=1, qk_output=2),
    "token, position": grouped(1, 1, 5, [6], np.array([[3]]), do_rotary=1),
    "token, room in the cache": grouped(1, 1, 9, [6], do_rotary=1, local_window_size=3),
    "tokens": grouped(1, 4, 5, [9], np.array([[7, 3, 9, 2]]), do_rotary=1),
    "tokens, part of the cache": grouped(1, 4, 12, [9], do_rotary=1, softcap=1.5),
    "batch": grouped(2, 1, 5, [6, 4], do_rotary=1),
    "batch, positions": grouped(2, 1, 5, [6, 4], np.array([[9], [2]]), do_rotary=1, local_window_size=2),
    "batch, room in the cache": grouped(2, 1, 9, [6, 4], do_rotary=1),
}


def quantized(bits: int, kind: str, batch: int, length: int, cache: int, totals: list[int], **attributes: Any) -> Call:
    """A GroupQueryAttention whose cache is of integers, with scales of the whole of it, or of its channels."""
    call = grouped(batch, length, cache, totals, **attributes)
    whole = {8: np.int8, 4: np.uint8}[bits]
    low, high = np.iinfo(whole).min, np.iinfo(whole).max
    call.inputs[3:5] = [RNG.integers(low, high + 1, (batch, 2, cache, 2 * bits)).astype(whole) for _ in "kv"]
    shape = (1,) if kind == "PER_TENSOR" else (1, 2, 1, 16)
    scales = [(RNG.uniform(0.02, 0.03, shape) * (1 if bits == 8 else 16)).astype(np.float32) for _ in "kv"]
    call.inputs += [None] * (12 - len(call.inputs)) + scales
    call.attributes |= {"kv_cache_bit_width": bits, "k_quant_type": kind, "v_quant_type": kind}
    return call


def with_bits(call: Call, bits: int) -> Call:
    call.attributes["kv_cache_bit_width"] = bits
    return call


QUANTIZED = {
    f"{bits} bits, {kind}, {name}": quantized(bits, kind, *sizes, **attributes)
    for bits in (8, 4)
    for kind in ("PER_TENSOR", "PER_CHANNEL")
    for name, sizes, attributes in (
        ("prompt", (2, 3, 0, [3, 3]), {"do_rotary": 1}),
        ("prompt, half", (1, 4, 0, [4]), {"dtype": np.float16, "packed": True}),
        ("token", (1, 1, 5, [6]), {"local_window_size": 3}),
        ("tokens, room in the cache", (1, 3, 9, [7]), {"do_rotary": 1}),
        ("batch, room in the cache", (2, 1, 9, [6, 4]), {}),
    )
}
CASES = ROTATED | MERGED | MULTI | DECODER | BEAMED | GROUPED | QUANTIZED


@ON_ALL
@pytest.mark.parametrize("name", CASES)
def test_like_onnxruntime(name: str, provider: str) -> None:
    check(CASES[name], provider)


def test_packed_queries_keys_and_values() -> None:
    """Forms that onnxruntime's CPU provider lacks give what their parts give."""
    parts = [noise(2, 5, HIDDEN) for _ in range(3)]
    (wanted,) = Call("MultiHeadAttention", list(parts), {"num_heads": HEADS}).run("eager")
    by_head = [x.reshape(2, 5, HEADS, 1, SIZE) for x in parts]
    for inputs in (
        [np.concatenate(by_head, 3)],
        [parts[0], np.concatenate(by_head[1:], 3)],
        [np.concatenate(parts, 2)],
    ):
        found = Call("MultiHeadAttention", inputs, {"num_heads": HEADS}).run("eager")
        np.testing.assert_array_equal(found[0], wanted)


@ON_ALL
def test_a_cache_that_is_not_given_back_counts_for_nothing(provider: str) -> None:
    """As on onnxruntime's GPUs; its CPU provider computes what is asked of it without the cache."""
    require_provider(provider)
    cached = multi(length=3, past=4)
    alone = Call("MultiHeadAttention", cached.inputs[:3], cached.attributes)
    assert_near(cached.run(provider), alone.expected(), 1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (grouped(2, 3, 5, [8, 8]), "3 tokens follow a cache in a batch of 2; use one token, or one entry"),
        (grouped(1, 1, 3, [6]), "the cache has 3 tokens, but 5 come before the new ones"),
        (grouped(1, 4, 0, [4], sliding_window_cache=1), "sliding_window_cache is not supported"),
        (grouped(1, 4, 0, [4], k_quant_type="PER_TENSOR"), "k_quant_type 'PER_TENSOR' needs the input k_scale"),
        (grouped(1, 4, 0, [4], v_quant_type="ROW"), "v_quant_type 'ROW' is unknown; use one of NONE, PER_TENSOR, PER"),
        (with_bits(quantized(8, "PER_TENSOR", 1, 1, 0, [1]), 4), "past_key is int8; 4 bits are in uint8"),
        (with_bits(quantized(8, "PER_TENSOR", 1, 1, 0, [1]), 2), "kv_cache_bit_width is 2; use 4 or 8"),
        (merged(do_rotary=1), "do_rotary is not supported; export the model without it"),
        (merged(np.ones((2, 1, 8, 8), np.int32)), "a mask of shape .* is not supported; use one of three axes"),
        (decoder(6), "6 and 1 tokens do not fit into a cache of 6"),
    ],
)
def test_errors(call: Call, message: str) -> None:
    with pytest.raises(errors.SardonyxError, match=message):
        call.run("eager")


def generator() -> onnx.ModelProto:
    """A decoder of one layer, whose lengths come from the attention mask, as exporters write it."""
    nodes = [
        helper.make_node("ReduceSum", ["mask", "one"], ["count"], keepdims=0),
        helper.make_node("Sub", ["count", "one"], ["last"]),
        helper.make_node("Cast", ["last"], ["seqlens"], to=TensorProto.INT32),
        helper.make_node("Shape", ["mask"], ["shape"]),
        helper.make_node("Gather", ["shape", "one"], ["width"]),
        helper.make_node("Cast", ["width"], ["total"], to=TensorProto.INT32),
        helper.make_node(
            "GroupQueryAttention",
            ["qkv", "", "", "past_k", "past_v", "seqlens", "total", "cos", "sin"],
            ["y", "present_k", "present_v"],
            domain="com.microsoft",
            num_heads=4,
            kv_num_heads=2,
            do_rotary=1,
        ),
    ]
    cache = ["batch", 2, "past", 16]
    inputs = [
        helper.make_tensor_value_info("qkv", TensorProto.FLOAT, ["batch", "length", 128]),
        helper.make_tensor_value_info("mask", TensorProto.INT64, ["batch", "total"]),
        helper.make_tensor_value_info("past_k", TensorProto.FLOAT, cache),
        helper.make_tensor_value_info("past_v", TensorProto.FLOAT, cache),
    ]
    angles = np.arange(64)[:, None] / 10000 ** (np.arange(8) / 8)
    held = [
        onnx.numpy_helper.from_array(array, name)
        for name, array in (
            ("one", np.array([1])),
            ("cos", np.cos(angles).astype(np.float32)),
            ("sin", np.sin(angles).astype(np.float32)),
        )
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in ("y", "present_k", "present_v")]
    graph = helper.make_graph(nodes, "generator", inputs, outputs, held)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_growing_cache_needs_no_new_plan(provider: str, batch: int) -> None:
    require_provider(provider)
    data = generator().SerializeToString()
    session = InferenceSession(data, providers=[provider])
    reference = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    feeds = {name: np.zeros((batch, 2, 0, 16), np.float32) for name in ("past_k", "past_v")}
    compiled = []
    for step in range(12):
        length = 1 if step else 4
        feeds |= {"qkv": noise(batch, length, 128), "mask": np.ones((batch, 4 + step), np.int64)}
        found, wanted = session.run(None, feeds), reference.run(None, feeds)
        assert_near(found, wanted, 1e-5)
        feeds |= {"past_k": wanted[1], "past_v": wanted[2]}
        compiled.append(session.compiled)
    assert len(set(compiled[1:])) == 1
