"""Every sample of every operator against ONNX's reference evaluator, or onnxruntime where that is the better judge.

`run_sample` runs one on a provider; `eager` means NumPy, node by node. A traced check sees that the expansion also
compiles for sizes that are not known.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import compress
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from sardonyx import errors, ops
from sardonyx.common import dtypes
from sardonyx.common.record import replace
from sardonyx.ops.operator import Operator, Sample
from sardonyx.ops.qlinear import QLinearMatMul
from sardonyx.sizes.polynomial import Poly
from sardonyx.sizes.symbolic import hint, poly
from tests.engine.providers import PROVIDERS, WEBGPU, require_provider
from tests.operators.typed import TypedSample, typed_samples
from tests.support import eager

RUNTIME_OPSET = 21
"""The newest operator set in which onnxruntime has every operator that it judges."""

RUNTIME = {
    "ConvTranspose": "the reference fails on groups and 1-D kernels",
    "Flatten": "the reference fails on no elements",
    "GatherElements": "the reference wants equal sizes on the other axes",
    "GlobalAveragePool": "the reference fails on rank 2",
    "GlobalLpPool": "the reference lacks it",
    "GlobalMaxPool": "the reference gives another rank",
    "LogSoftmax": "the reference underflows",
    "LpNormalization": "the reference forgets magnitudes where p is 1",
    "LRN": "the reference is imprecise",
    "MaxPool": "the reference rounds up wrongly",
    "MaxRoiPool": "the reference lacks it",
    "Mean": "the reference does not broadcast",
    "NonMaxSuppression": "the reference wants all inputs",
    "Pad": "the reference takes no negative widths",
    "QuantizeLinear": "the reference does not saturate infinities",
    "ReduceLogSumExp": "the reference fails on scalars",
    "ReduceSumSquare": "the reference gives int64",
    "StringNormalizer": "the reference minds the case of stop words",
    "TfIdfVectorizer": "the reference takes weights by column",
}
"""Operators of ai.onnx that onnxruntime judges, and why."""


def one_hot(indices: np.ndarray, depth: np.ndarray, values: np.ndarray, axis: int = -1) -> list[np.ndarray]:
    size = int(depth.item())
    index = indices.astype(np.int64)
    index = np.expand_dims(np.where(index < 0, index + size, index), axis)
    places = np.arange(size).reshape([-1 if k == axis % index.ndim else 1 for k in range(index.ndim)])
    return [np.where(index == places, values[1], values[0])]


ROUNDING = {
    "GridSample": "the reference rounds weights to integers",
    "SVMRegressor": "the reference rounds results to integers",
}
"""Operators that are judged by float32 in all types, and why."""

ORACLES = {("", "OneHot"): one_hot}
"""What judges operators, by domain and name, that neither judges in all types, or at all.

It is called with the inputs, and the attributes by name, and gives the list of results.
"""

STANDARD = {"MicrosoftQLinearMatMul": QLinearMatMul}
"""Operators of com.microsoft that onnxruntime writes and does not run: they are judged as ONNX's."""

OF_SCALE = {"RMSNormalization"}
"""Their output has the type of the second input, V in the schema; ONNX infers that of the first."""

OVERFLOWS = {"ReduceL2", "ReduceMean", "RMSNormalization"}
"""Operators whose float16 both judges take in float16 where ONNX does not: they are judged in float32."""

TIED = {
    "AffineGrid": "the matrices have one form for two axes, and one for three",
    "ConstantOfShape": "the input counts the axes",
    "Conv": "the channels of x are those of w times the groups",
    "DFT": "the last axis counts the parts of complex numbers",
    "Expand": "a constant shape",
    "FusedConv": "the shape of what is added",
    "GatherND": "the last axis of the indices counts axes",
    "GridSample": "the last axis of the grid counts axes",
    "Imputer": "attributes count the features",
    "LinearClassifier": "attributes count the features",
    "LinearRegressor": "attributes count the features",
    "Reshape": "a constant shape",
    "Resize": "the size to which an axis shrinks chooses the filter",
    "SVMClassifier": "attributes count the features",
    "SVMRegressor": "attributes count the features",
    "Scaler": "attributes count the features",
    "STFT": "the last axis counts the parts of complex numbers",
    "ScatterND": "the last axis of the indices counts axes",
    "Split": "constant sizes of the parts",
}
"""Operators that may tie sizes to numbers, and by what."""

