"""From a model to a bundle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from sardonyx.api.options import SessionOptions
from sardonyx.common import dtypes
from sardonyx.common.garbage import paused
from sardonyx.compiler.compile import Compiler
from sardonyx.errors import InvalidArgument, NotImplemented
from sardonyx.model.ir import Model, TensorType, Value
from sardonyx.model.ir.types import DimLike
from sardonyx.model.structure import TENSOR
from sardonyx.passes.copy import copy_model
from sardonyx.passes.narrow import Narrowing
from sardonyx.passes.pipeline import prepare
from sardonyx.plans.bundle import format
from sardonyx.plans.bundle.format import Content
from sardonyx.plans.bundle.stored import foreign, store
from sardonyx.plans.epochs import code_of
from sardonyx.plans.plan import Launch, Plan
from sardonyx.plans.plan_cache import Facts, Source
from sardonyx.plans.reach import reach
from sardonyx.plans.weight_table import WeightTable
from sardonyx.plans.wording import accepted, names_of
from sardonyx.providers import registry
from sardonyx.providers.contract import Bundler
from sardonyx.version import __version__

Typical: TypeAlias = Sequence[int | str] | np.ndarray
"""What a bundle is for: sizes of an input, where `?16` leaves one open that is typically 16, and `?` one that is
typically 1; or a typical value, for an input whose elements decide on shapes, or on branches."""
TARGETS = {"wasm": registry.WASM, "webgpu": registry.WEBGPU}


def bundle_of(
    source: Source,
    targets: Sequence[str],
    buckets: Sequence[Mapping[str, Typical]] = ({},),
    options: SessionOptions | None = None,
    *,
    compress: bool = False,
    weights: str = "float32",
) -> Iterator[bytes | memoryview]:
    """The parts of the bundle of a model, for `targets` and inputs of these shapes; what is not given is open.

    It is for a network if it is to be compressed, else to be mapped. Large weights of float32 are stored as `weights`
    says, `float16` or `int8` being smaller and less exact.
    Raises NotImplemented naming the nodes that cannot be bundled, and InvalidArgument for what makes no sense.
    """
    with paused():
        maker = _Maker(source, options or SessionOptions(), Narrowing(weights))
        return maker.make(targets, buckets, compress)


class _Maker:
    def __init__(self, source: Source, options: SessionOptions, narrowing: Narrowing) -> None:
        self._source = source
        self._narrowing = narrowing
        self._model = source.read()
        self._options = options
        self._names = WeightTable(identify=source.identify)
        self._facts: Facts | None = None
        self._weights: dict[str, np.ndarray] = {}

    def make(
        self, targets: Sequence[str], buckets: Sequence[Mapping[str, Typical]], compress: bool
    ) -> Iterator[bytes | memoryview]:
        names = [value.name for value in self._model.graph.inputs]
        if unknown := {name for bucket in buckets for name in bucket} - {*names}:
            there = ", ".join(map(repr, names))
            raise InvalidArgument(f"there is no input {min(unknown)!r}; the model has {there}")
        self._is_alone = len(buckets) == 1
        told, first, last = {}, {}, {}
        for target in targets:
            told[target], sections = self._target(target, _bundler(target), buckets)
            head = next(iter(sections), None)
            first.update({name: data for name, data in sections.items() if name == head})
            last.update({name: data for name, data in sections.items() if name != head})
        assert self._facts is not None
        arrays = {name: np.ascontiguousarray(array) for name, array in self._weights.items()}
        manifest = {
            "release": __version__,
            "model": self._facts.data(),
            "strings": list(self._names.strings.texts),
            "weights": {name: [dtypes.of(array.dtype).name, list(array.shape)] for name, array in arrays.items()},
            "targets": told,
        }
        contents = [Content(name, array.reshape(-1).view(np.uint8).data) for name, array in arrays.items()]
        written = [*map(Content, first, first.values()), *contents, *map(Content, last, last.values())]
        if compress:
            widths = {name: array.itemsize for name, array in arrays.items()}
            written = [each.deflated(widths.get(each.title, 1)) for each in written]
        return format.write(manifest, written)

    def _target(
        self, target: str, bundler: Bundler, buckets: Sequence[Mapping[str, Typical]]
    ) -> tuple[dict[str, Any], dict[str, bytes]]:
        codes: dict[tuple[str, tuple[int, ...]], tuple[Any, tuple[int, ...]]] = {}
        numbers: dict[tuple[str, tuple[int, ...]], int] = {}

        def number(plan: Plan, launch: Launch) -> int:
            code = code_of(plan.codes[launch.code])
            memory = [plan.buffers[k].weight or k for k in launch.buffers]
            same = tuple(map(memory.index, memory))
            key = f"{type(code).__name__} {code.key}", same
            codes.setdefault(key, (code, same))
            return numbers.setdefault(key, len(numbers))

        plans_and_terms = [self._plan(bundler, bucket) for bucket in buckets]
        plans = [plan for plan, _ in plans_and_terms]
        if bad := sorted({label for plan in plans for label in foreign(plan)}):
            more = f" and {len(bad) - 5} more" if len(bad) > 5 else ""
            raise NotImplemented(
                f"these nodes need Python, and cannot be part of a bundle for {target}: {', '.join(bad[:5])}{more};"
                f" {'' if target == 'wasm' else 'compile for wasm, or '}run the model in Pyodide"
            )
        for plan in plans:
            self._collect(plan)
        stored = [{"accepts": accepts, **store(plan, number)} for plan, accepts in plans_and_terms]
        told, sections = bundler.write(list(codes.values()))
        listed = [[*each, reach(code)] for each, (code, _) in zip(told["codes"], codes.values(), strict=True)]
        return {"provider": bundler.provider.name, **told, "codes": listed, "plans": stored}, sections

    def _plan(self, bundler: Bundler, bucket: Mapping[str, Typical]) -> tuple[Plan, str]:
        """A plan, and what it accepts."""
        model = _shaped(self._model, bucket)
        declared = model if self._is_alone else self._model
        integers = bundler.provider.prefers_integers
        graph = prepare(model, self._options, (), integers).graph
        self._narrowing.apply(graph)
        compiler = Compiler(graph, [bundler.provider, registry.load(registry.NUMPY)], self._names, narrow=True)
        if self._facts is None:
            values = {value.name: value for value in declared.graph.inputs}
            self._facts = Facts.of(self._model, graph, [values[value.name] for value in compiler.inputs])
        feeds = [_feed(value, bucket.get(value.name)) for value in compiler.inputs]
        plan = compiler.compile(feeds, {})
        for value, outline in zip(graph.outputs, plan.results, strict=True):
            if outline != TENSOR:
                raise NotImplemented(f"output {value.name!r} is a {value.type}; bundles give tensors")
        return plan, accepted(plan, names_of(plan, compiler.inputs))

    def _collect(self, plan: Plan) -> None:
        """Note the weights of a plan in the order in which they are wanted."""
        for step in (*plan.setup, *plan.steps):
            for number in getattr(step, "buffers", ()):
                name = plan.buffers[number].weight
                if name in plan.weights:
                    self._weights.setdefault(name, plan.weights[name])
        for name, array in plan.weights.items():
            self._weights.setdefault(name, array)
        for function in plan.functions:
            for inner in function:
                self._collect(inner)


def _bundler(target: str) -> Bundler:
    bundler = registry.load(TARGETS[target]).bundler() if target in TARGETS else None
    if bundler is None:
        raise InvalidArgument(f"there is no target {target!r}; use {' or '.join(TARGETS)}")
    return bundler


def _shaped(model: Model, bucket: Mapping[str, Typical]) -> Model:
    """The model with inputs of these sizes; a name of a dimension is known from the first input that has it."""
    shapes = {name: tuple(x.shape) if isinstance(x, np.ndarray) else tuple(x) for name, x in bucket.items()}
    copy = copy_model(model)
    sizes: dict[str, set[int]] = {}
    for value in copy.graph.inputs:
        for name, size in zip(value.shape or (), shapes.get(value.name, ())):
            if isinstance(name, str) and isinstance(size, int):
                sizes.setdefault(name, set()).add(size)
    sizes_by_name = {name: found.pop() for name, found in sizes.items() if len(found) == 1}
    for value in copy.graph.inputs:
        kind, wanted = value.type, shapes.get(value.name)
        if isinstance(kind, TensorType):
            value.type = replace(kind, shape=_fixed(value.name, kind, wanted, sizes_by_name))
    return copy


def _fixed(
    name: str, kind: TensorType, wanted: Sequence[int | str] | None, known: Mapping[str, int]
) -> tuple[DimLike, ...] | None:
    """The shape of an input, of which these sizes are `wanted`; else its dimensions may be `known` by their names."""
    declared = kind.shape
    if wanted is None:
        return declared and tuple(known.get(dim, dim) if isinstance(dim, str) else dim for dim in declared)
    if declared is None:
        declared = (None,) * len(wanted)
    pairs = list(zip(declared, wanted))
    if len(declared) != len(wanted) or any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs):
        text = "x".join(map(str, wanted))
        raise InvalidArgument(f"input {name!r} is {kind}, and cannot be {text}")
    return tuple(b if isinstance(b, int) else a for a, b in pairs)


def _feed(value: Value, typical: Typical | None) -> np.ndarray:
    """An array of an input's type and typical shape, without memory unless its elements count."""
    kind = value.type
    if not isinstance(kind, TensorType):
        raise NotImplemented(f"input {value.name!r} is a {kind}; bundles take tensors")
    storage = (kind.dtype or dtypes.float32).storage
    if isinstance(typical, np.ndarray):
        return typical.astype(storage)
    declared = kind.shape if kind.shape is not None else (None,) * len(typical or ())
    sizes = [_size(dim, size) for dim, size in zip(declared, typical or (None,) * len(declared), strict=True)]
    return np.broadcast_to(np.zeros((), storage), sizes)


def _size(declared: int | str | None, typical: int | str | None) -> int:
    """The size to compile for; the plan may take others."""
    if isinstance(declared, int):
        return declared
    return int(typical.removeprefix("?") or 1) if isinstance(typical, str) else typical or 1
