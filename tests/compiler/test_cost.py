"""What functions cost: one table, which every function is in, and which says that what is long is dear."""

from __future__ import annotations

import pytest

from sardonyx.code import transcendental
from sardonyx.code.cost import cost
from sardonyx.code.fits import FITS
from sardonyx.code.program import Statement
from sardonyx.code.scalar import FUNCTIONS
from sardonyx.compiler import fuse, rows

_WRITTEN = sorted(name for name in FUNCTIONS if transcendental.function(name, "float32"))


def _operations(code: Statement) -> int:
    """The operations in an expression, or in a list of them."""
    return sum(
        _operations(part) + (isinstance(part[0], str) and len(part) > 2) for part in code if isinstance(part, list)
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_has_a_cost(name: str) -> None:
    assert cost(name) == FUNCTIONS[name].cost >= 1


@pytest.mark.parametrize("name", _WRITTEN)
def test_what_is_written_in_many_steps_is_dear(name: str) -> None:
    """Its result is shared by several readers, and is not computed again for each."""
    for dtype in FITS:
        found = transcendental.function(name, dtype)
        assert found is not None
        assert _operations(list(found.body)) > fuse.COST_OF_MEMORY
    assert fuse.COST_OF_MEMORY < cost(name) <= rows.CHEAP


def test_an_unknown_node_has_none() -> None:
    with pytest.raises(KeyError):
        cost("sigmoidal")
