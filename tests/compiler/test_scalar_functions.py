"""Rows of scalar functions: every table spells each of them, tests can judge it, and its gradient is its slope."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sardonyx import primitives
from sardonyx.code import strict, transcendental
from sardonyx.code.scalar import FUNCTIONS
from sardonyx.code.scalar_function import EXACT, NO_FLOATS, STEPS, ScalarFunction
from sardonyx.common import dtypes
from sardonyx_wasm.scalars import functions as scalars
from sardonyx_wasm.scalars import values as wasm
from sardonyx_wasm.vectors import lanewise
from sardonyx_webgpu import extents
from sardonyx_webgpu.wgsl import functions as wgsl
from sardonyx_webgpu.wgsl import values as webgpu
from tests.support.exact import FLOATS, reference

ROOT = Path(__file__).parents[2]
DTYPES = {
    "float": ["float16", "bfloat16", "float32", "float64"],
    "int": ["int8", "int16", "int32", "int64"],
    "uint": ["uint8", "uint16", "uint32", "uint64"],
    "bool": ["bool"],
}
WITHOUT = {"sardonyx_webgpu.wgsl.functions": {"float64"}}
"""Element types that a backend lacks."""
TABLES: dict[str, Callable[[str, str], object]] = {
    "sardonyx_wasm.scalars.functions": lambda name, dtype: (
        name in scalars.FUNCTIONS[wasm.kind(dtype).family] or scalars.written(name, wasm.kind(dtype))
    ),
    "sardonyx_wasm.vectors.lanewise": lambda name, dtype: (
        name in lanewise.FUNCTIONS[wasm.kind(dtype).family] or scalars.written(name, wasm.kind(dtype))
    ),
    "sardonyx_webgpu.wgsl.functions": lambda name, dtype: (
        name in wgsl.FUNCTIONS[webgpu.kind(dtype).family] or wgsl.written(name, dtype)
    ),
}
"""By backend: whether it spells a function of a dtype, itself or by what is written for all."""


def missing(row: ScalarFunction) -> Iterator[str]:
    """The tables that lack a function, with the element types for which they do."""
    for table, spells in TABLES.items():
        wanted = [dtype for kind in sorted(DTYPES.keys() & row.kinds) for dtype in DTYPES[kind]]
        found = [x for x in wanted if x not in WITHOUT.get(table, ()) and not spells(row.name, x)]
        if found:
            yield f"{table} ({', '.join(found)})"


@pytest.mark.parametrize("row", FUNCTIONS.values(), ids=FUNCTIONS)
def test_every_backend_spells_it(row: ScalarFunction) -> None:
    found = " and ".join(missing(row))
    assert not found, f"{row.name!r} is missing in {found}, or in sardonyx.code.transcendental for all of them"


def test_tables_spell_nothing_else() -> None:
    tables: list[Any] = [*scalars.FUNCTIONS.values(), *lanewise.FUNCTIONS.values(), *wgsl.FUNCTIONS.values()]
    tables += [transcendental.FLOATS, transcendental.INTEGERS, {name for name, _ in strict.FLOATS}]
    assert {name for table in tables for name in table} <= FUNCTIONS.keys()
    assert {name for name, _ in strict.FLOATS} <= transcendental.FLOATS.keys()


def test_pages_know_the_functions_of_extents() -> None:
    """Extents of grids are evaluated on the host, natively and in pages."""
    text = (ROOT / "web/sardonyx/webgpu.js").read_text()
    (table,) = re.findall(r"const EXTENTS = \{ ([^(]*).* \};", text)
    assert set(re.findall(r"\w+", table)) == extents.FUNCTIONS.keys() <= FUNCTIONS.keys()


def test_the_manual_lists_them() -> None:
    (names,) = re.findall(r"\nScalar functions: `([^`]*)`", (ROOT / "core/README.md").read_text())
    different = sorted(FUNCTIONS.keys() ^ set(names.split()))
    assert not different, f"core/README.md is to list scalar functions as they are: {different}"


@pytest.mark.parametrize("name", [name for name in transcendental.FLOATS if FUNCTIONS[name].arity == 1])
def test_what_is_written_in_steps_is_a_primitive(name: str) -> None:
    assert name in primitives.__all__, f"sardonyx/primitives/elementwise.py and __init__.py are to export {name!r}"


@pytest.mark.parametrize("row", FUNCTIONS.values(), ids=FUNCTIONS)
def test_there_is_an_independent_reference(row: ScalarFunction) -> None:
    for kind in DTYPES.keys() & row.kinds:
        one = np.ones(2, dtypes.by_name(DTYPES[kind][-1]).storage)
        operands = [one] * row.arity if row.result != "select" else [one.astype(bool), *[one] * (row.arity - 1)]
        try:
            reference(row.name, *operands)
        except KeyError:
            pytest.fail(f"{row.name!r} of {kind} has no reference in tests/support/exact.py", pytrace=False)


@pytest.mark.parametrize("name", transcendental.FLOATS)
def test_what_is_written_in_steps_states_its_accuracy(name: str) -> None:
    accuracy = FUNCTIONS[name].accuracy
    assert name == "rem" or (accuracy is not EXACT and 0.5 < accuracy.float32 <= 4 and 0.5 < accuracy.float64 <= 4)


# ---- gradients

STEP = 1e-6
PLACES = np.array([-2.8, -1.7, -0.83, -0.4, 0.3, 0.62, 0.9, 1.3, 2.2, 3.7])
"""Nowhere near a step: of each function some are in its domain."""


def apply(name: str, *operands: Any) -> np.ndarray:
    """The reference in float64, of numbers or arrays; NaN outside of a domain."""
    assert name in FLOATS, f"{name!r} of floats has no reference in tests/support/exact.py"
    arrays = [np.asarray(x) if np.asarray(x).dtype == bool else np.asarray(x, np.float64) for x in operands]
    with np.errstate(all="ignore"):
        return np.asarray(FLOATS[name](*arrays), np.float64)


def operands_of(row: ScalarFunction) -> list[np.ndarray]:
    if row.arity == 1:
        return [PLACES]
    a, b = (x.ravel() for x in np.meshgrid(PLACES, PLACES + 0.0517))
    return [np.arange(a.size) % 3 == 0, a, b] if row.result == "select" else [a, b]


def slope(name: str, operands: list[np.ndarray], k: int) -> np.ndarray:
    """The central difference by operand k."""
    before, after = ([*operands[:k], operands[k] + move, *operands[k + 1 :]] for move in (-STEP, STEP))
    return (apply(name, *after) - apply(name, *before)) / (2 * STEP)


@pytest.mark.parametrize("row", FUNCTIONS.values(), ids=FUNCTIONS)
def test_gradients_are_slopes(row: ScalarFunction) -> None:
    operands = operands_of(row)
    if row.gradient is None:
        assert row.no_gradient in (STEPS, NO_FLOATS), f"give {row.name!r} a gradient, or say why it has none"
        assert (row.no_gradient == NO_FLOATS) == ("float" not in row.kinds)
        if "float" in row.kinds:
            assert all(not slope(row.name, operands, k).any() for k in range(row.arity))
        return
    assert not row.no_gradient
    g = np.linspace(-1.5, 2.5, operands[-1].size)
    with np.errstate(all="ignore"):
        found = row.gradient(apply, g, apply(row.name, *operands), *operands)
    assert len(found) == row.arity
    for k, own in enumerate(found):
        if operands[k].dtype == bool:
            assert own is None
            continue
        expected = g * slope(row.name, operands, k)
        known = np.isfinite(expected)
        assert known.sum() >= 3
        np.testing.assert_allclose(np.broadcast_to(own, g.shape)[known], expected[known], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", ["min", "max"])
def test_equal_operands_share_the_gradient(name: str) -> None:
    gradient = FUNCTIONS[name].gradient
    assert gradient is not None
    one, g = np.ones(3), np.array([1.0, -2.0, np.inf])
    for own in gradient(apply, g, one, one, one):
        np.testing.assert_array_equal(own, g / 2)
