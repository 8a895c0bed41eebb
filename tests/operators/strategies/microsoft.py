"""onnxruntime's own operators on tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.saturation import exact

from .draw import SIZES, Draw, draws
from .movement import number
from .windows import convolution, window

MS = "com.microsoft"
FLOATS = (np.float32, np.float16)
BYTES = (np.uint8, np.int8)
SPATIAL = (4, 3, 5, 2, 7)


def scale(d: Draw, *shape: int) -> np.ndarray:
    return np.asarray(d.rng.uniform(0.02, 0.3, size=shape)).astype(np.float32)


def code(d: Draw, shape: Any, dtype: Any) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.asarray(d.rng.integers(limits.min, limits.max + 1, size=tuple(shape))).astype(dtype)


def quantized(d: Draw, shape: Any, dtype: Any) -> list[np.ndarray | None]:
    """A tensor of bytes, its scale and its zero point."""
    return [code(d, shape, dtype), scale(d), code(d, (), dtype)]


@draws("Gelu", "FastGelu", "QuickGelu", "BiasGelu", domain=MS)
def gelu(d: Draw) -> dict[str, Any]:
    x = d.values((*d.shape(0, 2), d.of(4, 1, 8, 5)), np.float32, edges=False)
    bias = d.noise(x.shape[-1])
    if d.name == "BiasGelu":
        largest = float(np.abs(x + bias).max(initial=0))  # its half is added to nearly as much below 0
        return {"inputs": [x, bias], "magnitude": largest / 2}
    if d.name == "FastGelu":
        return {"inputs": [x, d.maybe(bias)]}
    return {"inputs": [x], "attributes": d.attributes(alpha=(1.702, 1.0)) if d.name == "QuickGelu" else {}}


@draws("CDist", domain=MS)
def cdist(d: Draw) -> dict[str, Any]:
    dtype, width = d.of(np.float32, np.float64), d.of(3, 1, 5)
    inputs = [d.noise(d.of(*SIZES), width, dtype=dtype) for _ in range(2)]
    return {"inputs": inputs, "attributes": {"metric": d.of("sqeuclidean", "euclidean")}, "magnitude": 20.0}


@draws("ConvTransposeWithDynamicPads", domain=MS)
def dynamic_pads(d: Draw) -> dict[str, Any]:
    rank = d.of(2, 1)
    sizes, kernel, attributes = window(d, rank)
    attributes.pop("auto_pad", None)
    pads = attributes.pop("pads", [0] * 2 * rank)
    groups, inside, outside = d.of(1, 2), d.of(1, 2), d.of(1, 2)
    x = d.dyadic((d.of(1, 2), groups * inside, *sizes), np.float32)
    w = d.dyadic((groups * inside, outside, *kernel), np.float32)
    bias = d.maybe(d.dyadic((groups * outside,), np.float32))
    return {"inputs": [x, w, number(pads), bias], "attributes": {"group": groups, **attributes}, "magnitude": 8.0}


@draws("CropAndResize", domain=MS)
def crop(d: Draw) -> dict[str, Any]:
    n, count = d.of(1, 2), d.of(2, 1, 3)
    x = d.noise(n, d.of(1, 2), d.of(*SPATIAL), d.of(*SPATIAL))
    boxes = d.rng.uniform(-0.2, 1.2, size=(count, 4)).astype(np.float32)
    batches = d.rng.integers(0, n, size=count).astype(np.int32)
    size = np.array([d.of(2, 1, 4), d.of(3, 1, 5)], np.int32)
    attributes = d.attributes(mode=("bilinear", "nearest"), extrapolation_value=(0.0, 7.0))
    return {"inputs": [x, boxes, batches, size], "attributes": attributes, "magnitude": 2.0, "tolerance": 1e-4}


@draws("ExpandDims", domain=MS)
def expand_dims(d: Draw) -> dict[str, Any]:
    x = d.values(d.shape(0, 3), d.of(np.float32, np.int64, bool, object))
    return {"inputs": [x, np.asarray(d.between(-x.ndim - 1, x.ndim), np.int32)], "constant": d.settled(1)}


@draws("FusedMatMul", "TransposeMatMul", domain=MS)
def fused_matmul(d: Draw) -> dict[str, Any]:
    m, k, n = (d.of(*SIZES, 9) for _ in range(3))
    outer = d.broadcast(2, 2)
    attributes = d.attributes(transA=(0, 1), transB=(0, 1), alpha=(1.0, 0.5))
    one = (*outer[0], *((k, m) if attributes.get("transA") else (m, k)))
    two = (*outer[1], *((n, k) if attributes.get("transB") else (k, n)))
    return {
        "inputs": [d.dyadic(one, np.float32), d.dyadic(two, np.float32)],
        "attributes": attributes,
        "magnitude": 36.0,
    }


ACTIVATIONS = ("Relu", "Tanh", "Sigmoid", "LeakyRelu", "HardSigmoid", "Clip")
PARAMETERS = {"LeakyRelu": [0.1], "HardSigmoid": [0.2, 0.5], "Clip": [-0.5, 2.0]}


@draws("FusedConv", domain=MS)
def fused_conv(d: Draw) -> dict[str, Any]:
    x, w, attributes, channels = convolution(d, d.of(2, 1))
    x[0] = max(x[0], 1)
    attributes["activation"] = kind = d.of(*ACTIVATIONS)
    if kind in PARAMETERS:
        attributes["activation_params"] = PARAMETERS[kind]
    bias = d.maybe(d.dyadic((channels,), np.float32))
    return {
        "inputs": [d.dyadic(x, np.float32), d.dyadic(w, np.float32), bias],
        "attributes": attributes,
        "magnitude": 4.0,
        "constant": d.settled(1, 2),
    }


@draws("FusedGemm", domain=MS)
def fused_gemm(d: Draw) -> dict[str, Any]:
    m, k, n = (d.of(2, 1, 3, 5) for _ in range(3))
    attributes = {**d.attributes(transA=(0, 1), transB=(0, 1)), "activation": d.of("Relu", "Tanh", "Sigmoid")}
    one = (k, m) if attributes.get("transA") else (m, k)
    two = (n, k) if attributes.get("transB") else (k, n)
    c = d.maybe(d.dyadic(d.part((m, n)), np.float32))
    return {
        "inputs": [d.dyadic(one, np.float32), d.dyadic(two, np.float32), c],
        "attributes": attributes,
        "magnitude": 4.0,
    }


@draws("Inverse", domain=MS)
def inverse(d: Draw) -> dict[str, Any]:
    n = d.of(2, 1, 3, 5)
    x = d.noise(*d.shape(0, 2, (2, 1, 3)), n, n) + 6 * np.eye(n)
    return {"inputs": [x.astype(d.of(np.float32, np.float64))], "tolerance": 1e-4}


@draws("MatMulInteger16", domain=MS)
def matmul16(d: Draw) -> dict[str, Any]:
    m, k, n = (d.of(2, 1, 3, 5) for _ in range(3))
    outer = d.broadcast(2, 1)
    return {"inputs": [code(d, (*outer[0], m, k), np.int16), code(d, (*outer[1], k, n), np.int16)]}


@draws("MatMulIntegerToFloat", domain=MS)
def integer_to_float(d: Draw) -> dict[str, Any]:
    m, k, n = (d.of(2, 1, 3, 5) for _ in range(3))
    one, two = d.of(np.uint8, np.int8), d.of(*BYTES)
    columns = (n,) if d.flag() else ()
    zeros = [d.maybe(code(d, (), one)), d.maybe(code(d, columns, two))]
    inputs: list[Any] = [code(d, (m, k), one), exact(code(d, (k, n), two)), scale(d), scale(d, *columns), *zeros]
    inputs.append(d.maybe(d.noise(n)))
    return {"inputs": inputs, "magnitude": 100.0, "constant": d.settled(1, 3, 5, 6)}


@draws("DynamicQuantizeMatMul", domain=MS)
def dynamic_matmul(d: Draw) -> dict[str, Any]:
    m, k, n = d.of(2, 1, 3), d.of(4, 1, 7), d.of(3, 1, 5)
    two = d.of(*BYTES)
    columns = (n,) if d.flag() else ()
    x = d.noise(*d.shape(0, 1, (2, 1)), m, k)
    inputs = [x, exact(code(d, (k, n), two)), scale(d, *columns), d.maybe(code(d, columns, two)), d.maybe(d.noise(n))]
    return {"inputs": inputs, "tolerance": 5e-3, "magnitude": 10.0, "constant": d.settled(1, 2, 3, 4)}


@draws("MatMulNBits", domain=MS)
def nbits(d: Draw) -> dict[str, Any]:
    bits, block = d.of(4, 8, 2), d.of(16, 32)
    k, n = d.of(32, 16, 40, 80), d.of(5, 1, 8)
    blocks = -(-k // block)
    zeros = d.of(None, code(d, (n, -(-blocks * bits // 8)), np.uint8))
    weights = [code(d, (n, blocks, block * bits // 8), np.uint8), d.noise(n, blocks), zeros]
    return {
        "inputs": [d.noise(*d.shape(0, 1, (2, 1)), d.of(1, 3, 9), k), *weights],
        "attributes": {"bits": bits, "block_size": block, "K": k, "N": n},
        "constant": frozenset({1, 2, 3}),
        "magnitude": 100.0,
    }


@draws("NhwcMaxPool", domain=MS)
def nhwc(d: Draw) -> dict[str, Any]:
    sizes, kernel, attributes = window(d, 2)
    attributes |= {"kernel_shape": kernel, **d.attributes(ceil_mode=(0, 1))}
    return {"inputs": [code(d, (d.of(1, 2), *sizes, d.of(1, 3, 16)), d.of(*BYTES))], "attributes": attributes}


@draws("Pad", domain=MS)
def pad(d: Draw) -> dict[str, Any]:
    shape = d.shape(1, 3, (3, 2, 5))
    mode = d.of("constant", "reflect", "edge")
    pads = [d.between(0, 1) for _ in range(2 * len(shape))]
    value = np.float32([1.5]) if mode == "constant" and d.flag() else None
    return {"inputs": [d.noise(*shape), number(pads), value], "attributes": {"mode": mode}, "constant": d.settled(1, 2)}


@draws("QLinearAdd", "QLinearMul", domain=MS)
def qlinear_binary(d: Draw) -> dict[str, Any]:
    dtype = d.of(*BYTES)
    one, two = d.broadcast(2, 3)
    inputs = [*quantized(d, one, dtype), *quantized(d, two, dtype), scale(d), code(d, (), dtype)]
    return {"inputs": inputs, "steps": 1, "constant": d.settled(1, 2, 4, 5, 6, 7)}


@draws("QLinearLeakyRelu", "QLinearSigmoid", domain=MS)
def qlinear_unary(d: Draw) -> dict[str, Any]:
    dtype = d.of(*BYTES)
    attributes = d.attributes(alpha=(0.01, 0.5)) if d.name == "QLinearLeakyRelu" else {}
    inputs = [*quantized(d, d.shape(0, 3), dtype), scale(d), code(d, (), dtype)]
    return {"inputs": inputs, "attributes": attributes, "steps": 1, "constant": d.settled(1, 2, 3, 4)}


@draws("QLinearSoftmax", domain=MS)
def qlinear_softmax(d: Draw) -> dict[str, Any]:
    dtype, shape = d.of(*BYTES), d.shape(1, 3, (3, 2, 1, 5))
    inputs = [code(d, shape, dtype), scale(d), code(d, (), dtype), np.asarray(1 / 255, np.float32), np.zeros((), dtype)]
    if dtype == np.int8:
        inputs[4] = np.full((), -128, dtype)
    attributes = {"axis": d.axis(len(shape)), "opset": 13}
    return {"inputs": inputs, "attributes": attributes, "steps": 1, "constant": frozenset({1, 2, 3, 4})}


@draws("QLinearAveragePool", domain=MS)
def qlinear_pool(d: Draw) -> dict[str, Any]:
    dtype = d.of(*BYTES)
    sizes, kernel, attributes = window(d, d.of(2, 1), dilated=False)
    if "auto_pad" in attributes:  # onnxruntime reads beyond the operand where padding would be negative
        kernel = list(map(max, kernel, attributes.get("strides", [1] * len(kernel))))
        sizes = list(map(max, sizes, kernel))
    attributes |= {"kernel_shape": kernel, **d.attributes(ceil_mode=(0, 1), count_include_pad=(0, 1))}
    x = (d.of(1, 2), d.of(1, 3), *sizes)
    inputs = [*quantized(d, x, dtype), scale(d), code(d, (), dtype)]
    return {"inputs": inputs, "attributes": attributes, "steps": 1, "constant": d.settled(1, 2, 3, 4)}


@draws("QLinearGlobalAveragePool", domain=MS)
def qlinear_global_pool(d: Draw) -> dict[str, Any]:
    dtype = d.of(*BYTES)
    x = (d.of(1, 2), d.of(1, 3), *d.shape(1, 2, (3, 2, 1, 5)))
    inputs = [*quantized(d, x, dtype), scale(d), code(d, (), dtype)]
    return {"inputs": inputs, "steps": 1, "constant": d.settled(1, 2, 3, 4)}


@draws("QLinearConcat", domain=MS)
def qlinear_concat(d: Draw) -> dict[str, Any]:
    dtype, whole = d.of(*BYTES), d.shape(1, 3, (2, 1, 3))
    axis = d.axis(len(whole))
    inputs: list[Any] = [scale(d), code(d, (), dtype)]
    for _ in range(d.between(1, 3)):
        part = list(whole)
        part[axis] = d.of(2, 1, 3)
        inputs += quantized(d, part, dtype)
    held = frozenset(k for k in range(len(inputs)) if k < 2 or k % 3 != 2)
    return {"inputs": inputs, "attributes": {"axis": axis}, "steps": 1, "constant": held}


@draws("QLinearWhere", domain=MS)
def qlinear_where(d: Draw) -> dict[str, Any]:
    dtype = d.of(*BYTES)
    condition, one, two = d.broadcast(3, 3)
    inputs: list[Any] = [d.noise(*condition, dtype=bool)]
    inputs += [*quantized(d, one, dtype), *quantized(d, two, dtype), scale(d), code(d, (), dtype)]
    return {"inputs": inputs, "steps": 1, "constant": frozenset({2, 3, 5, 6, 7, 8})}


@draws("QGemm", domain=MS)
def qgemm(d: Draw) -> dict[str, Any]:
    dtype = d.of(*BYTES)
    m, k, n = (d.of(2, 1, 3, 5) for _ in range(3))
    attributes = d.attributes(transA=(0, 1), transB=(0, 1), alpha=(1.0, 0.5))
    one = (k, m) if attributes.get("transA") else (m, k)
    two = (n, k) if attributes.get("transB") else (k, n)
    inputs: list[Any] = [*quantized(d, one, dtype), *quantized(d, two, dtype)]
    inputs[3] = exact(inputs[3])
    inputs += [d.maybe(code(d, (n,), np.int16).astype(np.int32)), scale(d), code(d, (), dtype)]
    return {"inputs": inputs, "attributes": attributes, "steps": 1, "constant": frozenset({1, 2, 3, 4, 5, 6, 7, 8})}


@draws("Range", domain=MS)
def ranges(d: Draw) -> dict[str, Any]:
    dtype = d.of(np.float32, np.int64, np.int32, np.int16, np.float64)
    numbers = [np.asarray(d.of(0, 5, -3), dtype), np.asarray(d.of(4, 0, 9), dtype), np.asarray(d.of(1, 2, -1), dtype)]
    return {"inputs": numbers[: d.of(3, 2)], "constant": d.settled(0, 1, 2)}


@draws("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=MS)
def skip(d: Draw) -> dict[str, Any]:
    dtype = d.of(*FLOATS)
    batch, length, width = d.of(1, 2), d.of(3, 1, 2), d.of(8, 4, 5)
    other = d.of((batch, length, width), (1, length, width), (length, width))
    inputs: list[Any] = [d.noise(batch, length, width, dtype=dtype), d.noise(*other, dtype=dtype)]
    inputs.append(d.noise(width, dtype=dtype))
    if d.name == "SkipLayerNormalization":
        inputs.append(d.maybe(d.noise(width, dtype=dtype)))
    inputs.append(d.maybe(d.noise(width, dtype=dtype)))
    return {"inputs": inputs, "attributes": d.attributes(epsilon=(1e-5, 0.1)), "magnitude": 2.0, "tolerance": 1e-4}


@draws("Trilu", domain=MS)
def trilu(d: Draw) -> dict[str, Any]:
    x = d.values((*d.shape(0, 2), d.of(*SIZES), d.of(*SIZES)), d.of(np.float32, np.int64, bool))
    k = d.maybe(number(d.of(0, 1, -1, 9, -9)))
    return {"inputs": [x, k], "attributes": d.attributes(upper=(0, 1)), "constant": d.settled(1)}


@draws("Unique", domain=MS)
def unique(d: Draw) -> dict[str, Any]:
    return {"inputs": [d.dyadic((d.of(5, 1, 0, 9),), np.float32)], "outputs": 3}


@draws("UnfoldTensor", domain=MS)
def unfold(d: Draw) -> dict[str, Any]:
    x = d.noise(*d.shape(1, 3, (5, 3, 7)))
    axis = d.axis(x.ndim)
    attributes = {"dim": axis, "size": d.between(1, x.shape[axis]), **d.attributes(step=(1, 2, 3))}
    return {"inputs": [x], "attributes": attributes}


@draws("GatherND", domain=MS)
def gather_nd(d: Draw) -> dict[str, Any]:
    x = d.values(d.shape(1, 3, (2, 1, 3, 5)), d.of(np.float32, np.int64, object))
    count = d.between(1, x.ndim)
    outer = d.shape(0, 2, (2, 1, 3))
    places = np.stack([d.rng.integers(-size, size, size=outer) for size in x.shape[:count]], -1)
    return {"inputs": [x, places.astype(d.of(np.int64, np.int32))]}


@draws("GridSample", domain=MS)
def grid_sample(d: Draw) -> dict[str, Any]:
    attributes = d.attributes(
        mode=("bilinear", "nearest", "bicubic"), padding_mode=("zeros", "border", "reflection"), align_corners=(0, 1)
    )
    n = d.of(1, 2)
    x = d.noise(n, d.of(1, 2), d.of(*SPATIAL), d.of(*SPATIAL))
    grid = d.rng.uniform(-1.4, 1.4, size=(n, d.of(2, 1, 3), d.of(3, 1), 2)).astype(np.float32)
    return {"inputs": [x, grid], "attributes": attributes, "magnitude": 2.0, "tolerance": 1e-4}


@draws("MaxpoolWithMask", domain=MS)
def masked_pool(d: Draw) -> dict[str, Any]:
    sizes, kernel, attributes = window(d, 2, dilated=False)
    x = d.noise(d.of(1, 2), d.of(1, 2), *sizes)
    mask = d.rng.integers(0, 3, size=(1, 1, *sizes)).astype(np.int32)
    return {"inputs": [x, mask], "attributes": {"kernel_shape": kernel, **attributes}}


@draws("MurmurHash3", domain=MS)
def murmur(d: Draw) -> dict[str, Any]:
    dtype = d.of(np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64, object)
    return {"inputs": [d.values(d.shape(0, 2), dtype)], "attributes": d.attributes(seed=(0, 7), positive=(0, 1))}


@draws("QuantizeLinear", domain=MS)
def quantize(d: Draw) -> dict[str, Any]:
    dtype, x = d.of(*BYTES, np.int16, np.uint16), d.dyadic(d.shape(0, 3, (3, 2, 1, 5)), np.float32)
    steps, attributes = axes_of_scales(d, x)
    inputs = [x, 2.0 ** d.rng.integers(-3, 2, size=steps), d.values(steps, dtype, edges=False)]
    inputs[1] = np.asarray(inputs[1], np.float32)
    return {"inputs": inputs, "attributes": attributes, "constant": d.settled(1, 2)}


@draws("DequantizeLinear", domain=MS)
def dequantize(d: Draw) -> dict[str, Any]:
    dtype = d.of(*BYTES, np.int16, np.uint16)
    x = code(d, d.shape(0, 3, (3, 2, 1, 5)), dtype)
    steps, attributes = axes_of_scales(d, x)
    return {
        "inputs": [x, scale(d, *steps), d.maybe(code(d, steps, dtype))],
        "attributes": attributes,
        "constant": d.settled(1, 2),
    }


def axes_of_scales(d: Draw, x: np.ndarray) -> tuple[tuple[int, ...], dict[str, Any]]:
    """The shape of scales of a tensor, or of an axis, and the attribute that names it."""
    if not x.ndim or d.flag():
        return (), {}
    axis = d.axis(x.ndim)
    return (x.shape[axis],), {"axis": axis}


@draws("RotaryEmbedding", domain=MS)
def rotary(d: Draw) -> dict[str, Any]:
    batch, heads, length, size = d.of(1, 2), d.of(2, 1), d.of(3, 1), d.of(4, 8)
    flat = d.flag()
    x = d.noise(batch, length, heads * size) if flat else d.noise(batch, heads, length, size)
    whole = d.flag()
    places = number([d.between(0, 4)]) if whole else d.rng.integers(0, 8, size=(batch, length))
    tables = [d.noise(8, size // 2) for _ in range(2)]
    attributes = {**d.attributes(interleaved=(0, 1)), **({"num_heads": heads} if flat else {})}
    return {"inputs": [x, places, *tables], "attributes": attributes, "magnitude": 4.0}


@draws("SampleOp", domain=MS)
def sample_op(d: Draw) -> dict[str, Any]:
    return {"inputs": [d.values(d.shape(0, 3), np.float32)]}


@draws("NGramRepeatBlock", domain=MS)
def ngrams(d: Draw) -> dict[str, Any]:
    batch, length, words = d.of(1, 2), d.of(4, 1, 7), 5
    ids = d.rng.integers(0, words, size=(batch, length))
    return {"inputs": [ids, d.noise(batch, words)], "attributes": {"ngram_size": d.of(2, 1, 3)}}


@draws("QLinearConv", domain=MS)
def qlinear_conv(d: Draw) -> dict[str, Any]:
    one, two = d.of(*BYTES), d.of(*BYTES)
    x, w, attributes, channels = convolution(d, 2)
    x[0] = max(x[0], 1)
    bias = d.maybe(code(d, (channels,), np.int16).astype(np.int32))
    inputs: list[Any] = [*quantized(d, x, one), *quantized(d, w, two), scale(d), code(d, (), one), bias]
    inputs[3] = exact(inputs[3])
    if two == np.int8:
        inputs[5] = np.zeros((), two)
    return {"inputs": inputs, "attributes": attributes, "steps": 1, "constant": frozenset(range(1, 9))}
