"""Models of 8-bit arithmetic from rounding to rounding: nothing is handed on, as in a whole run, and magnified."""

from __future__ import annotations

import numpy as np
import pytest

import sardonyx
from tests.engine.providers import PROVIDERS, require_provider
from tests.models import MODELS, given, inputs

UNDEFINED = {
    "/decoder/decoder/generator/Concat_3_output_0": "the phases of frequencies that silence does not have: where "
    "onnxruntime's transform errs by 1e-7, ours does by 1e-8, and both take the angle of what is left"
}
"""Results that are made of rounding errors, by what their names begin with, and why."""
SELDOM = 2e-4
"""The part of the elements of a tensor of 8 bits that may differ, by one step: those that lie between two."""


@pytest.mark.nightly
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("id", [model.id for model in MODELS.values() if model.given])
def test_the_same_arithmetic(id: str, provider: str) -> None:
    require_provider(provider)
    known, kinds = given.results(id, MODELS[id].given, inputs(id))
    made, feeds = given.model(id, known, inputs(id))
    session = sardonyx.InferenceSession(made, providers=[provider])
    found = dict(zip(known, session.run(list(known), feeds), strict=True))
    complaints = []
    for name, expected in known.items():
        if name.startswith(tuple(UNDEFINED)) and expected.ndim:
            continue
        error = np.abs(found[name].astype(np.float64) - expected)
        if expected.dtype.itemsize == 1:
            if error.max() > 1 or np.count_nonzero(error) > SELDOM * error.size + 1:
                complaints.append(f"{kinds[name]} {name}: {np.count_nonzero(error)} of {error.size}, {error.max():.0f}")
        elif error.max() > 1e-5 * np.abs(expected).max():
            complaints.append(f"{kinds[name]} {name}: off by {error.max() / np.abs(expected).max():.1e} of the largest")
    assert not complaints, "\n".join(complaints)
