"""Random numbers, of which types and shapes are compared."""

from __future__ import annotations

from typing import Any

import numpy as np

from .conversion import element_type
from .draw import Draw, draws, types


def kinds(d: Draw, variable: str) -> tuple[int, ...]:
    return tuple(element_type(dtype) for dtype in types(d.schema, variable))


@draws("RandomNormal", "RandomUniform")
def random(d: Draw) -> dict[str, Any]:
    more: dict[str, Any] = {"seed": (1.0, 0.5), "dtype": kinds(d, "T")}
    more |= (
        {"mean": (0.0, 5.0), "scale": (1.0, 2.0)} if "Normal" in d.name else {"low": (0.0, -1.0), "high": (1.0, 3.0)}
    )
    return {"inputs": [], "attributes": {"shape": list(d.shape()), **d.attributes(**more)}, "chance": True}


@draws("RandomNormalLike", "RandomUniformLike")
def random_like(d: Draw) -> dict[str, Any]:
    x = d.noise(*d.shape(), dtype=d.dtype("T1"))
    attributes = d.attributes(seed=(1.0, 0.5), dtype=kinds(d, "T2"))
    if x.dtype.kind not in "f":
        attributes.setdefault("dtype", 1)
    return {"inputs": [x], "attributes": attributes, "chance": True, "wide": False}


@draws("Bernoulli")
def bernoulli(d: Draw) -> dict[str, Any]:
    x = d.rng.random(d.shape()).astype(d.dtype("T1"))
    return {
        "inputs": [np.asarray(x)],
        "attributes": d.attributes(seed=(1.0, 0.5), dtype=kinds(d, "T2")),
        "chance": True,
        "wide": False,
    }


@draws("Multinomial")
def multinomial(d: Draw) -> dict[str, Any]:
    x = d.noise(d.of(1, 2, 3), d.of(3, 1, 5), dtype=d.dtype("T1"))
    attributes = d.attributes(seed=(1.0, 0.5), dtype=kinds(d, "T2"), sample_size=(1, 2, 5))
    return {"inputs": [x], "attributes": attributes, "chance": True, "wide": False}
