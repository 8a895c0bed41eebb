"""Convolutions and pools."""

from __future__ import annotations

from typing import Any

import numpy as np

from .draw import Draw, draws
from .movement import EXACT, number

SPATIAL = (5, 4, 3, 7, 9, 1)


def window(d: Draw, rank: int, dilated: bool = True) -> tuple[list[int], list[int], dict[str, Any]]:
    """Sizes of the axes, the kernel's shape, and attributes that fit them."""
    kernel = [d.of(2, 1, 3) for _ in range(rank)]
    attributes: dict[str, Any] = {}
    dilations = [1] * rank
    if d.flag():
        attributes["strides"] = [d.of(1, 2, 3) for _ in range(rank)]
    auto = d.of("NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
    if dilated and auto in ("NOTSET", "VALID") and d.flag():
        attributes["dilations"] = dilations = [d.of(1, 2) for _ in range(rank)]
    if auto != "NOTSET":
        attributes["auto_pad"] = auto
    elif d.flag():
        attributes["pads"] = [d.between(0, size - 1) for size in kernel * 2]
    sizes = [max(d.of(*SPATIAL), (k - 1) * step + 1) for k, step in zip(kernel, dilations, strict=True)]
    return sizes, kernel, attributes


def convolution(d: Draw, rank: int) -> tuple[list[int], list[int], dict[str, Any], int]:
    """Shapes of the operand and its weights, attributes, and the number of output channels."""
    sizes, kernel, attributes = window(d, rank)
    groups = d.of(1, 1, 2, 3)
    inside, outside = d.of(1, 2, 3), d.of(1, 2, 4)
    if groups > 1 or d.flag():
        attributes["group"] = groups
    if d.flag():
        attributes["kernel_shape"] = kernel
    batch = d.of(1, 2, 0, 3)
    return [batch, groups * inside, *sizes], [groups * outside, inside, *kernel], attributes, groups * outside


@draws("Conv")
def conv(d: Draw) -> dict[str, Any]:
    dtype = d.dtype("T")
    x, w, attributes, channels = convolution(d, d.of(2, 1, 3))
    bias = d.maybe(d.dyadic((channels,), dtype))
    return {
        "inputs": [d.dyadic(x, dtype), d.dyadic(w, dtype), bias],
        "attributes": attributes,
        "magnitude": 4.0 * np.prod(w[1:]),
        "constant": d.settled(1, 2),
    }


@draws("ConvInteger")
def conv_integer(d: Draw) -> dict[str, Any]:
    types = [d.dtype("T1"), d.dtype("T2")]
    x, w, attributes, _ = convolution(d, d.of(2, 1))
    inputs = [d.values(x, types[0]), d.values(w, types[1])]
    zero, other = (d.maybe(d.values((), dtype, edges=False)) for dtype in types)
    return {"inputs": [*inputs, zero, other], "attributes": attributes, "constant": d.settled(1)}


@draws("QLinearConv")
def qlinear_conv(d: Draw) -> dict[str, Any]:
    types = [d.dtype("T1"), d.dtype("T2")]
    x, w, attributes, channels = convolution(d, d.of(2, 1))
    scales = (channels,) if d.flag() else ()
    inputs: list[Any] = []
    for shape, scale, dtype in ((x, (), types[0]), (w, scales, types[1])):
        zeros = np.zeros(scale, dtype) if scale else d.values(scale, dtype, edges=False)
        inputs += [d.values(shape, dtype), steps(d, scale), zeros]
    bias = d.maybe(d.noise(channels, dtype=np.int32))
    inputs += [steps(d, ()), d.values((), types[0], edges=False), bias]
    return {"inputs": inputs, "attributes": attributes, "steps": 1, "constant": d.settled(1, 2, 3, 4, 5, 6, 7, 8)}


def steps(d: Draw, shape: Any, dtype: Any = np.float32) -> np.ndarray:
    """Scales."""
    return np.asarray(d.rng.uniform(0.05, 1.5, size=shape)).astype(dtype)


@draws("ConvTranspose")
def conv_transpose(d: Draw) -> dict[str, Any]:
    dtype, rank = d.dtype("T"), d.of(2, 1, 3)
    sizes, kernel, attributes = window(d, rank)
    strides = attributes.get("strides", [1] * rank)
    if str(attributes.get("auto_pad")).startswith("SAME"):  # ONNX leaves open how negative padding is split
        kernel = list(map(max, kernel, strides))
    groups, inside, outside = d.of(1, 2, 3), d.of(1, 2, 3), d.of(1, 2, 3)
    if groups > 1:
        attributes["group"] = groups
    if "auto_pad" not in attributes and d.flag():
        attributes["output_padding"] = [d.between(0, stride - 1) for stride in strides]
    sizes = [min(size, 5) for size in sizes]
    x, w = [d.of(1, 2, 3), groups * inside, *sizes], [groups * inside, outside, *kernel]
    bias = d.maybe(d.dyadic((groups * outside,), dtype))
    return {
        "inputs": [d.dyadic(x, dtype), d.dyadic(w, dtype), bias],
        "attributes": attributes,
        "magnitude": 4.0 * np.prod(w[2:]) * inside,
        "constant": d.settled(1, 2),
    }


@draws("DeformConv")
def deform_conv(d: Draw) -> dict[str, Any]:
    dtype = d.dtype("T")
    x, w, attributes, channels = convolution(d, 2)
    x[0] = max(x[0], 1)
    attributes.pop("auto_pad", None)
    strides, dilations = (attributes.get(name, [1, 1]) for name in ("strides", "dilations"))
    pads = attributes.setdefault("pads", [0] * 4)
    outputs = [
        (size + pads[k] + pads[k + 2] - (w[2 + k] - 1) * dilations[k] - 1) // strides[k] + 1
        for k, size in enumerate(x[2:])
    ]
    attributes["offset_group"] = shares = d.of(1, x[1])
    places = w[2] * w[3]
    offset = d.noise(x[0], 2 * shares * places, *outputs, dtype=dtype)
    bias = d.maybe(d.dyadic((channels,), dtype))
    mask = d.maybe(d.noise(x[0], shares * places, *outputs, dtype=dtype))
    return {
        "inputs": [d.dyadic(x, dtype), d.dyadic(w, dtype), offset, bias, mask],
        "attributes": attributes,
        "magnitude": 4.0 * np.prod(w[1:]),
    }


@draws("AveragePool", "LpPool", "MaxPool")
def pool(d: Draw) -> dict[str, Any]:
    dtype, rank = d.dtype("T"), d.of(2, 1, 3)
    sizes, kernel, attributes = window(d, rank)
    attributes |= {"kernel_shape": kernel, **d.attributes(ceil_mode=(0, 1))}
    outputs = 1
    if d.name == "AveragePool":
        attributes |= d.attributes(count_include_pad=(0, 1))
    elif d.name == "LpPool":
        attributes |= d.attributes(p=(1, 2, 3))
    else:
        outputs = d.between(1, 2)
        attributes |= d.attributes(storage_order=(0, 1))
    x = d.dyadic((d.of(1, 2, 0), d.of(1, 3), *sizes), dtype)
    if d.name == "MaxPool" and outputs == 2:
        x = d.rng.permutation(x.size).reshape(x.shape).astype(np.int64) % 120
        x = x.astype(dtype)
    return {"inputs": [x], "attributes": attributes, "outputs": outputs, "magnitude": 2.0}


@draws("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool")
def global_pool(d: Draw) -> dict[str, Any]:
    x = d.finite((d.of(1, 2, 0), d.of(1, 3), *d.shape(0, 3, (2, 1, 3, 5))), d.dtype("T"))
    return {
        "inputs": [x],
        "attributes": d.attributes(p=(1, 2, 3)) if d.name == "GlobalLpPool" else {},
        "magnitude": 2.0,
    }


@draws("MaxUnpool")
def max_unpool(d: Draw) -> dict[str, Any]:
    rank = d.of(2, 1)
    kernel = [d.of(2, 1, 3) for _ in range(rank)]
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": kernel}
    shape = (d.of(1, 2), d.of(1, 2), *(d.of(2, 1, 3) for _ in range(rank)))
    whole = (*shape[:2], *(size * k for size, k in zip(shape[2:], kernel, strict=True)))
    places = d.rng.permutation(int(np.prod(whole)))[: int(np.prod(shape))].reshape(shape)
    asked = None
    if d.flag():
        asked = number([*shape[:2], *(size + d.between(0, 2) for size in whole[2:])])
    x = d.values(shape, d.dtype("T1"))
    return {"inputs": [x, number(places), asked], "attributes": attributes, "constant": d.settled(2), **EXACT}


@draws("Col2Im")
def col2im(d: Draw) -> dict[str, Any]:
    sizes, kernel, attributes = window(d, d.of(2, 1, 3))
    rank = len(sizes)
    attributes.pop("auto_pad", None)
    strides, dilations = (attributes.get(name, [1] * rank) for name in ("strides", "dilations"))
    pads = attributes.get("pads", [0] * 2 * rank)
    blocks = [
        (size + pads[k] + pads[k + rank] - (kernel[k] - 1) * dilations[k] - 1) // strides[k] + 1
        for k, size in enumerate(sizes)
    ]
    n, c = d.of(1, 2), d.of(1, 2)
    x = d.dyadic((n, c * int(np.prod(kernel)), int(np.prod(blocks))), d.dtype("T", "str", "object", "bool", "complex"))
    inputs = [x, number(sizes), number(kernel)]
    return {"inputs": inputs, "attributes": attributes, "constant": d.settled(1, 2), "magnitude": 2.0}


@draws("MaxRoiPool")
def max_roi_pool(d: Draw) -> dict[str, Any]:
    dtype, n = d.dtype("T"), d.of(1, 2)
    x = d.noise(n, d.of(1, 2), d.of(5, 3, 8), d.of(5, 4, 7), dtype=dtype)
    count = d.between(0, 3)
    corners = np.sort(d.rng.integers(0, 9, size=(count, 2, 2)), axis=1)
    rois = np.concatenate([d.rng.integers(0, n, size=(count, 1)), corners.reshape(count, 4)], 1).astype(dtype)
    attributes = {"pooled_shape": [d.of(2, 1, 3), d.of(2, 1, 3)], **d.attributes(spatial_scale=(1.0, 0.5))}
    return {"inputs": [x, rois], "attributes": attributes}


@draws("RoiAlign")
def roi_align(d: Draw) -> dict[str, Any]:
    dtype, n = d.dtype("T1"), d.of(1, 2)
    x = d.noise(n, d.of(1, 2), d.of(5, 3, 8), d.of(5, 4, 7), dtype=dtype)
    count = d.between(0, 3)
    rois = (np.sort(d.rng.integers(-4, 30, size=(count, 2, 2)), axis=1).reshape(count, 4) / 4).astype(dtype)
    attributes = d.attributes(
        coordinate_transformation_mode=("half_pixel", "output_half_pixel"),
        mode=("avg", "max"),
        output_height=(1, 2, 3),
        output_width=(1, 2, 3),
        sampling_ratio=(0, 1, 2),
        spatial_scale=(1.0, 0.5),
    )
    return {"inputs": [x, rois, number(d.rng.integers(0, n, size=count))], "attributes": attributes, "magnitude": 1.0}


@draws("CausalConvWithState")
def causal_conv(d: Draw) -> dict[str, Any]:
    dtype = d.dtype("T")
    n, c, length, k = d.of(1, 2), d.of(1, 2, 3), d.of(4, 1, 2, 7), d.of(3, 1, 2, 4)
    x, w = d.noise(n, c, length, dtype=dtype), d.noise(c, 1, k, dtype=dtype)
    bias, past = d.maybe(d.noise(c, dtype=dtype)), d.maybe(d.noise(n, c, k - 1, dtype=dtype))
    attributes = d.attributes(activation=("none", "silu", "swish"))
    return {"inputs": [x, w, bias, past], "attributes": attributes, "outputs": 2, "magnitude": 4.0}
