"""The call of an operator: what hypothesis draws, and the models of one node that are made of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from .draw import DRAWERS, DROPPED, VERSIONS, Draw

HALVES = {np.dtype(np.float16): 2e-3, np.dtype(ml_dtypes.bfloat16): 2.0**-7}
"""The floats of 16 bits, and what results may be off, relative to their magnitudes."""


@dataclass
class Call:
    """A node and what it is given: arrays, lists of them for sequences, None for what is left out."""

    op_type: str
    inputs: list[Any]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    domain: str = ""
    constant: frozenset[int] = frozenset()
    """The inputs that the model holds."""
    captured: frozenset[int] = frozenset()
    """The inputs of the model that only the bodies of the node take."""
    magnitude: float = 0.0
    """The largest of the terms that results are sums of: what is lost where they cancel is in proportion to it."""
    tolerance: float = 1e-5
    steps: int = 0
    """By how much integers may differ, where rounding to them is left open."""
    wide: bool = True
    """Whether floats of 16 bits are computed in float32, and rounded once."""
    chance: bool = False
    """Whether the results are random."""
    like: dict[int, int] = field(default_factory=dict)
    """The input whose type an output has, where the schema does not say."""

    def __repr__(self) -> str:
        given = [
            f"{x.dtype}{list(x.shape)}={x.tolist()}" if isinstance(x, np.ndarray) and x.size < 30 else shown(x)
            for x in self.inputs
        ]
        others = [f"{name}={value!r}" for name, value in self.attributes.items()]
        held = [f"constant={sorted(self.constant)}"] if self.constant else []
        return f"{self.op_type}({', '.join(others + held)}) -> {self.outputs} of {', '.join(given)}"

    @cached_property
    def schema(self) -> Any:
        """ONNX's schema; None for operators of other domains."""
        version = DROPPED.get(self.op_type, VERSIONS[self.domain])
        known = onnx.defs.has(self.op_type, version, self.domain)
        return onnx.defs.get_schema(self.op_type, version, self.domain) if known else None

    @property
    def halves(self) -> list[np.dtype[Any]]:
        """The types of the inputs that are floats of 16 bits."""
        return [x.dtype for x in self.inputs if isinstance(x, np.ndarray) and x.dtype in HALVES]

    def feeds(self, held: frozenset[int] | None = None) -> dict[str, Any]:
        """What is fed to a model, by name, where it holds these inputs."""
        held = self.constant if held is None else held
        return {f"x{k}": x for k, x in enumerate(self.inputs) if x is not None and k not in held}

    def model(self, opset: int | None = None, held: frozenset[int] | None = None) -> onnx.ModelProto:
        """The model of one node, whose inputs have a rank and no sizes."""
        held = self.constant if held is None else held
        names = ["" if x is None else f"x{k}" for k, x in enumerate(self.inputs) if k not in self.captured]
        while names and not names[-1]:
            names.pop()
        feeds = self.feeds(held)
        infos = [value_info(name, x) for name, x in feeds.items()]
        tensors = [numpy_helper.from_array(self.inputs[k], f"x{k}") for k in sorted(held) if self.inputs[k] is not None]
        outputs = [f"y{k}" for k in range(self.outputs)]
        node = helper.make_node(self.op_type, names, outputs, domain=self.domain)
        for name, value in self.attributes.items():
            if value is not None:
                node.attribute.append(self._attribute(name, value))
        results = [onnx.ValueInfoProto(name=name) for name in outputs]
        graph = helper.make_graph([node], self.op_type, infos, results, tensors)
        version = DROPPED.get(self.op_type, VERSIONS[self.domain])
        imports = [helper.make_opsetid("", opset or (VERSIONS[""] if self.domain else version))]
        if self.domain:
            imports.append(helper.make_opsetid(self.domain, version))
        return helper.make_model(graph, opset_imports=imports, ir_version=10)

    def _attribute(self, name: str, value: Any) -> onnx.AttributeProto:
        if isinstance(value, np.ndarray):
            value = numpy_helper.from_array(value)
        kind = self.schema.attributes[name].type.value if self.schema and name in self.schema.attributes else None
        return helper.make_attribute(name, value, attr_type=kind)

    def widened(self) -> Call:
        """The call with float32 for floats of 16 bits."""
        inputs = [x.astype(np.float32) if isinstance(x, np.ndarray) and x.dtype in HALVES else x for x in self.inputs]
        return replace(self, inputs=inputs)

    def narrowed(self, found: list[Any]) -> list[Any]:
        """The results of the widened call, rounded where the schema says that they have the type of such an input."""
        types: dict[str, Any] = {}
        for number, x in enumerate(self.inputs):
            if isinstance(x, np.ndarray):
                types.setdefault(self._formal(self.schema.inputs, number), x.dtype)
        results = []
        for number, y in enumerate(found):
            dtype = types.get(self._formal(self.schema.outputs, number))
            if number in self.like:
                dtype = self.inputs[self.like[number]].dtype
            with np.errstate(over="ignore"):
                results.append(y.astype(dtype) if dtype in HALVES else y)
        return results

    @staticmethod
    def _formal(formals: Any, number: int) -> str:
        return str(formals[min(number, len(formals) - 1)].type_str)


def shown(x: Any) -> str:
    return f"{x.dtype}{list(x.shape)}" if isinstance(x, np.ndarray) else repr(x)


def value_info(name: str, x: Any) -> onnx.ValueInfoProto:
    """An input that takes x, and others of its type and rank."""
    if isinstance(x, list):
        dtype = helper.np_dtype_to_tensor_dtype(x[0].dtype)
        return helper.make_tensor_sequence_value_info(name, dtype, None)
    if isinstance(x, dict):
        return helper.make_value_info(name, map_type(x))
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), [None] * x.ndim)


def map_type(x: dict[Any, Any]) -> onnx.TypeProto:
    """The type of a map: int64 or string to int64, float or string."""
    key, value = next(iter(x.items()))
    numbers = {int: onnx.TensorProto.INT64, str: onnx.TensorProto.STRING, float: onnx.TensorProto.FLOAT}
    of_values = helper.make_tensor_type_proto(numbers[type(value)], [])
    return helper.make_map_type_proto(numbers[type(key)], of_values)


@st.composite
def calls(draw: Any, domain: str, name: str) -> Call:
    """Calls of an operator within its schema."""
    made = DRAWERS[domain, name](Draw(draw, domain, name))
    return made if isinstance(made, Call) else Call(name, domain=domain, **made)
