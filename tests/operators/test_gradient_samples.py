"""Gradients of the operators' samples against slopes, central differences in float64, on every provider."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

from sardonyx import primitives
from sardonyx.ops.gradient.rules import NESTED, RULES, UNDEFINED
from sardonyx.primitives.array import PRIMITIVES
from tests.engine.providers import NUMPY, PROVIDERS, WASM, WEBGPU, require_provider

from . import slopes
from .slopes import ALL
from .test_samples import name_of

STRAIGHT = {
    "BitCast": "the same bits as another type",
    "Cast": "what rounds has the gradient of what it rounds",
    "Unique": "the data count the results",
}
"""Operators whose slopes are not their gradients, and why."""
IN_FLOAT32 = {
    "BranchwiseRMSNorm",
    "DequantizeLinear",
    "FeatureVectorizer",
    "HyperConnectionPostMix",
    "HyperConnectionPreMix",
    "LayerNormalization",
    "LinearClassifier",
    "LinearRegressor",
    "Normalizer",
    "SVMClassifier",
    "SVMRegressor",
    "Scaler",
    "SkipLayerNormalization",
}
"""Operators that compute in float32 whatever they are given."""
OF_FLOAT32 = {"DynamicQuantizeMatMul", "MatMulIntegerToFloat", "QGemm"}
"""Operators that take float32 alone, as scales of integers."""
PRIMARY = {
    "AveragePool",
    "Conv",
    "ConvTranspose",
    "CumProd",
    "CumSum",
    "DFT",
    "Gather",
    "GlobalMaxPool",
    "LayerNormalization",
    "LpPool",
    "LSTM",
    "MaxPool",
    "ReduceProd",
    "Resize",
    "ScatterElements",
    "ScatterND",
    "Softmax",
    "TopK",
}
"""Operators by which each rule meets each provider."""


def is_left_out(case: object) -> bool:
    name = name_of(case.values[0])
    return name in STRAIGHT or name in OF_FLOAT32 or name.startswith("QLinear")


EDGES = {"Elu-1", "GatherElements-3", "Split-2"}
"""Samples without elements, or with ones whose powers are infinite."""

CASES = [case for case in ALL if not is_left_out(case)]
FIRST = [case for case in CASES if case.id.endswith("-0") and "." not in case.id]
OTHERS = [case for case in CASES if not case.id.endswith("-0") or "." in case.id]
MAIN = [case for case in CASES if case.id.rpartition("-")[0] in PRIMARY][::6]
MAIN += [case for case in CASES if case.id in EDGES]


def check(operator, sample, provider: str) -> None:
    slope = slopes.slope_of(operator, sample)
    if slope is None:
        return
    require_provider(provider)
    rough = name_of(operator) in IN_FLOAT32
    wanted = slopes.slopes(slope, slope.session(NUMPY), 1e-2 if rough else slopes.STEP)
    own = slope if provider == NUMPY else slope.narrowed()
    _, *found = own.session(provider).run(None, own.feeds)
    slopes.assert_slopes(slope, wanted, found, 2e-2 if rough else 1e-5 if provider == NUMPY else 2e-4)


@pytest.mark.parametrize(("operator", "sample"), FIRST)
def test_first_samples(operator, sample):
    check(operator, sample, NUMPY)


@pytest.mark.nightly
@pytest.mark.parametrize(("operator", "sample"), OTHERS)
def test_other_samples(operator, sample):
    check(operator, sample, NUMPY)


@pytest.mark.parametrize(("operator", "sample"), MAIN)
@pytest.mark.parametrize("provider", PROVIDERS[1:])
def test_providers(operator, sample, provider):
    check(operator, sample, provider)


@pytest.mark.nightly
@pytest.mark.parametrize(("operator", "sample"), CASES)
@pytest.mark.parametrize("provider", [WASM, WEBGPU])
def test_all_samples_on_providers(operator, sample, provider):
    check(operator, sample, provider)


def test_every_primitive_has_a_rule_or_a_reason():
    for module in pkgutil.iter_modules(primitives.__path__):
        importlib.import_module(f"sardonyx.primitives.{module.name}")
    own = {name for name, known in PRIMITIVES.items() if type(known).__module__.startswith("sardonyx.primitives")}
    spelled = {name for name in own if PRIMITIVES[name].expand is not None}
    known = [*RULES, *NESTED, *UNDEFINED]
    assert len(set(known)) == len(known)
    assert set(known) | spelled >= own >= set(known)
