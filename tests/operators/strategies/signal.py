"""Fourier transforms and their windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from .conversion import element_type
from .draw import Draw, draws, types
from .movement import number

LENGTHS = (4, 1, 2, 3, 5, 7, 8)


@draws("DFT")
def dft(d: Draw) -> dict[str, Any]:
    dtype = d.dtype("T1")
    shape = d.shape(1, 3, LENGTHS)
    place = d.between(0, len(shape) - 1)
    inverse = d.flag()
    onesided = d.flag()
    parts = 2 if (onesided and inverse) or (not onesided and d.flag()) else 1
    axis = place - len(shape) - 1 if d.flag() else place
    length = d.of(shape[place], *LENGTHS) if d.flag() or (onesided and inverse) else None
    attributes = {"inverse": int(inverse), "onesided": int(onesided)}
    asked = None if length is None else np.asarray(length, d.dtype("T2"))
    x = d.noise(*shape, parts, dtype=dtype)
    inputs = [x, asked, number(axis) if axis != -2 or d.flag() else None]
    return {
        "inputs": inputs,
        "attributes": attributes,
        "constant": d.settled(1, 2),
        "magnitude": 8.0,
    }


@draws("STFT")
def stft(d: Draw) -> dict[str, Any]:
    dtype = d.dtype("T1")
    size, frame, step = d.of(12, 8, 17), d.of(4, 3, 8, 5), d.of(2, 1, 3)
    kind = d.dtype("T2")
    window = d.maybe(d.noise(frame, dtype=dtype))
    length = np.asarray(frame, kind) if window is None or d.flag() else None
    onesided = d.of(1, 0)
    parts = 1 if onesided else d.of(1, 2)
    x = d.noise(d.of(1, 2), size, parts, dtype=dtype)
    return {
        "inputs": [x, np.asarray(step, kind), window, length],
        "attributes": {"onesided": onesided},
        "constant": frozenset({1, 3}) if d.flag() else frozenset(),
        "magnitude": 8.0,
    }


@draws("BlackmanWindow", "HammingWindow", "HannWindow")
def windows(d: Draw) -> dict[str, Any]:
    size = np.asarray(d.of(4, 2, 3, 9, 10), d.dtype("T1"))
    kinds = [dtype for dtype in types(d.schema, "T2") if dtype.kind == "f"]
    attributes = d.attributes(periodic=(0, 1), output_datatype=tuple(map(element_type, kinds)))
    return {"inputs": [size], "attributes": attributes, "constant": d.settled(0), "magnitude": 1.0}


@draws("MelWeightMatrix")
def mel(d: Draw) -> dict[str, Any]:
    kind, edge = d.dtype("T1"), d.of(np.float32, np.float64)
    numbers = [np.asarray(x, kind) for x in (d.of(4, 8, 3), d.of(16, 32, 64), d.of(8000, 8192, 16000))]
    edges = [np.asarray(d.of(0, 20, 100), edge), np.asarray(d.of(4000, 3500), edge)]
    return {"inputs": [*numbers, *edges], "constant": frozenset(range(5)), "magnitude": 1.0}
