"""The session: a model, ready to run, with onnxruntime's interface."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sardonyx import debug, dtypes, memory, providers
from sardonyx.compiler.compile import Compiler
from sardonyx.compiler.schedule import WeightTable
from sardonyx.edge import inward, outward
from sardonyx.errors import InvalidArgument
from sardonyx.executor import Function
from sardonyx.garbage import paused
from sardonyx.ir import OptionalType, TensorType, Value
from sardonyx.memory import MemoryReport
from sardonyx.options import ModelMetadata, NodeArg, RunOptions, SessionOptions
from sardonyx.passes.lower import save_lowered
from sardonyx.passes.pipeline import prepare
from sardonyx.plan import Plan
from sardonyx.profile import Profiling
from sardonyx.serde.reader import read
from sardonyx.strings import RunStrings, StaleStringsError
from sardonyx.structure import Form, Nested, arrange, fill, form, leaves, present, type_name
from sardonyx.termination import governed
from sardonyx.threads import limit_blas
from sardonyx.weights import Weights


@dataclass
class _Variant:
    """The model with some initializers fed by the call; without any it is the model itself."""

    compiler: Compiler
    function: Function


class InferenceSession:
    """A model on execution providers, in the order in which they are to be tried.

    >>> import numpy as np
    >>> from sardonyx import InferenceSession
    >>> from sardonyx.demo import assets
    >>> model = (assets() / "digits.onnx").read_bytes()
    >>> session = InferenceSession(model, providers=["NumpyExecutionProvider"])
    >>> (probabilities,) = session.run(None, {"image": np.zeros((2, 1, 28, 28), np.float32)})
    >>> probabilities.shape
    (2, 10)
    """

    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes,
        sess_options: SessionOptions | None = None,
        providers: Sequence[str | tuple[str, Mapping[str, Any]]] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        self._options = sess_options or SessionOptions()
        limit_blas(self._options.intra_op_num_threads)
        self._profiling = Profiling(self._options)
        with paused():
            with self._profiling.span("read"):
                self._model = read(path_or_bytes)
            self._chosen = _resolve(providers, provider_options)
            self._devices = [provider.device(options) for provider, options in self._chosen]
            self._prepare(kwargs.get("disabled_optimizers") or ())

    def _prepare(self, disabled: Sequence[str]) -> None:
        with self._profiling.span("optimize"):
            prepared = prepare(self._model, self._options, disabled)
        self._graph = prepared.graph
        if target := self._options.optimized_model_filepath:
            save_lowered(prepared, self._model.opset_imports, target)
        self._names = WeightTable()
        self._weights = Weights()
        self._variants: dict[frozenset[str], _Variant] = {}
        self._main = self._variant(frozenset())
        with self._profiling.span("compile"):
            plan = self._main.compiler.compile_early()
        if plan:
            self._said(plan)
            self._main.function.add(plan)

    def _variant(self, fed: frozenset[str]) -> _Variant:
        if fed not in self._variants:
            compiler = Compiler(self._graph, [provider for provider, _ in self._chosen], self._names, fed)
            function = Function([], self._devices, self._weights, profiler=self._profiling.profiler)
            self._variants[fed] = _Variant(compiler, function)
        return self._variants[fed]

    # ---- running

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """The outputs of these names (all if None) for arrays by input name.

        A sequence is a list, a map is a dict, and an optional without element is None, or not fed at all.
        """
        names = [value.name for value in self._graph.outputs]
        for name in output_names or ():
            if name not in names:
                raise InvalidArgument(f"the model has no output {name!r}; it has {', '.join(map(repr, names))}")
        inputs = [value.name for value in self._main.compiler.inputs]
        others = frozenset(input_feed) - frozenset(inputs)
        unknown = others - {argument.name for argument in self.get_overridable_initializers()}
        if unknown:
            raise InvalidArgument(f"the model has no input {min(unknown)!r}; it has {', '.join(map(repr, inputs))}")
        variant = self._variant(others)
        fed = [_feed(value, input_feed) for value in variant.compiler.inputs]
        tensors = [tensor for item in fed for tensor in leaves(item)]
        with governed(run_options), self._profiling.span("run"):
            results = self._run(variant, tensors, list(map(form, fed)))
        return results if not output_names else [results[names.index(name)] for name in output_names]

    def _run(self, variant: _Variant, feeds: list[np.ndarray], arguments: list[Form]) -> list[Any]:
        def compile_now(hints: Mapping[str, int]) -> Plan:
            start = time.perf_counter()
            with self._profiling.span("compile"), paused():
                plan = variant.compiler.compile(feeds, hints, arguments)
            self._said(plan)
            debug.say(debug.TIMES, f"compiled in {1e3 * (time.perf_counter() - start):.1f} ms")
            return plan

        strings = RunStrings(self._names.strings)
        try:
            handles, plan, release = variant.function.call(feeds, strings, None, compile_now, arguments)
        except StaleStringsError:
            return self._run(variant, feeds, arguments)
        try:
            arrays = [self._devices[h.device].download(h.address, h.dtype, h.shape) for h in handles]
            tensors = [outward(array, handle.element, strings) for array, handle in zip(arrays, handles, strict=True)]
        finally:
            release()
        return [present(item) for item in fill(plan.results, iter(tensors))]

    def _said(self, plan: Plan) -> None:
        if debug.level() >= debug.PLACEMENT:
            debug.say(debug.PLACEMENT, f"new plan: {plan.summary()}")
            for label, device in zip(plan.nodes, plan.placement, strict=True):
                if device > 0:
                    debug.say(debug.PLACEMENT, f"{label} falls to {plan.devices[device]}")

    @property
    def plans(self) -> list[Plan]:
        """The plans kept so far, the one used last first."""
        return [executor.plan for executor in self._main.function.executors]

    @property
    def compiled(self) -> int:
        """How many plans were made."""
        return self._main.function.compiled

    # ---- profiles

    def end_profiling(self) -> str:
        """Write the profile of all runs so far, and give the name of the file; "" if profiling is not enabled.

        The file is a Chrome trace: https://ui.perfetto.dev shows it.
        """
        return self._profiling.end()

    def memory(self) -> list[MemoryReport]:
        """What the session holds now on each of its providers: weights, arena, and the peak of the process."""
        executors = [executor for variant in self._variants.values() for executor in variant.function.executors]
        return [
            MemoryReport(
                provider.name,
                *self._weights.sizes(device),
                sum(executor.arena(number) for executor in executors),
                memory.peak(),
            )
            for number, ((provider, _), device) in enumerate(zip(self._chosen, self._devices, strict=True))
        ]

    def get_profiling_start_time_ns(self) -> int:
        return self._profiling.start

    # ---- facts

    def get_inputs(self) -> list[NodeArg]:
        return [_node_arg(value) for value in self._main.compiler.inputs]

    def get_outputs(self) -> list[NodeArg]:
        return [_node_arg(value) for value in self._model.graph.outputs]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """The initializers that a call may feed: those that are inputs too, from IR version 4 on."""
        initialized = {id(value) for value in self._graph.initializers}
        return [_node_arg(value) for value in self._graph.inputs if id(value) in initialized]

    def get_providers(self) -> list[str]:
        return [provider.name for provider, _ in self._chosen]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        return {provider.name: dict(options) for provider, options in self._chosen}

    def get_session_options(self) -> SessionOptions:
        return self._options

    def get_modelmeta(self) -> ModelMetadata:
        model = self._model
        return ModelMetadata(
            model.producer_name,
            model.graph.name,
            model.domain,
            model.doc,
            model.graph.doc,
            model.model_version,
            dict(model.metadata),
        )


def _resolve(names: Any, options: Any) -> list[Any]:
    return providers.resolve(names, options)


def _feed(value: Value, feed: Mapping[str, Any]) -> Nested[np.ndarray]:
    """What is fed to an input, checked against its declared type."""
    if value.name not in feed and not isinstance(value.type, OptionalType):
        raise InvalidArgument(f"input {value.name!r} ({value.type}) is missing from the feed")
    return arrange(value.name, value.type, feed.get(value.name), _tensor)


def _tensor(name: str, kind: TensorType, given: Any) -> np.ndarray:
    """The array that is given for a tensor of this type."""
    array = np.asarray(given)
    want = kind.dtype
    if want is not None and not want.is_native:
        array = inward(array, want)
    stored = object if want is dtypes.string else want.storage if want else None
    if want is not None and array.dtype != stored:
        raise InvalidArgument(f"input {name!r} wants {want.onnx_name}, not NumPy's {array.dtype}; use astype")
    shape = kind.shape
    if shape is None:
        return np.ascontiguousarray(array).reshape(array.shape)
    if len(shape) != array.ndim:
        raise InvalidArgument(f"input {name!r} wants rank {len(shape)} ({kind}), not {list(array.shape)}")
    for axis, (size, found) in enumerate(zip(shape, array.shape, strict=True)):
        if isinstance(size, int) and size != found:
            raise InvalidArgument(f"input {name!r} wants {kind}, but axis {axis} is {found}, not {size}")
    return np.ascontiguousarray(array).reshape(array.shape)


def _node_arg(value: Value) -> NodeArg:
    kind = value.type
    holder = kind.element if isinstance(kind, OptionalType) else kind
    shape = holder.shape if isinstance(holder, TensorType) else None
    return NodeArg(value.name, type_name(kind), list(shape or ()))
