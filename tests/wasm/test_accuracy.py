"""Elementary functions of float32 on vectors: as exact as their rows say, fused or not, whatever the operand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sardonyx_wasm import vectors
from sardonyx_wasm.scalars.values import kind
from tests.compiler.accuracy import ACCURACY, bound, samples, truth, ulps
from tests.support import require
from tests.wasm.compiled import PLAIN, RELAXED
from tests.wasm.elements import Case

Array = np.ndarray[Any, Any]
STEP = 4099
"""The quick test takes every so manieth float: of 2**23 in a binade, 2046."""
CHUNK = 1 << 20
NEAR = 2.0**-12
"""Where functions begin to differ from the first terms of their series."""
# up to where functions are more than a limit, or else in their domain
FAR = {"exp": 105, "log": 8, "tanh": 10, "sigmoid": 106, "erf": 4, "sin": 1e6, "cos": 1e6}

require("wasm")
pytestmark = pytest.mark.usefixtures("no_cache_on_disk")


def floats(start: int, stop: int, step: int) -> Iterator[Array]:
    """The floats of these bits, some at a time."""
    for first in range(start, stop, step * CHUNK):
        yield np.arange(first, min(first + step * CHUNK, stop), step, np.int64).astype(np.uint32).view(np.float32)


def check(name: str, features: frozenset[str], operands: Iterator[Array]) -> None:
    case = Case(features)
    case.add(name, ["float32"], "float32", lambda s, x: vectors.apply(s, name, kind("float32"), [x]))
    for x in operands:
        assert ulps(case.run(name, x), truth(name, x)) <= bound(name, "float32")


def fused(test: Any) -> Any:
    return pytest.mark.parametrize("features", [PLAIN, RELAXED], ids=["plain", "relaxed"])(test)


@fused
@pytest.mark.parametrize("name", FAR)
def test_some_floats(name: str, features: frozenset[str]) -> None:
    signs = (1,) if name == "log" else (1, -1)
    most = int(np.float32(np.inf).view(np.int32))
    check(name, features, (sign * x for sign in signs for x in floats(0, most + 1, STEP)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_fused_functions(dtype: str, rng: np.random.Generator) -> None:
    case = Case(RELAXED)
    for name in ACCURACY:
        case.add(name, [dtype], dtype, lambda s, x, name=name: vectors.apply(s, name, kind(dtype), [x]))
    operands = {name: [samples(name, dtype, rng)] for name in ACCURACY}
    for name, result in case.run_all(operands).items():
        assert ulps(result, truth(name, *operands[name])) <= bound(name, dtype), name


@fused
def test_pow(features: frozenset[str], rng: np.random.Generator) -> None:
    case = Case(features)
    case.add("pow", ["float32", "float32"], "float32", lambda s, *x: vectors.apply(s, "pow", kind("float32"), x))
    x, y = np.exp(rng.normal(0, [[15], [1]], (2, 50_000))).ravel(), rng.normal(0, [[3], [60]], (2, 50_000)).ravel()
    operands = [part.astype(np.float32) for part in (x, y)]
    assert ulps(case.run("pow", *operands), truth("pow", *operands)) <= bound("pow", "float32")


@pytest.mark.nightly
@fused
@pytest.mark.parametrize("name", FAR)
def test_every_float(name: str, features: frozenset[str]) -> None:
    signs = (1,) if name == "log" else (1, -1)
    near, far = (int(np.float32(limit).view(np.int32)) for limit in (1 / 8 if name == "log" else NEAR, FAR[name]))
    check(name, features, (sign * x for sign in signs for x in floats(near, far, 1)))