SETTLED = (
    "axes axis shape starts ends steps pads repeats k depth split size sizes scales roi output_shape image_shape "
    "block_shape training_mode"
)
"""Inputs, by their names in ONNX's schemas, that models give as constants: shapes depend on them."""


def _types(name: str) -> set[str]:
    """The types of tensors that an operator takes first."""
    inputs = onnx.defs.get_schema(name, 28).inputs if onnx.defs.has(name, 28) else ()
    return set(inputs[0].types) if inputs else set()


CASES = [
    pytest.param(operator, sample, id=f"{domain}.{name}-{number}" if domain else f"{name}-{number}")
    for (domain, name), operator in sorted(ops.load().items())
    for number, sample in enumerate(operator.samples)
]

TYPED = [pytest.param(operator, sample, id=name) for name, operator, sample in typed_samples()]
"""The same operators in every type that ONNX allows."""


def name_of(operator: type[Operator]) -> str:
    return next(name for (_, name), known in ops.load().items() if known is operator)


def model_of(operator: type[Operator], sample: Sample, opset: int = 28) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """A model of one node, and its feeds; inputs that shapes depend on are constants."""
    name, domain = name_of(operator), operator.domain
    schema = onnx.defs.get_schema(name, opset, domain) if onnx.defs.has(name, opset, domain) else None
    feeds: dict[str, np.ndarray] = {}
    constants, inputs, names = [], [], []
    for number, array in enumerate(sample.arrays()):
        formal = schema.inputs[min(number, len(schema.inputs) - 1)].name if schema and schema.inputs else ""
        names.append("" if array is None else f"x{number}")
        if array is None:
            continue
        if formal.lower() in SETTLED.split():
            constants.append(numpy_helper.from_array(array, names[-1]))
        else:
            feeds[names[-1]] = array
            dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
            inputs.append(helper.make_tensor_value_info(names[-1], dtype, [None] * array.ndim))
    outputs = [f"y{number}" for number in range(sample.outputs)]
    node = helper.make_node(name, names, outputs, domain=domain)
    for key, value in sample.attributes.items():
        node.attribute.append(attribute(key, value, schema))
    results = [onnx.ValueInfoProto(name=output) for output in outputs]
    graph = helper.make_graph([node], name, inputs, results, constants)
    form = schema.since_version if schema else 1
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(domain, form)] * bool(domain)
    return helper.make_model(graph, opset_imports=imports, ir_version=10), feeds


def attribute(key: str, value: Any, schema: Any) -> onnx.AttributeProto:
    if isinstance(value, np.ndarray):
        value = numpy_helper.from_array(value)
    kind = schema.attributes[key].type.value if schema and key in schema.attributes else None
    return helper.make_attribute(key, value, attr_type=kind)


def expected(operator: type[Operator], sample: Sample) -> list[np.ndarray]:
    """What the outputs of a sample should be."""
    if isinstance(sample, TypedSample):
        return expected_of_type(operator, sample)
    operator = STANDARD.get(operator.__name__, operator)
    name = name_of(operator)
    if oracle := ORACLES.get((operator.domain, name)):
        return oracle(*sample.arrays(), **sample.attributes)
    if name in OVERFLOWS:
        inputs = [half.astype(np.float32) if _is_half(half) else half for half in sample.arrays()]
        wanted = expected_in_type(operator, replace(sample, inputs=tuple(inputs)))
        return [array.astype(np.float16) for array in wanted] if any(map(_is_half, sample.arrays())) else wanted
    return expected_in_type(operator, sample)


def expected_in_type(operator: type[Operator], sample: Sample) -> list[np.ndarray]:
    try:
        by_runtime = operator.domain or name_of(operator) in RUNTIME
        return expected_by_runtime(operator, sample) if by_runtime else expected_by_reference(operator, sample)
    except Exception as error:
        name = name_of(operator)
        place = f"ORACLES[{operator.domain!r}, {name!r}]"
        error.add_note(f"the judge of {name} fails; if it lacks the operator, name a function in {place} of {__name__}")
        raise


