"""ONNX's own backend cases, and what becomes of one on an execution provider."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test import loader
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.runner import Runner

from sardonyx import InferenceSession
from sardonyx.errors import NotImplemented
from sardonyx.plans.plan import Plan

Status: TypeAlias = Literal["passed", "wrong", "unsupported", "error"]
STATUSES: tuple[Status, ...] = ("passed", "wrong", "unsupported", "error")
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "real")
DataSet: TypeAlias = tuple[Sequence[Any], Sequence[Any]]


@dataclass(frozen=True)
class Outcome:
    """What became of a case; `native` says whether no node of it fell to another provider."""

    status: Status
    detail: str = ""
    native: bool = False


@dataclass(frozen=True, eq=False)
class Case:
    """A model with data sets. Where ONNX keeps it as a file, reading it waits until it is asked for."""

    source: TestCase

    @property
    def name(self) -> str:
        return str(self.source.name)

    @property
    def kind(self) -> str:
        return str(self.source.kind)

    @property
    def folder(self) -> Path | None:
        return Path(self.source.model_dir) if self.source.model_dir else None

    @cached_property
    def path(self) -> Path | None:
        """The file of the model; None if ONNX makes it in memory."""
        if self.folder:
            return self.folder / "model.onnx"
        return Path(onnx.__file__).parents[1] / self.source.url if self.source.url else None

    @cached_property
    def model(self) -> onnx.ModelProto:
        if self.source.model is not None:
            return self.source.model
        assert self.path is not None
        return onnx.load(self.path)

    def data_sets(self) -> list[DataSet]:
        """Pairs of inputs and wanted outputs."""
        if self.source.data_sets is not None:
            return [(_plain(inputs), _plain(outputs)) for inputs, outputs in self.source.data_sets]
        graph = self.model.graph
        if self.folder:
            return [
                (_read(folder, "input", graph.input), _read(folder, "output", graph.output))
                for folder in sorted(self.folder.glob("test_data_set*"))
            ]
        assert self.path is not None
        fed = [value for value in graph.input if value.name not in {tensor.name for tensor in graph.initializer}]
        wanted = [onnx.load_tensor(f"{self.path.with_suffix('')}_output_{k}.pb") for k in range(len(graph.output))]
        return [([Runner.generate_dummy_data(value) for value in fed], _plain(wanted))]

    @property
    def operator(self) -> str:
        """The operator that the case is about, or its kind where it is about a whole graph."""
        name = re.sub(r"_expanded(_.*)?$", "", self.name)
        base = case_named(name) if name != self.name else self
        if base.kind != "node" or len(base.model.graph.node) != 1:
            return f"({base.kind})"
        node = base.model.graph.node[0]
        return f"{node.domain}.{node.op_type}" if node.domain else str(node.op_type)


def _plain(items: Sequence[Any]) -> list[Any]:
    return [numpy_helper.to_array(item) if isinstance(item, onnx.TensorProto) else item for item in items]


def _read(folder: Path, stem: str, values: Sequence[onnx.ValueInfoProto]) -> list[Any]:
    """The inputs or outputs of a data set on disk, as arrays, lists or None, by the types that the graph declares."""
    items = []
    for k in range(len(list(folder.glob(f"{stem}_*.pb")))):
        kind = values[k].type.WhichOneof("value")
        message, convert = _PROTOS[kind]
        items.append(convert(message.FromString((folder / f"{stem}_{k}.pb").read_bytes())))
    return items


_PROTOS: dict[str, tuple[Any, Any]] = {
    "tensor_type": (onnx.TensorProto, numpy_helper.to_array),
    "sequence_type": (onnx.SequenceProto, numpy_helper.to_list),
    "optional_type": (onnx.OptionalProto, numpy_helper.to_optional),
}


@cache
def cases() -> tuple[Case, ...]:
    """Every case that ONNX's backend suite has, sorted by kind and name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [Case(source) for kind in KINDS for source in loader.load_model_tests(kind=kind)]
    return tuple(sorted(found, key=lambda case: (KINDS.index(case.kind), case.name)))


@cache
def _by_name() -> dict[str, Case]:
    return {case.name: case for case in cases()}


def case_named(name: str) -> Case:
    return _by_name()[name]


def run_case(case: Case, provider: str, unknown_sizes: bool = False) -> Outcome:
    """Run a case through a session, and compare as ONNX's own runner does, with the tolerance of the case.

    With `unknown_sizes` the model does not declare them, so that the plan is made for symbols.
    """
    try:
        model = without_sizes(case.model) if unknown_sizes else case.model
        session = InferenceSession(model.SerializeToString(), providers=[provider])
        names = [value.name for value in session.get_inputs()]
        for inputs, wanted in case.data_sets():
            found = session.run(None, dict(zip(names, inputs, strict=False)))
            compare(case, wanted, found)
    except Exception as error:
        return failed(error)
    return Outcome("passed", native=all(map(_is_native, session.plans[:1])))


def compare(case: Case, wanted: Sequence[Any], found: Sequence[Any]) -> None:
    """Raise AssertionError unless the outputs of a data set are the wanted ones, which those that are drawn are not."""
    if case.operator == "Bernoulli":
        assert [(x.dtype, x.shape) for x in found] == [(x.dtype, x.shape) for x in wanted]
        raise AssertionError("the outputs are random")
    Runner.assert_similar_outputs(_tensors(wanted), _tensors(found), case.source.rtol, case.source.atol)


def failed(error: Exception) -> Outcome:
    """What an error says of a case."""
    if isinstance(error, AssertionError):
        return Outcome("wrong", _line(error))
    if isinstance(error, NotImplemented):
        return Outcome("unsupported", _line(error))
    return Outcome("error", f"{type(error).__name__}: {_line(error)}")


def _tensors(items: Sequence[Any]) -> list[np.ndarray]:
    """The tensors of outputs in order, behind the length of each list; the runner compares lists of scalars wrongly."""
    found = []
    for item in items:
        if isinstance(item, list):
            found += [np.array(len(item)), *_tensors(item)]
        else:
            found.append(np.array("nothing") if item is None else item)
    return found


def without_sizes(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of a model that declares ranks and types of its inputs, and nothing of what it computes."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    held = {tensor.name for tensor in copy.graph.initializer}
    for value in copy.graph.input:
        if value.name not in held and value.type.HasField("tensor_type"):
            for dim in value.type.tensor_type.shape.dim:
                dim.Clear()
    for value in copy.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    del copy.graph.value_info[:]
    return copy


def _is_native(plan: Plan) -> bool:
    """Whether all nodes of a plan, and of the bodies of its control flow, are on its first provider."""
    inner = [sub for plans in plan.functions for sub in plans]
    return all(device <= 0 for device in plan.placement) and all(map(_is_native, inner))


def _line(error: BaseException) -> str:
    """The text of an error in one line, without the elements of arrays."""
    text = re.split(r"\[ \d| x: | y: | ACTUAL: (?:array|\[)", " ".join(str(error).split()))[0]
    return text[:200].strip() or type(error).__name__
