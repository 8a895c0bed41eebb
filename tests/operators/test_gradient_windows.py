"""Gradients of convolutions and windows of any form against loops over their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sardonyx import ops
from sardonyx import primitives as p
from sardonyx.ops.gradient.rules import RULES
from sardonyx.ops.operator import sample
from sardonyx.primitives import find
from sardonyx.primitives.array import Array, Equation
from tests.engine.providers import NUMPY, WASM, WEBGPU, require_provider
from tests.primitives.test_windows import cases, places, steps

from .slopes import assert_slopes, slope_of, slopes


def gradients(name: str, inputs: list[np.ndarray], g: np.ndarray, **params: Any) -> list[np.ndarray]:
    """What a rule makes of g."""
    arrays = tuple(p.constant(x) for x in inputs)
    (y,) = find(name).numpy(*inputs, **params)
    equation = Equation(find(name), arrays, params, (p.constant(y),), 0)
    found = RULES[name](equation, [p.constant(g)], [True] * len(arrays))
    return [each.value for each in found if isinstance(each, Array) and each.value is not None]


def test_convolutions():
    rng = np.random.default_rng(0)
    for pick, case in cases(60, spread=True):
        groups, inner, outer = pick.choice([1, 1, 2]), pick.randint(1, 2), pick.randint(1, 2)
        x = rng.normal(size=(2, groups, inner, *case["sizes"]))
        w = rng.normal(size=(groups, outer, inner, *case["window"]))
        g = rng.normal(size=(2, groups, outer, *case["counts"]))
        spread = (..., *(slice(None, None, step) for step in case["spread"]))
        wide, of_x, of_w = np.zeros((2, groups, inner, *case["wide"])), np.zeros_like(x), np.zeros_like(w)
        of_wide = np.zeros_like(wide)
        wide[spread] = x
        for place, tap, found in places(case["wide"], case["counts"], case["window"], **steps(case)):
            if found is not None:
                here = g[(..., *place)]
                of_wide[(..., *found)] += np.einsum("ngo,goi->ngi", here, w[(..., *tap)])
                of_w[(..., *tap)] += np.einsum("ngo,ngi->goi", here, wide[(..., *found)])
        of_x[...] = of_wide[spread]
        params = {name: tuple(case[name]) for name in ("strides", "dilations", "spread", "low", "high")}
        shapes = [(2, groups * inner, *case["sizes"]), (groups * outer, inner, *case["window"])]
        inputs = [array.reshape(shape) for array, shape in zip((x, w), shapes, strict=True)]
        made = gradients("conv_general", inputs, g.reshape(2, -1, *case["counts"]), **params, groups=groups)
        for own, wanted, shape in zip(made, (of_x, of_w), shapes, strict=True):
            np.testing.assert_allclose(own, wanted.reshape(shape), rtol=1e-9, atol=1e-9)


def test_weights_of_convolutions_spelled_out():
    rng = np.random.default_rng(1)
    for pick, case in cases(30, spread=False):
        groups, inner, outer = pick.choice([1, 1, 2]), pick.randint(1, 2), pick.randint(1, 9)
        x = rng.normal(size=(2, groups * inner, *case["sizes"]))
        y = rng.normal(size=(2, groups * outer, *case["counts"]))
        params = {"kernel": case["window"], "groups": groups, **steps(case)}
        primitive = find("conv_weights")
        (wanted,) = primitive.numpy(x, y, **params)
        (found,) = primitive.expand(p.constant(x), p.constant(y), **params)
        np.testing.assert_allclose(found.value, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("function", ["sum", "max", "min"])
def test_windows(function):
    rng = np.random.default_rng(2)
    for _, case in cases(30, spread=False):
        x = rng.integers(-2, 3, (2, *case["sizes"])).astype(float)
        g = rng.normal(size=(2, *case["counts"]))
        met = np.full((2, *case["counts"], *case["window"]), {"max": -np.inf, "min": np.inf, "sum": 0}[function])
        seen = list(places(case["sizes"], case["counts"], case["window"], **steps(case)))
        for place, tap, found in seen:
            if found is not None:
                met[(slice(None), *place, *tap)] = x[(slice(None), *found)]
        wanted = np.zeros_like(x)
        for image in range(2):
            for place, tap, found in seen:
                window = met[(image, *place)]
                chosen = function == "sum" or np.unravel_index(getattr(window, f"arg{function}")(), window.shape) == tap
                if found is not None and chosen:
                    wanted[(image, *found)] += g[(image, *place)]
        params = {name: tuple(case[name]) for name in ("window", "strides", "dilations", "low", "high")}
        (own,) = gradients("reduce_window", [x], g, function=function, **params)
        np.testing.assert_allclose(own, wanted, rtol=1e-9, atol=1e-9)


FORMS = {
    "strides": sample((2, 4, 9, 8), (5, 4, 3, 3), strides=[2, 1], pads=[1, 0, 2, 1]),
    "one tap": sample((2, 4, 9, 8), (6, 4, 1, 1), strides=[2, 3]),
    "a tap each": sample((2, 4, 5, 3), (6, 4, 1, 1)),
    "groups": sample((2, 4, 7, 9), (4, 2, 3, 2), group=2, dilations=[2, 1]),
    "a channel each": sample((2, 6, 7, 7), (6, 1, 3, 3), group=6, pads=[1] * 4, strides=[2, 2]),
    "volumes": sample((1, 2, 5, 6, 5), (3, 2, 2, 3, 2), pads=[1, 0, 0, 0, 1, 1]),
    "lines": sample((2, 3, 9), (4, 3, 3), strides=[2]),
    "one place": sample((3, 3, 6, 5), (4, 3, 6, 5)),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("provider", [WASM, WEBGPU])
def test_convolutions_on_providers(form, provider):
    require_provider(provider)
    slope = slope_of(ops.load()["", "Conv"], FORMS[form])
    assert slope is not None
    wanted, own = slopes(slope, slope.session(NUMPY)), slope.narrowed()
    _, *found = own.session(provider).run(None, own.feeds)
    assert_slopes(slope, wanted, found, 2e-4)
