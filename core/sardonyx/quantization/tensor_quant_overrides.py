"""What is asked of single tensors: types, scales, ranges, and another type for some of those that take them.

A tensor's name stands for a list: one dictionary for the whole tensor, or one for each channel, of which the first has
an `axis`. A dictionary may have `quant_type`, `scale` with `zero_point`, `rmin` with `rmax`, `symmetric`,
`reduce_range`, and `convert`: a dictionary of the same keys, and `recv_nodes`, the names of the nodes that take it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, TypeAlias

from sardonyx.common.record import record
from sardonyx.errors import InvalidArgument
from sardonyx.quantization.enums import QuantType

Override: TypeAlias = dict[str, Any]
NOT_WITH_SCALE = ("symmetric", "reduce_range", "rmax", "rmin")
"""What says nothing more where scale and zero point are given."""


@record(eq=False)
class QuantTypeInfo:
    """The type that a tensor gets; of `symmetric` and `reduce_range` None is whatever is the default."""

    quant_type: QuantType | None
    symmetric: bool | None = None
    reduce_range: bool | None = None
    axis: int | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, QuantTypeInfo):
            return NotImplemented
        pairs = ((self.symmetric, other.symmetric), (self.reduce_range, other.reduce_range))
        same = all(mine is None or its is None or mine == its for mine, its in pairs)
        return same and self.quant_type == other.quant_type and self.axis == other.axis

    __hash__ = None  # type: ignore[assignment]

    @staticmethod
    def load_from_dict(
        raw_dict: Override,
        default_qtype: QuantType | None = None,
        default_symmetric: bool | None = None,
        default_reduce_range: bool | None = None,
    ) -> QuantTypeInfo:
        """What a dictionary says, and these where it does not."""
        return QuantTypeInfo(
            raw_dict.get("quant_type", default_qtype),
            raw_dict.get("symmetric", default_symmetric),
            raw_dict.get("reduce_range", default_reduce_range),
            raw_dict.get("axis"),
        )

    def save_to_dict(self, raw_dict: Override) -> None:
        """Put what is known into a dictionary."""
        raw_dict["quant_type"] = self.quant_type
        more = {"symmetric": self.symmetric, "reduce_range": self.reduce_range, "axis": self.axis}
        raw_dict.update((key, value) for key, value in more.items() if value is not None)


class TensorQuantOverridesHelper(MutableMapping[str, list[Override]]):
    """The overrides of the option `TensorQuantOverrides`, by tensor.

    >>> overrides = TensorQuantOverridesHelper({"x": [{"quant_type": QuantType.QUInt16}]})
    >>> overrides.get_node_output_qtype_info("x", QuantType.QUInt8).quant_type
    <QuantType.QUInt16: 4>
    """

    def __init__(self, raw_overrides: dict[str, list[Override]]) -> None:
        self.overrides = raw_overrides

    def has_per_tensor_overrides(self, tensor_name: str) -> bool:
        """Whether something is asked of the tensor as a whole."""
        found = self.overrides.get(tensor_name)
        return bool(found) and "axis" not in (found or [{}])[0]

    def has_per_channel_overrides(self, tensor_name: str) -> bool:
        """Whether something is asked of its channels."""
        found = self.overrides.get(tensor_name)
        return bool(found) and "axis" in (found or [{}])[0]

    def overrides_scale_zp(self, tensor_name: str) -> bool:
        """Whether scale and zero point are given."""
        first = (self.overrides.get(tensor_name) or [{}])[0]
        return "scale" in first and "zero_point" in first

    def get_per_tensor_overrides(self, tensor_name: str, default_val: Override | None = None) -> Override | None:
        """What is asked of a tensor as a whole; ValueError where it is asked of channels."""
        found = self.overrides.get(tensor_name, [default_val] if default_val is not None else None)
        if found and "axis" in found[0]:
            raise InvalidArgument(
                f"tensor '{tensor_name}' has overrides of channels; here it can have those of a tensor alone"
            )
        return found[0] if found else None

    def get_per_channel_overrides(
        self, tensor_name: str, default_val: list[Override] | None = None
    ) -> list[Override] | None:
        """What is asked of its channels; ValueError where no axis is named."""
        found = self.overrides.get(tensor_name, default_val)
        if not found:
            return None
        if "axis" not in found[0]:
            raise InvalidArgument(f"the first override of tensor '{tensor_name}' has no 'axis', and is for channels")
        return found

    def get_quant_types(self) -> set[QuantType]:
        """All types that are asked for."""
        asked = [each for several in self.overrides.values() for each in several]
        asked += [each["convert"] for each in asked if "convert" in each]
        return {each["quant_type"] for each in asked if "quant_type" in each}

    def is_valid(
        self, initializers: Mapping[str, Any], activation_names: Iterable[str], default_activation_qtype: Any
    ) -> tuple[bool, str | None]:
        """Whether all of this can be done to a model with these initializers and tensors, and if not, why."""
        present = {*initializers, *activation_names}
        for name, asked in self.overrides.items():
            problem = _problem(name, asked, initializers, present, default_activation_qtype)
            if problem:
                return False, problem
        return True, None

    def update_tensor_overrides(
        self, tensor_name: str, new_vals: Override, channels: Sequence[int] | None = None, overwrite: bool = True
    ) -> bool:
        """Ask something more of a tensor, or of these channels; whether it was done.

        Without `overwrite`, nothing is done where one of the keys is there.
        """
        if not new_vals:
            return False
        present = self.overrides.get(tensor_name) or [{}]
        chosen = [each for channel, each in enumerate(present) if channels is None or channel in channels]
        if not overwrite and any(new_vals.keys() & each.keys() for each in chosen):
            return False
        for each in chosen:
            each.update(new_vals)
        self.overrides[tensor_name] = present
        return True

    def get_node_output_qtype_info(
        self, output_name: str, default_qtype: QuantType | None, default_symmetric: bool | None = None
    ) -> QuantTypeInfo:
        """The type in which a tensor is made."""
        first = (self.overrides.get(output_name) or [{}])[0]
        return QuantTypeInfo(first.get("quant_type", default_qtype), first.get("symmetric", default_symmetric))

    def get_node_input_qtype_info(
        self,
        input_name: str,
        node_name: str,
        default_qtype: QuantType | None,
        default_symmetric: bool | None = None,
        default_reduce_range: bool | None = None,
    ) -> QuantTypeInfo:
        """The type in which a node gets a tensor."""
        first = (self.overrides.get(input_name) or [{}])[0]
        made = first.get("quant_type", default_qtype)
        convert = first.get("convert")
        if convert is None:
            info = QuantTypeInfo.load_from_dict(first, made, default_symmetric, default_reduce_range)
            return QuantTypeInfo(made, info.symmetric, info.reduce_range, info.axis)
        converted = node_name in convert.get("recv_nodes", (node_name,))
        return QuantTypeInfo(convert["quant_type"] if converted else made, convert.get("symmetric", default_symmetric))

    def pprint_str(self, indent: int | None = None) -> str:
        """All of it as JSON."""
        return json.dumps(self.overrides, default=str, indent=indent)

    def empty(self) -> bool:
        """Whether nothing is asked."""
        return not self.overrides

    def get_dict(self) -> dict[str, list[Override]]:
        """The dictionary itself."""
        return self.overrides

    def __setitem__(self, key: str, value: list[Override]) -> None:
        self.overrides[key] = value

    def __getitem__(self, key: str) -> list[Override]:
        return self.overrides[key]

    def __delitem__(self, key: str) -> None:
        del self.overrides[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.overrides)

    def __len__(self) -> int:
        return len(self.overrides)

    def __repr__(self) -> str:
        return f"TensorQuantOverridesHelper({self.overrides})"


def _problem(name: str, asked: Any, initializers: Mapping[str, Any], present: set[str], activation: Any) -> str | None:
    """Why this cannot be asked of a tensor."""
    if name not in present:
        return f"Tensor '{name}' in TensorQuantOverrides is not present in the model"
    if not isinstance(asked, list):
        return f"TensorQuantOverrides of '{name}' are {type(asked).__name__}; they are a list of dictionaries"
    for index, each in enumerate(asked):
        if not isinstance(each, dict):
            return f"TensorQuantOverrides of '{name}' have {type(each).__name__} at {index}; they are dictionaries"
    if not asked or not asked[0]:
        return None
    if len(asked) > 1 or asked[0].get("axis") is not None:
        return _problem_of_channels(name, asked, initializers)
    return _problem_of_tensor(name, asked[0], name in initializers, activation)


def _problem_of_pair(name: str, asked: Override) -> str | None:
    if ("scale" in asked) != ("zero_point" in asked):
        return f"Must provide both 'scale' and 'zero_point' if one of the overrides is provided (tensor '{name}')"
    if "scale" in asked:
        extra = [key for key in NOT_WITH_SCALE if key in asked]
        if extra:
            told = ", ".join(extra)
            return f"Tensor override option(s) [{told}] are invalid with 'scale' and 'zero_point' (tensor '{name}')"
    return None


def _problem_of_tensor(name: str, asked: Override, constant: bool, activation: Any) -> str | None:
    problem = _problem_of_pair(name, asked)
    if problem:
        return problem
    if "reduce_range" in asked and not constant:
        return f"Option 'reduce_range' is only supported for initializers, not for activation {name}"
    if "convert" not in asked:
        return None
    convert = asked["convert"]
    if constant:
        return f"Cannot use 'convert' override for initializers, such as {name}"
    if "quant_type" not in convert:
        return f"'convert' options (tensor '{name}') must specify a 'quant_type'"
    if "reduce_range" in convert:
        return f"Option 'reduce_range' is only supported for initializers, not for activation {name}"
    same = convert["quant_type"] == asked.get("quant_type", activation)
    if same and convert.get("symmetric") == asked.get("symmetric"):
        return f"'convert' quant_type must differ from original quant_type (tensor '{name}')"
    return _problem_of_pair(name, convert)


def _problem_of_channels(name: str, asked: list[Override], initializers: Mapping[str, Any]) -> str | None:
    if name not in initializers:
        return f"Tensor '{name}' has per-channel overrides, but is not an initializer"
    first = asked[0]
    axis = first.get("axis")
    if axis is None:
        return f"Per-channel overrides for tensor {name} is missing an 'axis' value in the first channel dictionary."
    shape = initializers[name].shape
    if not -len(shape) <= axis < len(shape):
        return f"Axis override value is out-of-bounds for tensor {name} (rank {len(shape)})"
    if len(asked) not in (1, shape[axis]):
        return (
            f"Incorrect number of channel overrides for tensor {name} (axis {axis}), expected {shape[axis]}, but found "
            f"{len(asked)}."
        )
    if ("rmin" in first) != ("rmax" in first):
        return f"Must provide both 'rmin' and 'rmax' if one is provided (tensor '{name}')"
    for index, each in enumerate(asked):
        if "convert" in each:
            return f"Cannot use 'convert' override for initializers, such as {name}."
        problem = _problem_of_pair(name, each)
        if problem:
            return problem
        for key in ("quant_type", "symmetric", "reduce_range"):
            if key in each and each[key] != first.get(key):
                return f"The {key} of channel {index} of tensor '{name}' is not that of the first channel."
        if "axis" in each and each["axis"] % len(shape) != axis % len(shape):
            return f"The axis of channel {index} of tensor '{name}' is not that of the first channel."
        for pair in (("scale", "zero_point"), ("rmin", "rmax")):
            if pair[0] in first and not all(key in each for key in pair):
                told = " and ".join(pair)
                return f"Per-channel overrides with {told} must have them for all channels: '{name}' lacks {index}."
    return None
