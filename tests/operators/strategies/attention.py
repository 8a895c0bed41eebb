"""Attention and what comes with it."""

from __future__ import annotations

from typing import Any

import numpy as np

from .draw import Draw, draws


@draws("Attention")
def attention(d: Draw) -> dict[str, Any]:
    dtype = d.dtype("T1")
    heads = d.of(1, 2, 3)
    groups = d.of(1, 2) if d.flag() else 1
    batch, queries, keys, size = d.of(1, 2), d.of(3, 1, 4), d.of(3, 1, 5), d.of(4, 2, 1)
    wide = d.of(size, 3)
    flat = d.flag()
    attributes: dict[str, Any] = d.attributes(
        is_causal=(0, 1), scale=(0.5, 1.0), softcap=(0.0, 2.0), qk_matmul_output_mode=(0, 1, 2, 3)
    )

    def heads_of(count: int, length: int, width: int) -> np.ndarray:
        return d.noise(batch, count, length, width, dtype=dtype)

    def given(x: np.ndarray) -> np.ndarray:
        return x.transpose(0, 2, 1, 3).reshape(batch, x.shape[2], -1) if flat else x

    if flat:
        attributes |= {"q_num_heads": heads * groups, "kv_num_heads": heads}
    past = d.between(1, 3) if d.flag() else 0
    total = past + keys
    inputs: list[Any] = [
        given(heads_of(heads * groups, queries, size)),
        given(heads_of(heads, keys, size)),
        given(heads_of(heads, keys, wide)),
    ]
    if d.flag():
        shape = d.part((batch, heads * groups, queries, total)) if d.flag() else (queries, total)
        shape = (*shape, total)[: len(shape)] if len(shape) > 1 else (queries, total)
        shape = (*shape[:-1], total)
        kept = d.rng.random(shape) < 0.8
        kept[..., 0] = True
        inputs.append(kept if d.flag() else (d.noise(*shape) * kept).astype(dtype))
    else:
        inputs.append(None)
    if past:
        inputs += [heads_of(heads, past, size), heads_of(heads, past, wide)]
    outputs = 1 if not past and d.flag() else d.between(3, 4)
    return {"inputs": inputs, "attributes": attributes, "outputs": outputs, "magnitude": 1.0}


@draws("RotaryEmbedding")
def rotary(d: Draw) -> dict[str, Any]:
    dtype = d.dtype("T")
    batch, heads, length, half = d.of(1, 2), d.of(2, 1, 3), d.of(3, 1, 5), d.of(2, 1, 4)
    size = 2 * half
    rotated = d.of(0, 2 * d.between(1, half))
    flat = d.flag()
    shape = (batch, length, heads * size) if flat else (batch, heads, length, size)
    attributes = {**d.attributes(interleaved=(0, 1)), "rotary_embedding_dim": rotated}
    if flat:
        attributes["num_heads"] = heads
    width = (rotated or size) // 2
    indexed = d.flag()
    cache = (8, width) if indexed else (batch, length, width)
    places = d.rng.integers(0, 8, size=(batch, length)) if indexed else None
    inputs = [d.noise(*shape, dtype=dtype), d.noise(*cache, dtype=dtype), d.noise(*cache, dtype=dtype), places]
    return {"inputs": inputs, "attributes": attributes, "magnitude": 4.0}


@draws("LinearAttention")
def linear(d: Draw) -> dict[str, Any]:
    dtype = d.dtype("T")
    heads, groups = d.of(1, 2), d.of(1, 2)
    batch, length, size, wide = d.of(1, 2), d.of(3, 1, 5), d.of(2, 1, 4), d.of(2, 3)
    rule = d.of("linear", "gated", "delta", "gated_delta")

    def noise(*shape: int) -> np.ndarray:
        return (d.rng.normal(size=shape) * 0.5).astype(dtype)

    past = d.maybe(noise(batch, heads, size, wide))
    decay = -np.abs(noise(batch, length, heads * d.of(1, size))) if "gated" in rule else None
    beta = np.abs(noise(batch, length, heads)) if "delta" in rule else None
    inputs = [noise(batch, length, heads * groups * size), noise(batch, length, heads * size)]
    inputs.append(noise(batch, length, heads * wide))
    attributes = {
        "q_num_heads": heads * groups,
        "kv_num_heads": heads,
        "update_rule": rule,
        **d.attributes(scale=(0.5,)),
    }
    return {
        "inputs": [*inputs, past, decay, beta],
        "attributes": attributes,
        "outputs": 2,
        "magnitude": 1.0,
        "like": {1: 0 if past is None else 3},
    }


@draws("SwiGLU")
def swiglu(d: Draw) -> dict[str, Any]:
    dtype, shape = d.dtype("T"), d.shape(0, 4)
    inputs = [d.values(shape, dtype, edges=False), d.values(shape, dtype, edges=False)]
    return {"inputs": inputs, "attributes": d.attributes(alpha=(1.0, 0.5, 1.702))}
