"""ONNX's own node tests, for every operator that is registered: eager evaluation against the outputs they bring."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

from sardonyx import ops
from tests.support import eager

pytestmark = pytest.mark.slow

LEFT_OUT = {
    "test_bernoulli": "the outputs are random",
    "test_dft_inverse": "zeros are expected to be the 1.9e-7 that complex64 rounds them to, within 1e-7",
}
NAMES = sorted(name for domain, name in ops.load() if domain in ("", "ai.onnx.ml"))


@pytest.fixture(scope="module")
def cases() -> dict[str, list[Any]]:
    """The cases by operator; of one that ONNX expanded, by the first that it consists of."""
    found: dict[str, list[Any]] = defaultdict(list)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in load_model_tests(kind="node"):
            used = {(node.domain, node.op_type) for node in nodes(case.model.graph)}
            local = {(function.domain, function.name) for function in case.model.functions}
            if any(case.name.startswith(name) for name in LEFT_OUT) or any(
                ops.find(*key) is None for key in used - local
            ):
                continue
            found[case.model.graph.node[0].op_type].append(case)
    return found


def nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from nodes(attribute.g)


@pytest.mark.parametrize("name", NAMES)
def test_cases(name: str, cases: dict[str, list[Any]]) -> None:
    failures = [f"{case.name}: {failure}" for case in cases[name] if (failure := failure_of(case))]
    assert not failures


def failure_of(case: Any) -> str:
    """Why a case fails; empty if it does not."""
    for inputs, outputs in case.data_sets:
        feeds = {value.name: plain(item) for value, item in zip(case.model.graph.input, inputs, strict=False)}
        try:
            for found, wanted in zip(eager.evaluate(case.model, feeds), map(plain, outputs), strict=True):
                compare(found, wanted, case.rtol, case.atol)
        except Exception as error:
            return str(error)
    return ""


def plain(item: Any) -> Any:
    """An input or output as arrays, lists of them, or None."""
    if isinstance(item, list):
        return list(map(plain, item))
    if isinstance(item, onnx.TensorProto):
        return numpy_helper.to_array(item)
    return None if item is None else np.asarray(item)


def compare(found: Any, wanted: Any, rtol: float, atol: float) -> None:
    if isinstance(wanted, list):
        for one, other in zip(found, wanted, strict=True):
            compare(one, other, rtol, atol)
        return
    assert found.shape == wanted.shape, f"shape {found.shape}, not {wanted.shape}"
    if wanted.dtype.kind in "OU":
        np.testing.assert_array_equal(found, wanted)
        return
    assert found.dtype == wanted.dtype, f"type {found.dtype}, not {wanted.dtype}"
    if wanted.dtype in (np.float16, ml_dtypes.bfloat16):  # The reference rounds after every step.
        finite = wanted[np.isfinite(wanted)].astype(np.float64)
        rtol, atol = 0, 4 * float(ml_dtypes.finfo(wanted.dtype).eps) * np.abs(finite).max(initial=0)
    np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=rtol, atol=atol)
