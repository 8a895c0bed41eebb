"""What a quantized model becomes while it is trained: floats, rounded as integers are, with gradients through it.

A pair of QuantizeLinear and DequantizeLinear with scale s becomes s (c + e), where c is x / s, clipped to the integers'
range, and e = round(c) - c is taken for a constant: the gradient of x is passed on within the range (the
straight-through estimator: Bengio, Leonard and Courville, 2013), and that of s is round(c) - c within it and the bound
outside (learnt step sizes: Esser et al., 2019).

Trained is not x itself. A weight is trained in steps of its first scale s0, so that one rate suits all tensors, and its
scale as v in s = s0 exp(v / 20).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sardonyx.common import dtypes
from sardonyx.common.record import field, record
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Node, Value
from sardonyx.training.draft import Draft

SLOWER = 20
"""A scale changes by so much less, in the same number of steps, than a weight."""
FAINT = 1e-3
"""The least step of a bias, over the largest scale of weights."""
NEAR = 0.05
"""A step of a bias, over the root of the mean of its squares."""
WIDE = 20
"""Integers of more bits than that are biases, and not rounded while they are trained."""


@record
class Scale:
    """A scale that is trained, shared by whatever reads the same initializer."""

    initializer: str
    first: NDArray[np.float32]
    parameter: str

    def after(self, trained: NDArray[np.float32]) -> NDArray[np.float32]:
        """What it has become."""
        return (self.first * np.exp(trained / SLOWER)).astype(np.float32)


@record
class Weight:
    """A constant that is trained: integers of a DequantizeLinear, in steps of `step`."""

    integers: str
    parameter: str
    step: NDArray[np.float32]
    scale: Scale | None
    """None for a bias, whose scale follows those of the product that adds it."""
    shape: tuple[int, ...]
    """In which scale and zero point are broadcast to the constant."""
    zero: NDArray[np.int64]
    node: Node


@record
class Rounded:
    """A model under construction, what is trained of it, and the tensors that count as constant."""

    draft: Draft
    weights: list[Weight] = field(default_factory=list)
    scales: dict[str, Scale] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)


def rounded(draft: Draft) -> Rounded:
    """Replace all pairs of a model. Raises InvalidArgument where it has none, or operators on integers."""
    found = Rounded(draft)
    pairs = [node for node in draft.graph.nodes if node.op_type == "DequantizeLinear"]
    for node in draft.graph.nodes:
        if node.op_type.startswith(("QLinear", "QGemm", "MatMulInteger", "ConvInteger", "MatMulNBits", "DynamicQuant")):
            raise InvalidArgument(
                f"{node.op_type} {node.name!r} computes on integers, which have no gradient: quantize in the format qdq"
            )
    for node in pairs:
        source = node.inputs[0]
        assert source is not None
        if source.constant is not None:
            _weight(found, node, source)
        elif source.producer is not None and source.producer.op_type == "QuantizeLinear":
            _activation(found, node, source.producer)
        else:
            raise InvalidArgument(f"DequantizeLinear {node.name!r} reads {source.name!r}, which is not quantized here")
    if not found.weights:
        raise InvalidArgument(
            "the model has no weights behind a DequantizeLinear: quantize it first, in the format qdq"
        )
    gone = set(pairs) | {
        node for node in draft.graph.nodes if node.op_type == "QuantizeLinear" and _only_pairs(draft, node, set(pairs))
    }
    draft.graph.nodes = [node for node in draft.graph.nodes if node not in gone]
    read = {value for node in draft.graph.all_nodes() for value in node.inputs}
    draft.graph.initializers = [value for value in draft.graph.initializers if value in read]
    return found


def _only_pairs(draft: Draft, node: Node, pairs: set[Node]) -> bool:
    return all(reader in pairs for reader in draft.graph.nodes if node.outputs[0] in reader.inputs)


def _weight(found: Rounded, node: Node, source: Value) -> None:
    """A constant's integers become a parameter in floats."""
    draft, integers = found.draft, _array(source).astype(np.int64)
    scale, zero, shape = _parts(node, integers.shape)
    parameter = draft.fresh(f"{source.name}_trained")
    assert source.constant is not None
    if source.constant.dtype.bits > WIDE:
        exact = (integers - zero.reshape(shape)) * scale.reshape(shape).astype(np.float64)
        size = max(float(np.sqrt(np.mean(exact**2))) * NEAR, FAINT * float(scale.max()))
        step = np.full((), size, np.float32)
        draft.constant((exact / size).astype(np.float32), parameter)
        _put(draft, node, draft.add("Mul", [parameter, draft.constant(step, "step")]))
        found.weights.append(Weight(source.name, parameter, step, None, shape, zero, node))
        return
    draft.constant((integers - zero.reshape(shape)).astype(np.float32), parameter)
    owner = _scale(found, node)
    ratio = draft.add("Reshape", [_exp(found, owner, -1), draft.constant(np.array(shape, np.int64), "shape")])
    steps = draft.add("Mul", [parameter, ratio])
    wide = draft.add("Mul", [_exp(found, owner, 1), draft.constant(owner.first, "first")])
    again = draft.add("Reshape", [wide, draft.constant(np.array(shape, np.int64), "shape")])
    _put(draft, node, _passing(found, steps, again, zero.reshape(shape), source))
    found.weights.append(Weight(source.name, parameter, owner.first.reshape(shape), owner, shape, zero, node))


