"""What is known to be wrong in ONNX's reference evaluator and in onnxruntime, and so does not judge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sardonyx.common import dtypes
from tests.support.saturation import WEIGHTS, saturates

from .strategies.call import Call

MEMBER = 6
"""The mode of a node of TreeEnsemble that looks into a set."""
REFERENCE, RUNTIME = ("reference",), ("runtime",)
BOTH = REFERENCE + RUNTIME


@dataclass(frozen=True)
class Fault:
    """Judges, the operators that they get wrong, when they do (always, if not said), and how."""

    judges: tuple[str, ...]
    operators: str
    reason: str
    when: Callable[[Call], Any] = lambda _: True

    def applies(self, judge: str, call: Call) -> bool:
        return judge in self.judges and call.op_type in self.operators.split() and bool(self.when(call))


def has(name: str, *values: Any) -> Callable[[Call], bool]:
    """Whether an attribute has one of these values."""
    return lambda call: call.attributes.get(name) in values


def has_any(call: Call, names: str) -> bool:
    """Whether one of these attributes is there."""
    return any(name in call.attributes for name in names.split())


def empty(call: Call) -> bool:
    """Whether an input that is no list of axes has no elements."""
    return any(isinstance(x, np.ndarray) and x.size == 0 for k, x in enumerate(call.inputs) if k not in call.constant)


def saturated(call: Call) -> bool:
    """Whether products of bytes have weights of int8, and this processor adds two of them in 16 bits."""
    (weights,) = WEIGHTS[call.op_type]
    return call.inputs[weights].dtype == np.int8 and saturates()


def affine(call: Call) -> bool:
    """Whether a recurrent node's activations are the identity, for want of alphas."""
    return "Affine" in call.attributes.get("activations", ()) and "activation_alpha" not in call.attributes


def scan_rank(call: Call) -> int:
    """The rank of what each turn of a Loop gives."""
    return len(call.attributes["body"].output[-1].type.tensor_type.shape.dim)


OF_INTEGERS = (
    "DictVectorizer FeatureVectorizer LinearClassifier LinearRegressor Normalizer SVMClassifier SVMRegressor Scaler "
    "TreeEnsembleClassifier TreeEnsembleRegressor"
)


def none_taken(most: np.ndarray | None, going: np.ndarray | None) -> bool:
    """Whether a Loop ends before it begins."""
    return (most is not None and not most) or (going is not None and not going)


def past(call: Call) -> bool:
    """Whether an Attention is given keys of before."""
    return len(call.inputs) > 4 and call.inputs[4] is not None


REDUCTIONS = (
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare"
)


def rank(call: Call, number: int = 0) -> int:
    return int(call.inputs[number].ndim)


def holds(test: Callable[[np.ndarray], np.ndarray]) -> Callable[[Call], bool]:
    """Whether a tensor of floats has elements of which this is true."""

    def holds_one(call: Call) -> bool:
        arrays = (
            x for x in call.inputs if isinstance(x, np.ndarray) and dtypes.of(x.dtype).kind in ("float", "complex")
        )
        return any(test(x.astype(np.complex128)).any() for x in arrays)

    return holds_one


def leaps(call: Call) -> bool:
    """Whether windows that are padded as needed are narrower than their strides."""
    kernel, strides = (call.attributes.get(name, ()) for name in ("kernel_shape", "strides"))
    return "auto_pad" in call.attributes and any(a < b for a, b in zip(kernel, strides))


def keeps(call: Call) -> bool:
    """Whether a Resize takes a region and leaves sizes as they are."""
    is_region = call.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    return is_region and call.inputs[2] is not None and bool((call.inputs[2] == 1).all())


def turns_back(call: Call) -> bool:
    """Whether a Slice goes backwards from the greatest of integers."""
    _, _, ends, _, steps = call.inputs
    greatest = (np.iinfo(np.int32).max, np.iinfo(np.int64).max)
    return steps is not None and any(end in greatest and step < 0 for end, step in zip(ends, steps))


def of_kind(kinds: str) -> Callable[[Call], bool]:
    """Whether the first input has elements of these kinds."""
    return lambda call: call.inputs[0].dtype.kind in kinds


