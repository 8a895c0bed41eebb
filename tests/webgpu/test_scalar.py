"""Every scalar function on every dtype, at the edges, against the NumPy function that defines it."""

from __future__ import annotations

import numpy as np
import pytest

from sardonyx.code import scalar
from sardonyx.code.program import call
from sardonyx.common import dtypes
from sardonyx_webgpu.runtime.device import WebGpuDevice
from tests.webgpu.harness import FLOATS, SIGNED, UNSIGNED, apply, edges, pairs

DTYPES = [*FLOATS, *SIGNED, *UNSIGNED, "bool"]
CASES = [
    (name, dtype)
    for name, function in scalar.FUNCTIONS.items()
    for dtype in DTYPES
    if dtypes.by_name(dtype).kind in function.kinds
]
LOOSE = {"pow", "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh"}
LOOSE |= {"atanh", "erf", "sigmoid"}
UNITS = 4
SIGN_OF_ZERO = {"neg", "abs", "floor", "ceil", "trunc", "round", "sqrt", "where", "mul"}


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_scalar_function(device: WebGpuDevice, name: str, dtype: str) -> None:
    function = scalar.FUNCTIONS[name]
    storage = dtypes.by_name(dtype).storage
    operands = [edges(dtype)] if function.arity == 1 else list(pairs(dtype))
    names = [dtype] * len(operands)
    if name in ("sin", "cos", "tan"):
        operands = [x[~(np.abs(x) > 12000) | np.isinf(x)] for x in operands]
    if name == "where":
        operands.insert(0, np.arange(operands[0].size) % 3 == 0)
        names.insert(0, "bool")
    result = "bool" if function.result == "bool" else dtype
    found = apply(device, names, result, lambda *x: call(name, *x), *operands)
    with np.errstate(all="ignore"):
        if storage.kind == "f" and result != "bool":
            wide = [x if x.dtype == bool else x.astype(np.float64) for x in operands]
            check_float(name, found, function.numpy(*wide))
        else:
            np.testing.assert_array_equal(found, function.numpy(*operands))


def check_float(name: str, found: np.ndarray, exact: np.ndarray) -> None:
    """What NumPy rounds to; transcendental functions within some units in the last place. Subnormals may be 0."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(found.dtype)
        unit = np.exp2(np.floor(np.log2(np.abs(exact)))) * float(np.finfo(found.dtype).eps)
        error = np.abs(found.astype(np.float64) - exact)
    good = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
    if found.dtype == np.float32:
        good |= (np.abs(exact) < 1.2e-38) & (np.abs(found) < 1.2e-38)
        error = np.maximum(error - 1.2e-38, 0)
    if name in LOOSE:
        good |= error <= UNITS * unit
    assert good.all(), f"{name}: {found[~good][:8]} instead of {exact[~good][:8]} at {np.flatnonzero(~good)[:8]}"
    if name in SIGN_OF_ZERO:
        zero = rounded == 0
        np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(rounded[zero]))
