"""Attention to blocks of keys, as onnxruntime has it, whose cache is written in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest

from sardonyx import errors
from tests.engine.providers import require_provider

from .microsoft import ON_ALL, Call
from .test_samples import assert_near

RNG = np.random.default_rng(0)
BLOCK, CACHE, HEADS, SHARED, SIZE = 16, 80, 4, 2, 16
LAYOUTS = np.array(
    [
        [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 1, 1, 1, 0], [1, 0, 0, 0, 1]],
        [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 0, 1, 1, 0], [1, 1, 1, 1, 1]],
    ]
)


def noise(*shape: int, dtype: type[np.floating] = np.float32) -> np.ndarray:
    return RNG.normal(size=shape).astype(dtype)


def sparse(layouts: np.ndarray) -> list[np.ndarray]:
    """Where rows begin, and columns, -1 behind the last one."""
    columns = [np.nonzero(layout)[1] for layout in layouts]
    most = max(map(len, columns))
    begins = [[0, *np.cumsum(layout.sum(1))] for layout in layouts]
    filled = [[*line, *[-1] * (most - len(line))] for line in columns]
    return [np.array(begins, np.int32), np.array(filled, np.int32)]


def call(
    length: int,
    totals: list[int],
    packed: bool = False,
    layouts: np.ndarray = LAYOUTS,
    dtype: type[np.floating] = np.float32,
    **attributes: Any,
) -> Call:
    batch = len(totals)
    tokens: list[np.ndarray | None] = [
        noise(batch, length, count * SIZE, dtype=dtype) for count in (HEADS, SHARED, SHARED)
    ]
    if packed:
        tokens = [np.concatenate([x for x in tokens if x is not None], 2), None, None]
    caches = [noise(batch, SHARED, CACHE, SIZE, dtype=dtype) for _ in range(2)]
    tables = [noise(CACHE, SIZE // 2, dtype=dtype) if attributes.get("do_rotary") else None for _ in range(2)]
    counts = [np.array([max(totals)], np.int32), np.array(totals, np.int32)]
    known = {"num_heads": HEADS, "kv_num_heads": SHARED, "sparse_block_size": BLOCK, **attributes}
    return Call("SparseAttention", [*tokens, *caches, *sparse(layouts), *counts, *tables], known, ("y0", "y1", "y2"))


def expected(made: Call) -> list[np.ndarray]:
    """What onnxruntime gives for each entry of the batch alone: where they differ in length, it mixes them up."""
    single = []
    for k, count in enumerate(made.inputs[8] if made.inputs[8] is not None else ()):
        by_entry = [x if x is None or x.ndim < 3 else x[k : k + 1] for x in made.inputs]
        by_entry[7:9] = np.array([count]), np.array([count])
        single.append(expected_one(Call(made.op_type, by_entry, made.attributes, made.outputs)))
    return [np.concatenate(parts) for parts in zip(*single, strict=True)]


def expected_one(made: Call) -> list[np.ndarray]:
    """What onnxruntime gives, which wants the caches that come and go to be the same memory."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    data = made.model().SerializeToString()
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(x.copy()) for name, x in made.feeds.items()}
    binding = session.io_binding()
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    binding.bind_output("y0")
    binding.bind_ortvalue_output("y1", values["x3"])
    binding.bind_ortvalue_output("y2", values["x4"])
    session.run_with_iobinding(binding)
    return [value.numpy().copy() for value in binding.get_outputs()]


CASES = {
    "prompt": call(70, [70, 70]),
    "prompt, packed": call(33, [33], packed=True, do_rotary=1),
    "prompt, one layout": call(40, [40], layouts=LAYOUTS[:1], scale=0.4),
    "prompt, all blocks": call(20, [20], layouts=np.tril(np.ones((1, 5, 5), int))),
    "token": call(1, [70], do_rotary=1, rotary_interleaved=1),
    "tokens of a batch": call(1, [36, 50], packed=True, do_rotary=1),
    "tokens": call(5, [36, 70], do_rotary=1),
    "half": call(1, [36, 50], dtype=np.float16),
}


@ON_ALL
@pytest.mark.parametrize("name", CASES)
def test_like_onnxruntime(name: str, provider: str) -> None:
    require_provider(provider)
    made = CASES[name]
    assert_near(made.run(provider), expected(made), 2e-3 if name == "half" else 1e-5)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (call(1, [81]), "81 tokens are more than the 80 of the blocks"),
        (call(1, [40], layouts=np.ones((3, 5, 5), int)), "3 layouts cannot be taken in turn by 4 heads"),
        (Call("SparseAttention", call(1, [40]).inputs, call(1, [4], do_rotary=1).attributes), "needs cos_cache"),
    ],
)
def test_errors(made: Call, message: str) -> None:
    with pytest.raises(errors.SardonyxError, match=message):
        made.run("eager")