FAULTS = [
    Fault(REFERENCE, OF_INTEGERS, "keeps types and lacks attributes: onnxruntime defines these"),
    Fault(REFERENCE, "TreeEnsemble", "transforms nothing", lambda call: call.attributes.get("post_transform")),
    Fault(REFERENCE, "TreeEnsemble", "gives targets of no leaf the greatest number", has("aggregate_function", 2, 3)),
    Fault(
        REFERENCE,
        "TreeEnsemble",
        "does not find all members of sets",
        lambda call: MEMBER in call.attributes["nodes_modes"],
    ),
    Fault(REFERENCE, "AffineGrid", "gives float32", lambda call: call.inputs[0].dtype != np.float32),
    Fault(
        REFERENCE,
        "ConvTranspose",
        "adds the first group's bias to all",
        lambda call: call.attributes.get("group", 1) > 1,
    ),
    Fault(REFERENCE, "Expand", "multiplies complex infinities by 1", lambda c: of_kind("c")(c) and holds(np.isinf)(c)),
    Fault(
        BOTH,
        "Pow",
        "make integers of what is no number",
        lambda c: of_kind("iu")(c) and dtypes.of(c.inputs[1].dtype).is_float,
    ),
    Fault(REFERENCE, "ReduceLogSumExp", "subtracts infinities", holds(np.isinf)),
    Fault(
        REFERENCE,
        "ReduceMean",
        "makes the least integer of the mean of none",
        lambda c: of_kind("iu")(c) and not c.inputs[0].size,
    ),
    Fault(
        REFERENCE,
        "Resize",
        "takes sizes that are not whole",
        has("coordinate_transformation_mode", "pytorch_half_pixel", "tf_crop_and_resize"),
    ),
    Fault(REFERENCE, "DynamicQuantizeLinear", "gives zeros a scale of 1 / 255", lambda call: not call.inputs[0].any()),
    Fault(REFERENCE, "GRU LSTM RNN", "forgets lengths", lambda call: call.inputs[4] is not None),
    Fault(RUNTIME, "GRU LSTM RNN", "takes 0 for an alpha of Affine that is not given", affine),
    Fault(REFERENCE, "RNN", "forgets bounds", lambda call: has_any(call, "clip")),
    Fault(REFERENCE, "GRU LSTM", "forgets bounds and functions", lambda c: has_any(c, "clip activations input_forget")),
    Fault(REFERENCE, "LpPool", "pads otherwise where it rounds up", has("ceil_mode", 1)),
    Fault(
        REFERENCE, "SequenceInsert", "inserts first what goes last", lambda call: call.inputs[2] == len(call.inputs[0])
    ),
    Fault(REFERENCE, "StringNormalizer", "heeds the case of stop words", has("case_change_action", None, "NONE")),
    Fault(REFERENCE, "StringSplit", "keeps blanks at the end", has("delimiter", None, "")),
    Fault(REFERENCE, "TfIdfVectorizer", "takes weights by column", lambda call: "weights" in call.attributes),
    Fault(REFERENCE, "BatchNormalization", "gives statistics the type of X", has("training_mode", 1)),
    Fault(
        REFERENCE,
        "AveragePool LpPool",
        "forgets dilations",
        lambda c: has("auto_pad", "VALID")(c) and has_any(c, "dilations"),
    ),
    Fault(REFERENCE, "Gelu", "takes erf for tanh", has("approximate", "tanh")),
    Fault(REFERENCE, "GlobalMaxPool", "gives another rank", lambda call: rank(call) != 4),
    Fault(REFERENCE, "LRN", "counts batches for channels", lambda c: c.inputs[0].shape[0] < c.inputs[0].shape[1]),
    Fault(REFERENCE, "LayerNormalization", "gives statistics the type of X", lambda call: call.outputs > 1),
    Fault(REFERENCE, "LogSoftmax", "underflows"),
    Fault(REFERENCE, "LpNormalization", "forgets magnitudes", has("p", 1)),
    Fault(
        REFERENCE, "MaxPool", "pads by negative numbers, rounds up wrongly", lambda c: has_any(c, "auto_pad ceil_mode")
    ),
    Fault(REFERENCE, "MaxPool", "gives other places", lambda call: call.outputs == 2),
    Fault(REFERENCE, "OneHot", "subtracts and adds again", lambda call: call.halves),
    Fault(REFERENCE, "QuantizeLinear", "makes integers of infinities", holds(np.isinf)),
    Fault(REFERENCE, "QLinearConv", "gives groups, and kernels of one axis, wrong shapes"),
    Fault(REFERENCE, "Loop", "gives scalars an axis", lambda call: not scan_rank(call)),
    Fault(REFERENCE, "Loop", "takes no condition for one that does not hold", lambda call: call.inputs[1] is None),
    Fault(
        REFERENCE,
        "NegativeLogLikelihoodLoss",
        "counts what is ignored",
        lambda c: c.attributes.get("ignore_index", 0) < 0,
    ),
    Fault(REFERENCE, "Optional", "gives a list"),
    Fault(REFERENCE, "RMSNormalization", "gives the type of X", lambda c: c.inputs[0].dtype != c.inputs[1].dtype),
    Fault(REFERENCE, "ReduceSumSquare", "gives int64 for a scalar", of_kind("iu")),
    Fault(REFERENCE, "CenterCropPad Trilu", "puts the number 0 among strings", of_kind("O")),
    Fault(REFERENCE, "Unique", "always sorts", has("sorted", 0)),
    Fault(RUNTIME, "Col2Im", "forgets the dilation of one axis", lambda call: len(call.inputs[1]) == 1),
    Fault(RUNTIME, "Col2Im", "forgets dilations of volumes", lambda call: len(call.inputs[1]) > 2),
    Fault(RUNTIME, "Clip", "takes what is no number for no bound", holds(np.isnan)),
    Fault(
        REFERENCE, "Attention", "caps what it gives before capping", lambda c: c.outputs == 4 and has_any(c, "softcap")
    ),
    Fault(
        RUNTIME,
        "Attention",
        "looks at none but the first of what is past",
        lambda c: has("is_causal", 1)(c) and past(c),
    ),
    Fault(RUNTIME, "Attention", "gives the lowest number for what is masked", lambda call: call.outputs == 4),
    Fault(RUNTIME, "DFT", "takes other bins", lambda c: c.attributes["inverse"] and c.attributes["onesided"]),
    Fault(RUNTIME, "CastMap", "fills up with 0.f", has("map_form", "SPARSE")),
    Fault(RUNTIME, "FusedMatMul TransposeMatMul", "does not stack products of nothing", empty),
    Fault(RUNTIME, "Loop", "knows no sizes of what no turn gave", lambda c: none_taken(*c.inputs[:2])),
    Fault(RUNTIME, "BiasGelu", "loses digits where erf is nearly -1", holds(lambda x: x.real < -1)),
    Fault(RUNTIME, "FastGelu Gelu", "loses digits where tanh is nearly -1", holds(lambda x: x.real < -2)),
    Fault(BOTH, "Shrink", "takes integers for floats", of_kind("iu")),
    Fault(RUNTIME, "Mod", "takes integers for doubles", lambda c: of_kind("iu")(c) and has("fmod", 1)(c)),
    Fault(RUNTIME, "GlobalMaxPool ReduceMax ReduceMin", "passes over what is no number", holds(np.isnan)),
    Fault(RUNTIME, "LogSoftmax", "gives numbers for what is none", holds(lambda x: ~np.isfinite(x))),
    Fault(RUNTIME, "LpPool MaxPool MaxpoolWithMask NhwcMaxPool", "pads by negative numbers", leaps),
    Fault(RUNTIME, "MatMul", "does not stack products of nothing", empty),
    Fault(RUNTIME, "MatMulInteger QLinearMatMul", "leaves sums of nothing undefined", empty),
    Fault(RUNTIME, "MatMulInteger QLinearMatMul", "adds products of bytes in 16 bits", saturated),
    Fault(RUNTIME, "MaxUnpool", "takes indices for those of the asked shape", lambda call: call.inputs[2] is not None),
    Fault(RUNTIME, "NonZero", "takes a scalar as a row of one", lambda call: rank(call) == 0),
    Fault(RUNTIME, "QLinearSoftmax", "gives 0 for one element", lambda c: c.inputs[0].shape[c.attributes["axis"]] == 1),
    Fault(RUNTIME, "Resize", "passes over regions where sizes stay", keeps),
    Fault(RUNTIME, "Shrink", "takes unsigned integers as signed ones", of_kind("u")),
    Fault(RUNTIME, "Slice", "takes the greatest end for the first of all, going backwards", turns_back),
    Fault(RUNTIME, "StringSplit", "finds nothing in what is empty", lambda call: "" in call.inputs[0].ravel().tolist()),
    Fault(RUNTIME, REDUCTIONS + " ArgMax ArgMin", "does not know negative axes of nothing", empty),
]
