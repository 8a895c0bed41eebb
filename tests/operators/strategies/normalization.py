"""Normalizations and softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from .draw import Draw, draws

SPATIAL = (2, 1, 3, 5)


def spatial(d: Draw, dtype: Any, low: int = 0) -> np.ndarray:
    """[N, C, ...]"""
    return d.noise(d.of(1, 2, 3), d.of(2, 1, 3, 4), *d.shape(low, 3, SPATIAL), dtype=dtype)


@draws("BatchNormalization")
def batch(d: Draw) -> dict[str, Any]:
    dtypes = [d.dtype(variable) for variable in ("T", "T1", "T2")]
    if d.flag():
        dtypes[1:] = dtypes[:1] * 2
    x = spatial(d, dtypes[0])
    channels = x.shape[1]
    inputs = [x, *(d.noise(channels, dtype=dtypes[k]) for k in (1, 1, 2)), np.abs(d.noise(channels, dtype=dtypes[2]))]
    training = d.flag()
    attributes = {**d.attributes(epsilon=(1e-5, 0.1), momentum=(0.9, 0.5)), "training_mode": int(training)}
    return {"inputs": inputs, "attributes": attributes, "outputs": 3 if training else 1, "magnitude": 2.0}


@draws("GroupNormalization")
def group(d: Draw) -> dict[str, Any]:
    dtype, groups = d.dtype("T"), d.of(1, 2, 3)
    channels = groups * d.of(1, 2, 3)
    x = d.noise(d.of(1, 2, 3), channels, *d.shape(1, 3, SPATIAL), dtype=dtype)
    attributes = {"num_groups": groups, **d.attributes(epsilon=(1e-5, 0.1), stash_type=(1,))}
    return {"inputs": [x, d.noise(channels, dtype=dtype), d.noise(channels, dtype=dtype)], "attributes": attributes}


@draws("InstanceNormalization")
def instance(d: Draw) -> dict[str, Any]:
    dtype = d.dtype("T")
    x = spatial(d, dtype, 1)
    inputs = [x, d.noise(x.shape[1], dtype=dtype), d.noise(x.shape[1], dtype=dtype)]
    return {"inputs": inputs, "attributes": d.attributes(epsilon=(1e-5, 0.1)), "magnitude": 1.0, "tolerance": 1e-4}


@draws("LayerNormalization")
def layer(d: Draw) -> dict[str, Any]:
    x = d.noise(*d.shape(1, 4, (3, 2, 1, 5, 7)), dtype=d.dtype("T"))
    axis = d.axis(x.ndim)
    shape = x.shape[axis:]
    scale, bias = d.noise(*d.part(shape), dtype=x.dtype), d.maybe(d.noise(*d.part(shape), dtype=x.dtype))
    attributes = {"axis": axis, **d.attributes(epsilon=(1e-5, 0.1))}
    return {
        "inputs": [x, scale, bias],
        "attributes": attributes,
        "outputs": d.between(1, 3),
        "magnitude": 1.0,
        "tolerance": 1e-4,
        "constant": d.settled(1, 2),
    }


@draws("RMSNormalization")
def rms(d: Draw) -> dict[str, Any]:
    x = d.noise(*d.shape(1, 4, (3, 2, 1, 5, 7)), dtype=d.dtype("T"))
    axis = d.axis(x.ndim)
    scale = d.noise(*d.part(x.shape[axis:]), dtype=d.dtype("V") if d.flag() else x.dtype)
    return {"inputs": [x, scale], "attributes": {"axis": axis, **d.attributes(epsilon=(1e-5, 0.1))}}


@draws("LpNormalization")
def lp(d: Draw) -> dict[str, Any]:
    x = d.noise(*d.shape(1, 4), dtype=d.dtype("T"))
    return {"inputs": [x], "attributes": {"axis": d.axis(x.ndim), **d.attributes(p=(1, 2))}}


@draws("LRN")
def lrn(d: Draw) -> dict[str, Any]:
    more = d.shape(2, 2, SPATIAL) if d.flag() else d.shape(1, 3, SPATIAL)
    x = d.noise(d.of(1, 2, 3), d.of(2, 1, 3, 4), *more, dtype=d.dtype("T"))
    attributes = d.attributes(alpha=(1e-4, 0.5), beta=(0.75, 0.5), bias=(1.0, 2.0))
    return {"inputs": [x], "attributes": {"size": d.of(3, 1, 5), **attributes}}


@draws("MeanVarianceNormalization")
def mean_variance(d: Draw) -> dict[str, Any]:
    x = d.noise(*d.shape(4, 4, (3, 2, 5)), dtype=d.dtype("T"))
    attributes = {"axes": d.axes(4, 1)} if d.flag() else {}
    return {"inputs": [x], "attributes": attributes, "magnitude": 2.0, "tolerance": 1e-4}


@draws("Hardmax", "LogSoftmax", "Softmax")
def softmax(d: Draw) -> dict[str, Any]:
    shape, dtype = d.shape(1, 4), d.dtype("T")
    x = d.finite(shape, dtype) if d.name != "Hardmax" else d.dyadic(shape, dtype)
    if d.flag():
        x = (x.astype(np.float32) * 40).astype(dtype)
    return {"inputs": [x], "attributes": {"axis": d.axis(x.ndim)} if d.flag() else {}}


@draws("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(d: Draw) -> dict[str, Any]:
    dtype, classes = d.dtype("T"), d.of(3, 1, 5)
    n, more = d.of(2, 1, 3), d.shape(0, 2, SPATIAL)
    x = d.noise(n, classes, *more, dtype=dtype)
    target = d.rng.integers(0, classes, size=(n, *more)).astype(d.dtype("Tind"))
    weights = d.maybe(np.abs(d.noise(classes, dtype=dtype)))
    attributes = d.attributes(reduction=("mean", "sum", "none"), ignore_index=(0, -1, 1, 9))
    if attributes.get("ignore_index") in (-1, 9):
        target[d.rng.random(target.shape) < 0.3] = attributes["ignore_index"]
        target.flat[0] = 0
    outputs = d.between(1, 2) if d.name.startswith("Softmax") else 1
    return {"inputs": [x, target, weights], "attributes": attributes, "outputs": outputs, "magnitude": 1.0}
