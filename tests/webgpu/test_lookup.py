"""Lookups in tables that are dequantized: few elements are computed in the run, and the table stays as it is stored."""

from __future__ import annotations

import numpy as np
import pytest

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.primitives.array import Array
from tests.support import require
from tests.webgpu.traced import evaluate, launches

require("webgpu")


@pytest.mark.parametrize(("rows", "setup"), [(5, 0), (200, 1)])
def test_a_sparse_lookup_computes_what_it_finds(rows: int, setup: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sardonyx.primitives.evaluation.FOLD_LIMIT", 0)
    random = np.random.default_rng(0)
    table = random.integers(-128, 128, (300, 40)).astype(np.int8)
    scale = random.uniform(0.1, 1, (300, 1)).astype("f4")
    places = random.integers(0, 300, rows).astype(np.int64)

    def lookup(places: Array, table: Array, scale: Array) -> Array:
        return p.gather(p.cast(table, dtypes.float32) * scale, [places], [0])

    (found,), plan = evaluate(lookup, places, weights=[table, scale])
    np.testing.assert_array_equal(found, (table * scale)[places])
    assert launches(plan).total() == 1
    assert len(plan.setup) == setup
