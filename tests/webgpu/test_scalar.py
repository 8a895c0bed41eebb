"""Every scalar function on every dtype at the edges, and those of floats on many operands."""

from __future__ import annotations

import numpy as np
import pytest

from sardonyx.code import scalar
from sardonyx.code.program import call
from sardonyx.common import dtypes
from sardonyx_webgpu.runtime.device import WebGpuDevice
from tests.compiler.accuracy import ACCURACY, ROUNDED, bound, held, samples, truth
from tests.support.exact import reference
from tests.webgpu.harness import FLOATS, SIGNED, UNSIGNED, apply, edges, pairs

DTYPES = [*FLOATS, *SIGNED, *UNSIGNED, "bool"]
CASES = [
    (name, dtype)
    for name, function in scalar.FUNCTIONS.items()
    for dtype in DTYPES
    if dtypes.by_name(dtype).kind in function.kinds
]
FUSED, MOST = 2.0, 4.0
"""Units by which results may be further off, and by which at most: shaders may fuse products and sums, and divide
within 2.5 units."""
SIGN_OF_ZERO = {"neg", "abs", "floor", "ceil", "trunc", "round", "sqrt", "where", "mul"}


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_scalar_function(device: WebGpuDevice, name: str, dtype: str) -> None:
    function = scalar.FUNCTIONS[name]
    storage = dtypes.by_name(dtype).storage
    operands = [edges(dtype)] if function.arity == 1 else list(pairs(dtype))
    names = [dtype] * len(operands)
    if function.arity == 1:
        operands = [x[held(name, x)] for x in operands]
    if name == "where":
        operands.insert(0, np.arange(operands[0].size) % 3 == 0)
        names.insert(0, "bool")
    result = "bool" if function.result == "bool" else dtype
    found = apply(device, names, result, lambda *x: call(name, *x), *operands)
    if storage.kind == "f" and result != "bool":
        check_float(name, found, truth(name, *operands))
    else:
        np.testing.assert_array_equal(found, reference(name, *operands))


def check_float(name: str, found: np.ndarray, exact: np.ndarray) -> None:
    """Each result is the nearest float, or as near as the function's row says. Subnormals may be 0."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(found.dtype)
        unit = np.exp2(np.floor(np.log2(np.abs(exact)))) * float(np.finfo(found.dtype).eps)
        error = np.abs(found.astype(np.float64) - exact)
    good = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
    if found.dtype == np.float32:
        good |= (np.abs(exact) < 1.2e-38) & (np.abs(found) < 1.2e-38)
        error = np.maximum(error - 1.2e-38, 0)
    if name in ROUNDED:
        good |= error <= min(bound(name, "float32") + FUSED, MOST) * unit
    assert good.all(), f"{name}: {found[~good][:8]} instead of {exact[~good][:8]} at {np.flatnonzero(~good)[:8]}"
    if name in SIGN_OF_ZERO:
        zero = rounded == 0
        np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(rounded[zero]))


@pytest.mark.parametrize("name", ACCURACY)
def test_accuracy(device: WebGpuDevice, name: str, rng: np.random.Generator) -> None:
    """Operands that are subnormal may count as 0."""
    x = samples(name, "float32", rng)
    x = x[~(np.abs(x) < np.finfo(np.float32).tiny)]
    check_float(name, apply(device, ["float32"], "float32", lambda x: call(name, x), x), truth(name, x))
