"""Samples of operators in every element type that ONNX's schemas allow, made from the samples that operators declare.

A type variable of a schema is given each of its types in turn, one case for each. Floats of 16 bits are judged by what
float32 gives for the same values; others by the reference in that type or, where that fails, in the types of the
declared sample.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import onnx

from sardonyx import ops
from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.common.record import field, record, replace
from sardonyx.ops.operator import Operator, Sample

OPSETS = {"": 28, "ai.onnx.ml": 5}
LEFT_OUT = frozenset({"string", "complex64", "complex128", "float64"})
"""Types that GPUs lack; samples that operators declare have them."""
SPREAD = 3.0
"""How far noise is spread where it becomes integers."""
TOLERANCES = {"float16": 2e-3, "bfloat16": 2.0**-7}
"""Relative to the largest value; other types have that of the sample."""
UNJUDGED = {
    ("BitCast", "T1", ""): "the type that it gives has the same width",
    ("CastLike", "T2", "int8"): "what becomes of floats out of range is left open",
    ("CastLike", "T2", "uint"): "what becomes of floats out of range is left open",
    ("DequantizeLinear", "T2", "float8e8m0"): "what E8M0 makes of 0 and of negative numbers is left open",
    ("Imputer", "T", ""): "the type decides which attributes it has",
    ("LabelEncoder", "T1", ""): "the type decides which attributes it has",
    ("Pad", "T", "float8e8m0"): "what E8M0 makes of 0 and of negative numbers is left open",
    ("QLinearMatMul", "T3", "float"): "the reference lacks it",
}
"""Operator, type variable and the beginning of the types that have no judge, and why."""


@record(frozen=True)
class TypedSample(Sample):
    """A sample in which a type variable of the schema is `dtype`; `base` has its values in the declared types."""

    base: Sample = field(default_factory=lambda: Sample((), {}))
    dtype: DType = dtypes.float32

    @property
    def is_half(self) -> bool:
        return self.dtype in (dtypes.float16, dtypes.bfloat16)


def typed_samples() -> Iterator[tuple[str, type[Operator], TypedSample]]:
    """Name, operator and sample of each case."""
    for (domain, name), operator in sorted(ops.load().items()):
        if domain not in OPSETS or not onnx.defs.has(name, OPSETS[domain], domain):
            continue
        schema = onnx.defs.get_schema(name, OPSETS[domain], domain)
        for constraint in schema.type_constraints:
            variable = constraint.type_param_str
            calls = [(sample, places) for sample in operator.samples if (places := _places(schema, sample, variable))]
            declared = {dtypes.of(arrays[k].dtype) for sample, k in calls for arrays in [sample.arrays()] for k in k}
            for dtype in _types(constraint.allowed_type_strs):
                if dtype in declared or any(
                    (name, variable) == key[:2] and dtype.name.startswith(key[2]) for key in UNJUDGED
                ):
                    continue
                made = next(filter(None, (_typed(schema, sample, places, dtype) for sample, places in calls)), None)
                if made is not None:
                    yield f"{name}-{variable}-{dtype}", operator, made


def _types(allowed: list[str]) -> list[DType]:
    known = {f"tensor({dtype.onnx_name})": dtype for dtype in dtypes.ALL if dtype.name not in LEFT_OUT}
    return [known[text] for text in sorted(allowed) if text in known]


def _formal(schema: Any, place: int) -> Any:
    return schema.inputs[min(place, len(schema.inputs) - 1)]


def _places(schema: Any, sample: Sample, variable: str) -> list[int]:
    """Which inputs of a sample have the type of a type variable, if none of them are strings."""
    arrays = sample.arrays()
    places = [k for k, x in enumerate(arrays) if x is not None and _formal(schema, k).type_str == variable]
    return [] if any(arrays[k].dtype == object for k in places) else places


def _typed(schema: Any, sample: Sample, places: list[int], dtype: DType) -> TypedSample | None:
    """The sample with this type at these places; None if it lacks values that are there."""
    base = sample.arrays()
    typed = list(base)
    for k in places:
        array = base[k]
        if array.dtype.kind == "f" and not dtype.is_float:
            noise = isinstance(sample.inputs[k], tuple)
            array = np.round(array * SPREAD) if noise else np.copysign(np.ceil(np.abs(array)), array)
        if _formal(schema, k).name.endswith("zero_point") and dtype.is_float:
            array = np.zeros_like(array)
        if not _holds(array, dtype):
            return None
        typed[k] = np.asarray(_as(np.abs(array) if dtype.kind == "uint" else array, dtype))
        base[k] = typed[k].astype(np.float32 if base[k].dtype.kind == "f" else base[k].dtype)
    tolerance = TOLERANCES.get(dtype.name, sample.tolerance)
    known = replace(sample, inputs=tuple(base))
    return TypedSample(tuple(typed), sample.attributes, sample.outputs, tolerance, known, dtype)


def _holds(array: np.ndarray, dtype: DType) -> bool:
    """Whether a type has numbers such as these."""
    if dtype.kind == "bool":
        return True
    if dtype.is_float:
        wide = np.abs(array.astype(np.float64))
        most = float(ml_dtypes.finfo(onnx.helper.tensor_dtype_to_np_dtype(dtype.number)).max)
        return dtype.bits <= 8 or bool((~np.isfinite(wide) | (wide <= most)).all())
    low = -(1 << (dtype.bits - 1)) if dtype.kind == "int" else 0
    wide = np.abs(array.astype(np.float64)) if dtype.kind == "uint" else array.astype(np.float64)
    return bool(np.isfinite(wide).all()) and bool(((wide >= low) & (wide < low + 2.0**dtype.bits)).all())


def _as(array: np.ndarray, dtype: DType) -> np.ndarray:
    want = onnx.helper.tensor_dtype_to_np_dtype(dtype.number)
    if dtype.kind == "bool":
        return np.asarray(array > 0)
    if dtype.is_native:
        return array.astype(want)
    wide = array.astype(np.float32)
    if dtype.is_float and dtype.bits <= 8:
        most = float(ml_dtypes.finfo(want).max)
        wide = np.clip(np.nan_to_num(wide), -most, most)
    return wide.astype(want)
