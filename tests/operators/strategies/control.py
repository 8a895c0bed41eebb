"""Control flow, by small bodies; sequences and optionals."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser

from sardonyx.common import dtypes

from .draw import SIZES, Draw, draws, types
from .movement import number

NOT_EMPTY = (2, 1, 3, 5)


def body(text: str) -> onnx.GraphProto:
    return onnx.parser.parse_graph(text)


THEN = (
    "t () => (float[A] r) { r = Neg (x1) }",
    "t () => (float[A] r) { r = Add (x1, x2) }",
    "t () => (float[A] r) { r = Identity (x2) }",
    "t () => (float[A] r) { r = Constant <value_floats = [1.0, 2.0]> () }",
)


@draws("If")
def branch(d: Draw) -> dict[str, Any]:
    shape = d.shape(1, 1)
    inputs = [d.noise(*d.of((), (1,)), dtype=bool), d.values(shape, np.float32), d.values(shape, np.float32)]
    attributes = {"then_branch": body(d.of(*THEN)), "else_branch": body(d.of(*THEN))}
    return {"inputs": inputs, "attributes": attributes, "captured": frozenset({1, 2}), "constant": d.settled(0)}


LOOPS = {
    "sum": (
        "b (int64 i, bool c, float[A] v) => (bool d, float[A] w, float[A] o)"
        " { d = Identity (c)  w = Add (v, x3)  o = Identity (w) }"
    ),
    "stops": (
        "b (int64 i, bool c, float[A] v) => (bool d, float[A] w, int64 o)"
        " { w = Add (v, x3)  o = Identity (i)  two = Constant <value_int = 2> ()  d = Less (i, two) }"
    ),
    "grows": (
        "b (int64 i, bool c, float[A] v) => (bool d, float[B] w, float o)"
        " { d = Identity (c)  w = Concat <axis = 0> (v, x3)  o = ReduceSum <keepdims = 0> (w) }"
    ),
    "counts": (
        "b (int64 i, bool c, float[A] v) => (bool d, float[A] w, float[A] o)"
        " { d = Identity (c)  f = Cast <to = 1> (i)  w = Identity (v)  o = Mul (x3, f) }"
    ),
}


@draws("Loop")
def loop(d: Draw) -> dict[str, Any]:
    kind = d.of(*LOOPS)
    shape = (d.of(*SIZES),)
    turns = d.of(2, 0, 1, 3, 7)
    most = number(turns) if kind != "stops" or d.flag() else None
    going = np.asarray(d.of(True, True, False)) if d.flag() else None
    inputs = [most, going, d.dyadic(shape, np.float32), d.dyadic(shape, np.float32)]
    return {
        "inputs": inputs,
        "attributes": {"body": body(LOOPS[kind])},
        "outputs": 2,
        "captured": frozenset({3}),
        "constant": d.settled(0, 1),
    }


SCANS = (
    "b (float[A] s, float[A] x) => (float[A] t, float[A] y) { t = Add (s, x)  y = Identity (t) }",
    "b (float[A] s, float[A] x) => (float[A] t, float[A] y) { t = Identity (s)  y = Mul (s, x) }",
    "b (float[A] s, float[A] x) => (float[A] t, float[1] y) { t = Max (s, x)  y = ReduceSum <keepdims = 1> (t) }",
)


@draws("Scan")
def scan(d: Draw) -> dict[str, Any]:
    size, turns = d.of(2, 1, 3), d.of(3, 1, 5, 2)
    axis, out = d.between(-2, 1), d.between(-2, 1)
    x = d.dyadic((turns, size) if axis % 2 == 0 else (size, turns), np.float32)
    attributes: dict[str, Any] = {"num_scan_inputs": 1, "body": body(d.of(*SCANS))}
    for name, value in (("scan_input_axes", axis), ("scan_output_axes", out)):
        if value or d.flag():
            attributes[name] = [value]
    attributes |= d.attributes(scan_input_directions=([0], [1]), scan_output_directions=([0], [1]))
    return {"inputs": [d.dyadic((size,), np.float32), x], "attributes": attributes, "outputs": 2}


def sequence(d: Draw, dtype: Any, low: int = 0) -> list[np.ndarray]:
    rank = d.between(low, 2)
    return [d.values(d.shape(rank, rank), dtype) for _ in range(d.between(1, 4))]


def place(d: Draw, count: int, last: int) -> np.ndarray:
    return np.asarray(d.between(-count, last), d.of(np.int64, np.int32))


def element(d: Draw) -> np.dtype[Any]:
    return d.dtype("T", "complex", "bfloat16") if d.name != "SequenceLength" else np.dtype(np.float32)


@draws("SequenceAt", "SequenceErase", "SequenceInsert", "SequenceLength")
def sequences(d: Draw) -> dict[str, Any]:
    dtype = element(d) if d.name in ("SequenceAt", "SequenceInsert") else np.dtype(d.of(np.float32, np.int64, object))
    given = sequence(d, dtype)
    inputs: list[Any] = [given]
    if d.name == "SequenceInsert":
        inputs += [d.values(d.shape(0, 2), dtype), d.maybe(place(d, len(given), len(given)))]
    elif d.name != "SequenceLength":
        at = place(d, len(given), len(given) - 1)
        inputs.append(at if d.name == "SequenceAt" or d.flag() else None)
    return {"inputs": inputs, "constant": d.settled(*range(1, len(inputs))), "wide": False}


@draws("SequenceConstruct")
def construct(d: Draw) -> dict[str, Any]:
    dtype = element(d)
    return {"inputs": [d.values(d.shape(0, 2), dtype) for _ in range(d.between(1, 4))], "wide": False}


@draws("SequenceEmpty")
def nothing(d: Draw) -> dict[str, Any]:
    return {"inputs": [], "attributes": d.attributes(dtype=(1, 7, 9))}


@draws("ConcatFromSequence")
def joined(d: Draw) -> dict[str, Any]:
    dtype, new = element(d), d.of(0, 1)
    shape = d.shape(1 - new, 3)
    axis = d.axis(len(shape) + new)
    given = []
    for _ in range(d.between(1, 4)):
        part = list(shape)
        if not new:
            part[axis] = d.of(*SIZES)
        given.append(d.values(part, dtype))
    return {"inputs": [given], "attributes": {"axis": axis, "new_axis": new}, "wide": False}


@draws("SplitToSequence")
def parts(d: Draw) -> dict[str, Any]:
    dtype = d.dtype("T", "complex", "bfloat16")
    x = d.values(d.shape(1, 3, NOT_EMPTY), dtype)
    axis = d.axis(x.ndim)
    total = x.shape[axis]
    kind, of_sizes = d.of("none", "one", "many"), d.dtype("I")
    split = None
    if kind == "one":
        split = np.asarray(d.between(1, total), of_sizes)
    elif kind == "many":
        split = np.diff([0, *sorted(d.between(0, total) for _ in range(d.between(0, 2))), total]).astype(of_sizes)
    attributes = {"axis": axis, **(d.attributes(keepdims=(0, 1)) if split is None else {})}
    return {"inputs": [x, split], "attributes": attributes, "constant": d.settled(1), "wide": False}


MAPS = (
    "b (float[A] v) => (float[A] w) { w = Neg (v) }",
    "b (float[A] v) => (float w) { w = ReduceSum <keepdims = 0> (v) }",
)


@draws("SequenceMap")
def mapped(d: Draw) -> dict[str, Any]:
    given = [d.dyadic((d.of(*SIZES),), np.float32) for _ in range(d.between(1, 3))]
    return {"inputs": [given], "attributes": {"body": body(d.of(*MAPS))}}


@draws("OptionalGetElement", "OptionalHasElement")
def optional(d: Draw) -> dict[str, Any]:
    dtype = np.dtype(d.of(*(t for t in types(onnx.defs.get_schema("Identity", 28), "V") if dtypes.of(t).bits > 8)))
    whole = d.flag() and dtypes.of(dtype).is_native
    return {"inputs": [sequence(d, dtype) if whole else d.values(d.shape(), dtype)], "wide": False}


@draws("Optional")
def made(d: Draw) -> dict[str, Any]:
    return {"inputs": [d.values(d.shape(), d.of(np.float32, np.int64, bool, object))], "wide": False}


@draws("ImageDecoder")
def image(d: Draw) -> dict[str, Any]:
    import io

    from PIL import Image

    pixels = d.rng.integers(0, 256, size=(d.of(2, 1, 5), d.of(3, 1, 4), 3)).astype(np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, d.of("PNG", "BMP"))
    data = np.frombuffer(stream.getvalue(), np.uint8)
    return {"inputs": [data], "attributes": d.attributes(pixel_format=("RGB", "BGR", "Grayscale")), "steps": 1}