def expected_by_runtime(operator: type[Operator], sample: Sample) -> list[np.ndarray]:
    model, feeds = model_of(operator, sample, RUNTIME_OPSET)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def expected_of_type(operator: type[Operator], sample: TypedSample) -> list[np.ndarray]:
    """The outputs of a sample in another type, in the types that ONNX infers, if it does."""
    own, model = Sample(sample.inputs, sample.attributes, sample.outputs), model_of(operator, sample)[0]
    wanted = None
    if not sample.is_half and name_of(operator) not in ROUNDING:
        for judge in (expected, expected_by_reference):
            with suppress(Exception):  # each lacks operators in some types
                wanted = judge(operator, own)
                break
    inferred = onnx.shape_inference.infer_shapes(model).graph.output
    numbers = [value.type.tensor_type.elem_type for value in inferred]
    if name_of(operator) in OF_SCALE:
        numbers = [helper.np_dtype_to_tensor_dtype(sample.arrays()[1].dtype)]
    with np.errstate(all="ignore"):
        found = wanted or expected(operator, sample.base)
        usual = [sample.dtype.number if sample.is_half and x.dtype == np.float32 else 0 for x in found]
        types = [known or other for known, other in zip(numbers, usual, strict=True)]
        return [
            array.astype(helper.tensor_dtype_to_np_dtype(number)) if number else array
            for array, number in zip(found, types, strict=True)
        ]


def expected_by_reference(operator: type[Operator], sample: Sample) -> list[np.ndarray]:
    model, feeds = model_of(operator, sample)
    with np.errstate(all="ignore"):
        return [np.asarray(array) for array in ReferenceEvaluator(model).run(None, feeds)]


def _is_half(array: np.ndarray | None) -> bool:
    return array is not None and array.dtype == np.float16


def run_sample(operator: type[Operator], sample: Sample, provider: str, **options: str) -> list[np.ndarray]:
    """The outputs of a sample on a provider with these options, or of `eager` evaluation."""
    model, feeds = model_of(operator, sample)
    if provider == "eager":
        return eager.evaluate(model, feeds)
    from sardonyx import InferenceSession

    return list(InferenceSession(model.SerializeToString(), providers=[(provider, options)]).run(None, feeds))


def assert_near(found: list[np.ndarray], wanted: list[np.ndarray], tolerance: float, closely: bool = False) -> None:
    """Assert equal shapes and types, and values within the tolerance of the largest one.

    Floats that are to be near `closely` are within the tolerance of each, and a tenth of that of the largest one.
    """
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        if one.dtype == object:
            np.testing.assert_array_equal(one, other)
            continue
        a, b = one.astype(np.float64), other.astype(np.float64)
        finite = np.isfinite(b)
        np.testing.assert_array_equal(a[~finite], b[~finite])
        assert np.isfinite(a[finite]).all()
        scale = np.abs(b[finite]).max(initial=0.0)
        error = np.abs(a[finite] - b[finite])
        limit = np.full(error.shape, scale)
        if closely and other.dtype.kind == "f":
            limit = np.abs(b[finite]) + 0.1 * scale
        assert (error <= tolerance * limit).all(), f"off by {error.max():.3g} where the largest value is {scale:.3g}"


@pytest.mark.parametrize(("operator", "sample"), CASES)
@pytest.mark.parametrize("provider", [pytest.param("eager", id="eager"), *PROVIDERS])
def test_sample(operator: type[Operator], sample: Sample, provider: str) -> None:
    require_provider(provider)
    assert_near(run_sample(operator, sample, provider), expected(operator, sample), sample.tolerance, closely=True)


def check_typed(operator: type[Operator], sample: TypedSample, provider: str, **options: str) -> None:
    """A typed sample on a provider, with options."""
    require_provider(provider)
    found = run_sample(operator, sample, provider, **options)
    assert_near(found, expected(operator, sample), sample.tolerance)


@pytest.mark.parametrize(("operator", "sample"), TYPED[::10])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_tenth_of_the_types(operator: type[Operator], sample: TypedSample, provider: str) -> None:
    check_typed(operator, sample, provider)