def _activation(found: Rounded, node: Node, before: Node) -> None:
    """A pair becomes a rounding."""
    draft, x = found.draft, before.inputs[0]
    assert x is not None
    _, zero, shape = _parts(before, ())
    owner = _scale(found, before)
    wide = draft.add("Mul", [_exp(found, owner, 1), draft.constant(owner.first, "first")])
    scale = draft.add("Reshape", [wide, draft.constant(np.array(shape, np.int64), "shape")])
    steps = draft.add("Div", [x.name, scale])
    _put(draft, node, _passing(found, steps, scale, zero.reshape(shape), before.outputs[0], before))


def _passing(
    found: Rounded, steps: str, scale: str, zero: NDArray[np.int64], integers: Value, quantize: Node | None = None
) -> str:
    """scale (c + e), where c is clipped and e, what rounding adds, is noted as constant."""
    draft = found.draft
    low, high = _range(integers, quantize)
    clipped = draft.add("Max", [steps, draft.constant((low - zero).astype(np.float32), "low")])
    clipped = draft.add("Min", [clipped, draft.constant((high - zero).astype(np.float32), "high")])
    error = draft.add("Sub", [draft.add("Round", [clipped]), clipped], "rounding")
    found.errors.append(error)
    return draft.add("Mul", [draft.add("Add", [clipped, error]), scale])


def _range(integers: Value, quantize: Node | None) -> tuple[int, int]:
    """The least and the largest integer, as the constant, or the zero point of what quantizes, has them."""
    held = integers if quantize is None else quantize.inputs[2] if len(quantize.inputs) > 2 else None
    dtype = dtypes.uint8 if held is None or held.constant is None else held.constant.dtype
    if not dtype.is_int:
        raise InvalidArgument(f"{integers.name!r} is quantized to {dtype}; what is trained are integers")
    return bounds(dtype)


def bounds(dtype: dtypes.DType) -> tuple[int, int]:
    """The least and the largest integer of a type."""
    if dtype.name.startswith("u"):
        return 0, 2**dtype.bits - 1
    return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1


def _parts(node: Node, shape: tuple[int, ...]) -> tuple[NDArray[np.float32], NDArray[np.int64], tuple[int, ...]]:
    """Scale and zero point of a node, and the shape in which they are broadcast to what it takes."""
    scale = _array(node.inputs[1])
    given = node.inputs[2] if len(node.inputs) > 2 else None
    zero = np.zeros(scale.shape, np.int64) if given is None else _array(given).astype(np.int64)
    if scale.ndim > 1:
        raise InvalidArgument(f"{node.op_type} {node.name!r} has scales for blocks, which are not trained")
    if scale.size == 1:
        return scale.astype(np.float32), zero, ()
    if not shape:
        raise InvalidArgument(f"{node.op_type} {node.name!r} has a scale for each channel of an activation")
    axis = node.attribute("axis", 1) % len(shape)
    return scale.astype(np.float32), zero, tuple(scale.size if k == axis else 1 for k in range(len(shape)))


def _scale(found: Rounded, node: Node) -> Scale:
    value = node.inputs[1]
    assert value is not None
    if value.name not in found.scales:
        first = _array(value).astype(np.float32)
        parameter = found.draft.constant(np.zeros(first.shape, np.float32), f"{value.name}_trained")
        found.scales[value.name] = Scale(value.name, first, parameter)
    return found.scales[value.name]


def _exp(found: Rounded, scale: Scale, sign: int) -> str:
    """How many times its first value a scale is, or that the other way round."""
    factor = found.draft.constant(np.array(sign / SLOWER, np.float32), "factor")
    return found.draft.add("Exp", [found.draft.add("Mul", [scale.parameter, factor])])


def _put(draft: Draft, node: Node, name: str) -> None:
    """Have what read a node's output read another tensor."""
    old, new = node.outputs[0], draft.value(name)
    for reader in draft.graph.all_nodes():
        reader.inputs = [new if value is old else value for value in reader.inputs]
    draft.graph.outputs = [new if value is old else value for value in draft.graph.outputs]


def _array(value: Value | None) -> NDArray[np.generic]:
    if value is None or value.constant is None:
        raise InvalidArgument(f"{'' if value is None else value.name!r} is no constant: ranges have to be known")
    found: NDArray[np.generic] = np.asarray(value.constant.array())
    return found
