"""Inputs of sizes that the list does not have."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from tests.models.catalogue import MODELS, path
from tests.models.chat import remembered
from tests.models.feeds import KINDS, inputs

from .sizes import Sizes

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
Rng = np.random.Generator
DRAWN = {"normal", "uniform", "integers", "bernoulli"}
"""Kinds of inputs that are drawn anew for any shape."""
WORDS = (1_000, 49_000)
"""Tokens that are no line ends or marks, whose activations are so large that half precision says little."""


def feeds_of(id: str, sizes: Sizes, rng: Rng) -> dict[str, Array]:
    """Return feeds of a model for these sizes, contiguous and of its dtypes."""
    feeds = {}
    for name, dims in _shapes(id).items():
        shape = tuple(sizes[dim] if isinstance(dim, str) else dim for dim in dims)
        dtype, _, kind, *arguments = MODELS[id].inputs[name]
        if name in FITTING:
            value = FITTING[name](rng, shape, sizes)
        elif name.startswith("past_key_values"):
            value = _past(rng, name, shape)
        elif kind == "prompt":
            value = rng.integers(*WORDS, shape)
        elif kind in DRAWN:
            value = KINDS[kind](rng, shape, *arguments)
        else:
            value = _chosen(rng, inputs(id)[name], shape)
        feeds[name] = np.ascontiguousarray(value, dtype).reshape(shape)
    return feeds


@cache
def _shapes(id: str) -> dict[str, list[int | str]]:
    """The inputs of a model, and their sizes, of which those that are open have names."""
    graph = onnx.load(path(id), load_external_data=False).graph
    return {
        one.name: [_size(dim, f"{one.name}.shape[{axis}]") for axis, dim in enumerate(one.type.tensor_type.shape.dim)]
        for one in graph.input
        if one.name in MODELS[id].inputs
    }


def _size(dim: onnx.TensorShapeProto.Dimension, nameless: str) -> int | str:
    if dim.dim_param not in ("", "?"):
        return str(dim.dim_param)
    return int(dim.dim_value) if dim.dim_value > 0 else nameless


def _chosen(rng: Rng, listed: Array, shape: Shape) -> Array:
    """Elements of the listed input, or the only one that it has; of a table, whose columns differ, whole rows."""
    if listed.ndim == len(shape) == 2 and listed.shape[1] == shape[1] and len(listed) > 1:
        return listed[rng.integers(len(listed), size=shape[0])]
    return rng.choice(listed.ravel(), shape)


def _positions(rng: Rng, shape: Shape, sizes: Sizes) -> Array:
    """Those of S tokens after P."""
    return np.broadcast_to(np.arange(sizes["P"], sizes["P"] + sizes["S"]), shape)


def _lengths(rng: Rng, shape: Shape, sizes: Sizes) -> Array:
    """Of sounds of at most N samples: the first is the longest."""
    lengths = rng.integers(sizes["N"] * 3 // 4, sizes["N"] + 1, shape)
    lengths[:1] = sizes["N"]
    return lengths


def _atoms(rng: Rng, shape: Shape, sizes: Sizes) -> Array:
    return rng.integers(0, max(sizes["num_atoms"], 1), shape)


def _rate(rng: Rng, shape: Shape, sizes: Sizes) -> Array:
    """What a window of so many samples is for."""
    return np.array(16_000 if sizes["input.shape[1]"] == 576 else 8_000)


def _past(rng: Rng, name: str, shape: Shape) -> Array:
    """Keys or values of tokens of the chat, the first of which all others attend to: noise would magnify roundings."""
    known: Array = remembered()[name][0]
    chosen = rng.integers(known.shape[1], size=(shape[0], shape[2]))
    chosen[:, :1] = 0
    return np.moveaxis(known[:, chosen], 1, 0)


FITTING: dict[str, Callable[[Rng, Shape, Sizes], Array]] = {
    **dict.fromkeys(["edge_index", "target_indices"], _atoms),
    "position_ids": _positions,
    "waveforms_lens": _lengths,
    "sr": _rate,
}
"""Inputs whose elements depend on sizes, or on other inputs, by name."""
