"""Interpolation: resizing, sampling at places."""

from __future__ import annotations

from typing import Any

import numpy as np

from .draw import Draw, draws
from .movement import number

SPATIAL = (3, 2, 4, 5, 1)


@draws("Resize")
def resize(d: Draw) -> dict[str, Any]:
    rank = d.between(1, 4)
    mode = d.of("nearest", "linear", "cubic") if rank > 1 else d.of("nearest", "linear")
    free = d.between(1, min(rank, 2))
    spatial = [d.of(*SPATIAL) for _ in range(free)]
    shape = ((1, 2, 1)[: rank - free] + tuple(spatial))[:rank]
    attributes: dict[str, Any] = {"mode": mode}
    ways = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"]
    way = d.of(*ways, "tf_crop_and_resize") if d.flag() else "half_pixel"
    attributes["coordinate_transformation_mode"] = way
    if mode == "nearest":
        kinds = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
        attributes |= d.attributes(nearest_mode=kinds)
    elif way != "tf_crop_and_resize":
        attributes |= d.attributes(antialias=(0, 1))
    if mode == "cubic":
        attributes |= d.attributes(cubic_coeff_a=(-0.75, -0.5), exclude_outside=(0, 1))
    places = list(range(rank - free, rank))
    if d.flag():
        attributes["axes"] = [k - rank if d.flag() else k for k in places]
    count = free if "axes" in attributes else rank
    kept = count - free
    scales = sizes = None
    if d.flag():
        wanted = [d.of(2, 1, 3, 4, 6, 7) for _ in range(free)]
        if d.flag():
            attributes |= d.attributes(keep_aspect_ratio_policy=("stretch", "not_larger", "not_smaller"))
        if attributes.get("keep_aspect_ratio_policy", "stretch") == "stretch":
            sizes = number([*shape[:kept], *wanted])
        elif "axes" in attributes:
            sizes = number(wanted)
        else:
            del attributes["keep_aspect_ratio_policy"]
            sizes = number([*shape[:kept], *wanted])
    else:
        factors = [d.of(2.0, 0.5, 1.0, 1.5, 3.0, 0.75) for _ in range(free)]
        factors = [max(f, 1 / size) for f, size in zip(factors, spatial, strict=True)]
        scales = np.array([1.0] * kept + factors, np.float32)
    roi = None
    if way == "tf_crop_and_resize":
        roi = np.array([0.0] * kept + [0.25] * free + [1.0] * kept + [d.of(0.75, 1.25)] * free, np.float32)
        attributes |= d.attributes(extrapolation_value=(0.0, 9.0))
    dtype = d.dtype("T1") if mode == "nearest" else d.dtype("T1", "int", "uint", "bool", "str", "object", "complex")
    x = d.noise(*shape, dtype=dtype)
    return {
        "inputs": [x, roi, scales, sizes],
        "attributes": attributes,
        "constant": frozenset({1, 2, 3}),
        "magnitude": 2.0,
        "wide": mode != "nearest",
        "tolerance": 1e-4,
    }


@draws("Upsample")
def upsample(d: Draw) -> dict[str, Any]:
    mode = d.of("nearest", "linear")
    shape = (1, d.of(1, 2), d.of(*SPATIAL), d.of(*SPATIAL))
    scales = np.array([1, 1, d.of(2, 1, 1.5, 3), d.of(2, 1, 1.5, 3)], np.float32)
    return {"inputs": [d.noise(*shape), scales], "attributes": {"mode": mode}, "constant": frozenset({1})}


@draws("GridSample")
def grid_sample(d: Draw) -> dict[str, Any]:
    space = d.of(2, 2, 3)
    n, c = d.of(1, 2), d.of(1, 2)
    attributes = d.attributes(
        mode=("linear", "nearest", "cubic") if space == 2 else ("linear", "nearest"),
        padding_mode=("zeros", "border", "reflection"),
        align_corners=(0, 1),
    )
    x = d.noise(n, c, *(d.of(*SPATIAL) for _ in range(space)))
    places = [d.of(2, 1, 3) for _ in range(space)]
    grid = d.rng.uniform(-1.4, 1.4, size=(n, *places, space)).astype(np.float32)
    return {"inputs": [x, grid], "attributes": attributes, "magnitude": 2.0, "tolerance": 1e-4}


@draws("AffineGrid")
def affine_grid(d: Draw) -> dict[str, Any]:
    space, n = d.of(2, 3), d.of(1, 2)
    size = number([n, d.of(1, 3), *(d.of(3, 2, 1, 4) for _ in range(space))])
    theta = d.noise(n, space, space + 1, dtype=d.dtype("T1"))
    attributes = d.attributes(align_corners=(0, 1))
    if attributes.get("align_corners"):
        size = np.maximum(size, 2)
        size[0] = n
    return {"inputs": [theta, size], "attributes": attributes, "constant": d.settled(1), "magnitude": 4.0}
