"""Attention in float64, and operands for it."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tests.support.numbers import random

Numbers = np.ndarray[Any, Any]
NEVER = float("-inf")


def reference(q: Numbers, k: Numbers, v: Numbers, bias: Any = None, causal: int | None = None) -> Numbers:
    """softmax(q @ k' + bias) @ v; query i sees keys up to i + causal. What sees none gives zeros."""
    q, k, v = q.astype(float), *(np.repeat(x, q.shape[1] // x.shape[1], 1).astype(float) for x in (k, v))
    scores = q @ k.swapaxes(2, 3) + (0 if bias is None else bias)
    if causal is not None:
        scores[..., np.arange(k.shape[2]) > np.arange(q.shape[2])[:, None] + causal] = NEVER
    peak = scores.max(3, keepdims=True, initial=NEVER)
    powers = np.exp(scores - np.where(np.isneginf(peak), 0, peak))
    total = powers.sum(3, keepdims=True)
    return powers @ v / np.where(total == 0, 1, total)  # type: ignore[no-any-return]


def operands(sizes: tuple[int, ...], dtype: str = "f4") -> list[Numbers]:
    """q, k and v of sizes B, H, G, S, T, D, E."""
    batch, heads, groups, length, keys, depth, width = sizes
    shapes = (batch, heads, length, depth), (batch, groups, keys, depth), (batch, groups, keys, width)
    return [random(*shape, dtype=dtype) for shape in shapes]


def model(past: bool, mask: str) -> bytes:
    """Attention of 4 heads of queries "q" to 2 of keys "k" and values "v" of any sizes, with caches "pk" and "pv" and a
    mask "m" if these are asked for; causal without one."""

    def value(name: str, *shape: Any, dtype: int = TensorProto.FLOAT) -> Any:
        return helper.make_tensor_value_info(name, dtype, shape)

    inputs = [value("q", "b", 4, "s", 16), value("k", "b", 2, "t", 16), value("v", "b", 2, "t", 32)]
    names = ["q", "k", "v", ""]
    outputs = [value("y", "b", 4, "s", 32)]
    if mask:
        inputs.append(value("m", "b", 1, "s", "all", dtype=TensorProto.BOOL if mask == "bool" else TensorProto.FLOAT))
        names[3] = "m"
    if past:
        inputs += [value("pk", "b", 2, "p", 16), value("pv", "b", 2, "p", 32)]
        names += ["pk", "pv"]
    given = ["y", "ok", "ov"] if past else ["y"]
    outputs += [value("ok", "b", 2, "all", 16), value("ov", "b", 2, "all", 32)] if past else []
    node = helper.make_node("Attention", names, given, is_causal=int(not mask))
    graph = helper.make_graph([node], "attention", inputs, outputs)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    return made.SerializeToString()  # type: ignore[no-any-return]
