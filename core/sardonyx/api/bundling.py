"""From a model to a bundle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx.api.caches import growing
from sardonyx.api.feeds import node_arg
from sardonyx.api.model_file import model_file
from sardonyx.api.open_inputs import OpenInputs, Typical, open_inputs
from sardonyx.api.options import SessionOptions
from sardonyx.api.trained import Training
from sardonyx.common import dtypes
from sardonyx.common.garbage import paused
from sardonyx.compiler.cases import Cases
from sardonyx.compiler.compile import Compiler
from sardonyx.compiler.open_sizes import OpenSizes
from sardonyx.errors import InvalidArgument, NotImplemented
from sardonyx.model.ir import Model, size_name
from sardonyx.model.structure import TENSOR
from sardonyx.passes.changes import change
from sardonyx.passes.narrow import Narrowing
from sardonyx.passes.pipeline import prepare
from sardonyx.plans.acceptance import accepted
from sardonyx.plans.bundle import format
from sardonyx.plans.bundle.format import Content
from sardonyx.plans.bundle.stored import foreign, store
from sardonyx.plans.epochs import code_of
from sardonyx.plans.held import hold
from sardonyx.plans.plan import Launch, Plan
from sardonyx.plans.plan_cache import Facts, Source
from sardonyx.plans.reach import reach
from sardonyx.plans.weight_table import WeightTable
from sardonyx.plans.wording import names_of
from sardonyx.providers import registry
from sardonyx.providers.contract import Bundler
from sardonyx.version import __version__

TARGETS = {"wasm": registry.WASM, "webgpu": registry.WEBGPU}
MODEL = "model"
"""What the model itself is called among those by which it is trained."""


def bundle_of(
    source: Source,
    targets: Sequence[str],
    buckets: Sequence[Mapping[str, Typical]] = ({},),
    options: SessionOptions | None = None,
    *,
    sizes: Mapping[str, int | str] | None = None,
    compress: bool = False,
    weights: str = "float32",
    caches: Mapping[str, str] | None = None,
    training: Training | None = None,
) -> Iterator[bytes | memoryview]:
    """The parts of the bundle of a model, for `targets` and inputs of these shapes; what is not given is open.

    `sizes` are those of named dimensions in all of the `buckets`: a number, `?16` for an open one that is typically 16,
    or an expression of other names, `P + S`. A dimension without a name is `x.shape[1]`.

    It is for a network if it is to be compressed, else to be mapped. Large weights of float32 are stored as `weights`
    says: `float16`, `int8` and `int4` are ever smaller and less exact. `caches`, inputs with the outputs that add to
    them, stay on the device. What `training` tells has a page train the model, whose parameters are stored once.
    Raises NotImplemented naming the nodes that cannot be bundled, and InvalidArgument for what makes no sense.
    """
    with paused():
        maker = _Maker(source, options or SessionOptions(), Narrowing(weights), caches or {}, training or Training())
        return maker.make(targets, buckets, sizes or {}, compress)


class _Maker:
    def __init__(
        self,
        source: Source,
        options: SessionOptions,
        narrowing: Narrowing,
        caches: Mapping[str, str],
        training: Training,
    ) -> None:
        self._pairs = caches
        self._source = source
        self._narrowing = narrowing
        self._model = training.model or change(source.read(), options.changes)
        self._options = options
        self._names = WeightTable(identify=source.content)
        self._training = training
        self._state = training.titles(self._names)
        self._facts: dict[str, Facts] = {}
        self._weights: dict[str, np.ndarray] = {self._state[name]: array for name, array in training.parameters.items()}

    def make(
        self,
        targets: Sequence[str],
        buckets: Sequence[Mapping[str, Typical]],
        sizes: Mapping[str, int | str],
        compress: bool,
    ) -> Iterator[bytes | memoryview]:
        given = {MODEL: [open_inputs(self._model, bucket, sizes) for bucket in buckets]}
        for name, part in self._training.parts.items():
            given[name] = [open_inputs(part.model, {}, _sizes_of(part.model, sizes))]
        self._declared = {name: inputs[0].model if len(inputs) == 1 else self._model for name, inputs in given.items()}
        told, first, last = {}, {}, {}
        for target in targets:
            told[target], sections = self._target(target, _bundler(target), given)
            head = next(iter(sections), None)
            first.update({name: data for name, data in sections.items() if name == head})
            last.update({name: data for name, data in sections.items() if name != head})
        arrays = {name: np.ascontiguousarray(array) for name, array in self._weights.items()}
        training, file = self._trained()
        manifest = {
            "release": __version__,
            "model": self._facts[MODEL].data(),
            "strings": list(self._names.strings.texts),
            "weights": {name: [dtypes.of(array.dtype).name, list(array.shape)] for name, array in arrays.items()},
            "targets": told,
            **training,
        }
        contents = [Content(name, array.reshape(-1).view(np.uint8).data) for name, array in arrays.items()]
        last |= file
        written = [*map(Content, first, first.values()), *contents, *map(Content, last, last.values())]
        if compress:
            widths = {name: array.itemsize for name, array in arrays.items()}
            written = [each.deflated(widths.get(each.title, 1)) for each in written]
        return format.write(manifest, written, compress)

    def _trained(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """The entry of the manifest for who trains the model, if anybody, and sections that nobody else reads."""
        training = self._training
        if training.file is None:
            return {}, {}
        parts = {
            name: {
                "model": self._facts[name].data(),
                "updates": {output: self._state[held] for output, held in part.updates.items()},
            }
            for name, part in training.parts.items()
        }
        state = {self._state[name]: ["float32", list(shape)] for name, shape in training.zeros.items()}
        wholes = {self._state[name]: [self._state[part] for part in parts] for name, parts in training.wholes.items()}
        parameters = {name: self._state[name] for name in training.parameters}
        sections, file = model_file(training.file, parameters, self._stored)
        told = {"parameters": parameters, "state": state, "wholes": wholes, "parts": parts, "file": file}
        return {"training": {**training.told, **told}}, sections

    def _stored(self, array: np.ndarray) -> str | None:
        """The name of the constant of the bundle with these elements, if there is one."""
        name = self._names.find(array)
        return name if name in self._weights else None

    def _target(
        self, target: str, bundler: Bundler, given: Mapping[str, Sequence[OpenInputs]]
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

        self._refused: list[str] = []
        made = {
            name: [each for part in inputs for each in self._plans(bundler, name, part)]
            for name, inputs in given.items()
        }
        plans = [plan for part in made.values() for plan, _ in part]
        if bad := sorted({label for plan in plans for label in foreign(plan)}):
            more = f" and {len(bad) - 5} more" if len(bad) > 5 else ""
            raise NotImplemented(
                f"these nodes need Python, and cannot be part of a bundle for {target}: {', '.join(bad[:5])}{more};"
                f" {'' if target == 'wasm' else 'compile for wasm, or '}run the model in Pyodide"
            )
        for plan in plans:
            self._collect(plan)
        stored = {
            name: [{"accepts": accepts, **store(plan, number)} for plan, accepts in part] for name, part in made.items()
        }
        told, sections = bundler.write(list(codes.values()))
        listed = [[*each, reach(code)] for each, (code, _) in zip(told["codes"], codes.values(), strict=True)]
        refused = list(dict.fromkeys(self._refused))
        return {
            "provider": bundler.provider.name,
            **told,
            "codes": listed,
            "plans": stored.pop(MODEL),
            "refuses": refused,
            **({"training": stored} if stored else {}),
        }, sections

    def _plans(self, bundler: Bundler, name: str, given: OpenInputs, is_narrow: bool = False) -> list[tuple[Plan, str]]:
        """The plans of a model for these inputs, and what they accept.

        With `is_narrow`, element types that the target has are in place of those that it lacks.
        """
        integers = bundler.provider.prefers_integers
        graph = prepare(given.model, self._options, (), integers).graph
        self._narrowing.apply(graph)
        if is_narrow:
            bundler.narrow(graph)
        compiler = Compiler(graph, [bundler.provider, registry.load(registry.NUMPY)], self._names, narrow=True)
        fed = [value for value in compiler.inputs if value.name not in self._state]
        if name not in self._facts:
            values = {value.name: value for value in self._declared[name].graph.inputs}
            model = self._training.parts[name].model if name != MODEL else self._model
            self._facts[name] = Facts.of(model, graph, [values[value.name] for value in fed])
        inputs, outputs = ([node_arg(value) for value in values] for values in (compiler.inputs, graph.outputs))
        held = {past: (output, growing(inputs, outputs, past, output)) for past, output in self._pairs.items()}
        sizes = OpenSizes(compiler.inputs, given.ranks, held)
        cases = Cases(compiler, sizes, given.typical, sizes.in_symbols(given.relations), given.values)
        plans = cases.make()
        if not is_narrow and any(map(foreign, plans)) and bundler.narrow(graph):
            return self._plans(bundler, name, given, is_narrow=True)
        for value, outline in zip(compiler.graph.outputs, plans[0].results, strict=True):
            if outline != TENSOR:
                raise NotImplemented(f"output {value.name!r} is a {value.type}; bundles give tensors")
        for plan in plans:
            hold(plan, self._state)
        names = names_of(plans[0], fed)
        line = accepted(plans, names, sizes.in_names(cases.relations))
        self._refused += cases.refusals()
        return [(plan, line) for plan in plans]

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


def _sizes_of(model: Model, sizes: Mapping[str, int | str]) -> dict[str, int | str]:
    """Those sizes that are sizes of a model's inputs."""
    names = {
        size_name(value.name, axis, size)
        for value in model.graph.inputs
        for axis, size in enumerate(value.shape or ())
        if not isinstance(size, int)
    }
    return {name: size for name, size in sizes.items() if name in names}


def _bundler(target: str) -> Bundler:
    bundler = registry.load(TARGETS[target]).bundler() if target in TARGETS else None
    if bundler is None:
        raise InvalidArgument(f"there is no target {target!r}; use {' or '.join(TARGETS)}")
    return bundler
