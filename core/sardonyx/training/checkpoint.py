"""Checkpoints as onnxruntime-training 1.19 has them: parameters, moments and properties in one flatbuffer.

The schema is onnxruntime's `ort_training_checkpoint.fbs`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np

from sardonyx.common.record import field, record
from sardonyx.errors import InvalidArgument, InvalidProtobuf, NotImplemented
from sardonyx.model.ir import Tensor
from sardonyx.model.serde.flatbuffer import decode, parse
from sardonyx.model.serde.flatbuffer_writer import encode
from sardonyx.model.serde.ort_format import TENSOR
from sardonyx.model.serde.source import BytesLike, DataFiles, open_file
from sardonyx.model.serde.tensors import raw_bytes, read_tensor
from sardonyx.model.serde.wire import Record

MAGIC = b"ODTC"
VERSIONS = 1, 2
"""Those that are read; the last one is written."""
_TABLES = parse(f"""
table Checkpoint
  int32 version
  ModuleState module_state
  [OptimizerGroup] optimizer_groups
  PropertyBag property_bag

table ModuleState
  [Tensor] requires_grad_params
  [Tensor] frozen_params
  bool is_nominal_state
  bool has_external_data

{TENSOR}
table OptimizerGroup
  string group_name
  int64 step
  float initial_learning_rate
  [ParameterOptimizerState] optimizer_states

table ParameterOptimizerState
  string param_name
  [Tensor] momentums

table PropertyBag
  [IntProperty] ints
  [FloatProperty] floats
  [StringProperty] strings

table IntProperty
  string name
  int64 value

table FloatProperty
  string name
  float value

table StringProperty
  string name
  string value
""")
Property: TypeAlias = "int | float | str"


@record
class Group:
    """The state of an optimizer: how many steps it made, and the moments of each parameter by their names."""

    step: int
    initial_learning_rate: float
    moments: dict[str, list[Tensor]]


@record
class Checkpoint:
    """What a file holds. In a nominal one parameters have types and no elements."""

    trainable: list[Tensor]
    frozen: list[Tensor]
    nominal: bool = False
    groups: dict[str, Group] = field(default_factory=dict)
    properties: dict[str, Property] = field(default_factory=dict)


def is_checkpoint(data: BytesLike) -> bool:
    """Whether bytes say of themselves that they are a checkpoint."""
    return bytes(data[4:8]) == MAGIC


def read_checkpoint(data: BytesLike) -> Checkpoint:
    """The checkpoint in these bytes, of which its tensors are views; InvalidProtobuf where they make no sense."""
    if not is_checkpoint(data):
        raise InvalidProtobuf("this is no checkpoint of onnxruntime-training")
    found = decode(data, _TABLES, "Checkpoint", "checkpoint of onnxruntime-training")
    version = found.get("version", 0)
    if version not in VERSIONS:
        raise NotImplemented(f"version {version} of checkpoints is unknown; {VERSIONS[-1]} is the last one known")
    module, bag = found.get("module_state", {}), found.get("property_bag", {})
    if module.get("has_external_data"):
        raise NotImplemented("the checkpoint keeps its tensors in another file; save it as one file")
    groups = {
        group.get("group_name", ""): Group(
            group.get("step", 0),
            group.get("initial_learning_rate", 0.0),
            {
                state.get("param_name", ""): _tensors(state.get("momentums", ()))
                for state in group.get("optimizer_states", ())
            },
        )
        for group in found.get("optimizer_groups", ())
    }
    defaults: dict[str, Property] = {"ints": 0, "floats": 0.0, "strings": ""}
    properties = {
        each.get("name", ""): each.get("value", default)
        for kind, default in defaults.items()
        for each in bag.get(kind, ())
    }
    trainable, frozen = (_tensors(module.get(name, ())) for name in ("requires_grad_params", "frozen_params"))
    return Checkpoint(trainable, frozen, module.get("is_nominal_state", False), groups, properties)


def _tensors(records: Iterable[Record]) -> list[Tensor]:
    return sorted((read_tensor(each, DataFiles(None)) for each in records), key=lambda tensor: tensor.name)


def write_checkpoint(checkpoint: Checkpoint) -> bytes:
    """The bytes of a file that `read_checkpoint`, and onnxruntime-training, reads."""
    bag: dict[str, list[Record]] = {"ints": [], "floats": [], "strings": []}
    for name, value in checkpoint.properties.items():
        bag[_kind(name, value)].append({"name": name, "value": value})
    module = {
        "requires_grad_params": [_record(tensor, checkpoint.nominal) for tensor in checkpoint.trainable],
        "frozen_params": [_record(tensor, checkpoint.nominal) for tensor in checkpoint.frozen],
        "is_nominal_state": checkpoint.nominal,
    }
    groups = [
        {
            "group_name": name,
            "step": group.step,
            "initial_learning_rate": group.initial_learning_rate,
            "optimizer_states": [
                {"param_name": parameter, "momentums": [_record(moment) for moment in moments]}
                for parameter, moments in group.moments.items()
            ],
        }
        for name, group in checkpoint.groups.items()
    ]
    found: Record = {"version": VERSIONS[-1], "module_state": module}
    if groups:
        found["optimizer_groups"] = groups
    if checkpoint.properties:
        found["property_bag"] = bag
    return encode(found, _TABLES, "Checkpoint", MAGIC)


def _record(tensor: Tensor, nominal: bool = False) -> Record:
    shape: tuple[int, ...] = (0,) if nominal else tensor.shape
    content = memoryview(b"") if nominal else raw_bytes(tensor)
    return {
        "name": tensor.name,
        "dims": shape,
        "data_type": tensor.dtype.number,
        "raw_data": content,
        "external_data_offset": -1,
    }


def _kind(name: str, value: Property) -> str:
    """The list of properties that one goes into; InvalidArgument where its type is none of the three."""
    if isinstance(value, str):
        return "strings"
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return "ints"
    if isinstance(value, (float, np.floating)):
        return "floats"
    raise InvalidArgument(f"property {name!r} is {value!r}: properties are integers, floats and strings")


def load(path: str | os.PathLike[str]) -> Checkpoint:
    """The checkpoint in a file; NoSuchFile where there is none."""
    return read_checkpoint(bytes(open_file(path)))