@pytest.mark.nightly
@pytest.mark.parametrize(("operator", "sample"), [case for k, case in enumerate(TYPED) if k % 10])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_all_types(operator: type[Operator], sample: TypedSample, provider: str) -> None:
    check_typed(operator, sample, provider)


HALVES = [case for case in TYPED if case.values[1].dtype is dtypes.float16]


@pytest.mark.parametrize(("operator", "sample"), HALVES[::10])
def test_a_tenth_in_native_halves(operator: type[Operator], sample: TypedSample) -> None:
    """float16 as f16 in memory, where the GPU can."""
    check_typed(operator, sample, WEBGPU, float16="native")


@pytest.mark.nightly
@pytest.mark.parametrize(("operator", "sample"), [case for k, case in enumerate(HALVES) if k % 10])
def test_all_in_native_halves(operator: type[Operator], sample: TypedSample) -> None:
    check_typed(operator, sample, WEBGPU, float16="native")


@pytest.mark.parametrize(("operator", "sample"), CASES)
def test_traced(operator: type[Operator], sample: Sample) -> None:
    """With symbolic sizes types and shapes come out as they do eagerly, and no size is tied to its number.

    The same equations give what eager evaluation gives, for these sizes and, where legal, for larger ones.
    """
    model, feeds = model_of(operator, sample)
    wanted = eager.evaluate(model, feeds)
    traced = eager.trace(model, feeds)
    with traced.guards:
        for array, value in zip(traced.outputs, wanted, strict=True):
            assert array.dtype is eager.of_array(value).dtype
            assert len(array.shape) == value.ndim
            known = [poly(size).symbols().isdisjoint(traced.fresh) for size in array.shape]
            assert list(compress(map(hint, array.shape), known)) == list(compress(value.shape, known))
    tied = [str(p) for p, relation, truth in traced.guards if relation == "==" and truth and _is_number(p)]
    assert not tied or name_of(operator) in TIED
    if not traced.fresh and not any(equation.bodies for equation in traced.equations):
        assert_near(eager.replay(traced, feeds), wanted, 1e-6)
        grown = {name: np.resize(array, [size + (size > 1) for size in array.shape]) for name, array in feeds.items()}
        with suppress(eager.GuardError, errors.RuntimeException):
            wanted = eager.evaluate(model, grown)
            assert_near(eager.replay(traced, grown), wanted, 1e-6)


def _is_number(polynomial: Poly) -> bool:
    """Whether its being 0 says that sizes have a certain number."""
    return bool(polynomial.terms) and polynomial.terms[0][0] == ()


OF_FLOATS = [
    pytest.param(operator, operator.samples[0], id=name)
    for (domain, name), operator in sorted(ops.load().items())
    if domain == ""
    and name != "BitCast"
    and operator.samples
    and all(isinstance(item, tuple) for item in operator.samples[0].inputs)
    and {"tensor(bfloat16)", "tensor(float16)"} <= _types(name)
]
FLOATS = {"float16": (ml_dtypes.finfo(np.float16).eps, np.float16), "bfloat16": (2.0**-7, ml_dtypes.bfloat16)}


@pytest.mark.parametrize("type_name", FLOATS)
@pytest.mark.parametrize(("operator", "sample"), OF_FLOATS)
def test_half(operator: type[Operator], sample: Sample, type_name: str) -> None:
    """16-bit floats give what float32 gives for the same values, to four units in the last place of the largest one."""
    epsilon, dtype = FLOATS[type_name]
    arrays = [array.astype(dtype) for array in sample.arrays() if array is not None]
    wide = replace(sample, inputs=tuple(array.astype(np.float32) for array in arrays))
    model, feeds = model_of(operator, replace(sample, inputs=tuple(arrays)))
    found = eager.evaluate(model, feeds)
    for one, other in zip(found, expected(operator, wide), strict=True):
        kept = other.dtype != np.float32 or one.dtype == np.float32
        assert one.dtype == (other.dtype if kept else dtype)
        assert_near([one.astype(other.dtype)], [other], 4 * epsilon)
