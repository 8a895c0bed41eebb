"""The session: a model, ready to run, with onnxruntime's interface."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cached_property, partial
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar, overload

from sardonyx.api import choice, ort_config
from sardonyx.api.description import Described
from sardonyx.api.fallback import FallsBack
from sardonyx.api.feeds import blank, fed_to
from sardonyx.api.io_binding import Binds, Outputs, Ran, Target
from sardonyx.api.options import RunOptions, SessionOptions
from sardonyx.api.ort_value import OrtValue
from sardonyx.api.sparse import SparseTensor
from sardonyx.common import debug, threads
from sardonyx.common.garbage import paused
from sardonyx.common.spill import Spill
from sardonyx.common.strings import RunStrings, StaleStringsError
from sardonyx.common.termination import governed, is_governed, loading
from sardonyx.compiler.compile import Compiler
from sardonyx.compiler.partition import limited
from sardonyx.errors import DeviceLost, InvalidArgument, MustAwait
from sardonyx.model.ir import Graph, Model, SparseTensorType, Value
from sardonyx.model.structure import Form, form, leaves
from sardonyx.passes.changes import change
from sardonyx.passes.downgrade import save_lowered
from sardonyx.passes.known import refuse_unknown
from sardonyx.passes.pipeline import prepare
from sardonyx.plans import plan_cache
from sardonyx.plans.bundle.recall import accepts, choose, open_bundle, recall
from sardonyx.plans.plan import Plan
from sardonyx.plans.plan_cache import Facts, Remembered, Source, StalePlanError
from sardonyx.plans.weight_table import WeightTable
from sardonyx.providers.contract import Device, Provider
from sardonyx.runtime.budget import Budget, OverLimitError
from sardonyx.runtime.executor import MOST_PLANS, Function
from sardonyx.runtime.frames import GuardError
from sardonyx.runtime.handles import Feed, downloaded
from sardonyx.runtime.profile import Profiling
from sardonyx.runtime.weights import Weights

T = TypeVar("T")
SHRINK = "memory.enable_memory_arena_shrinkage"
NOTHING: frozenset[str] = frozenset()
Callback: TypeAlias = Callable[[list[Any], Any, str], Any]
"""What `run_async` calls with the results, the user's data, and what went wrong or ""."""


class _Variant:
    """The model with some initializers fed by the call; without any it is the model itself."""

    def __init__(self, session: InferenceSession, fed: frozenset[str], function: Function) -> None:
        self._session = weakref.proxy(session)
        self._fed = fed
        self.function = function

    @cached_property
    def compiler(self) -> Compiler:
        """What makes plans; it takes reading and optimizing the model."""
        compiler: Compiler = self._session._compiler(self._fed)
        return compiler


class _Call(NamedTuple):
    """What a run is given: the model as it is fed, tensors, and how they are arranged."""

    variant: _Variant
    feeds: list[Feed]
    arguments: list[Form]


class InferenceSession(Binds, Described, FallsBack):
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
        path_or_bytes: str | os.PathLike[str] | bytes | memoryview,
        sess_options: SessionOptions | None = None,
        providers: Sequence[str | tuple[str, Mapping[str, Any]]] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        wanted = kwargs.get("read_config_from_model")
        self._options = ort_config.of_model(sess_options or SessionOptions(), path_or_bytes, wanted)
        self._given = path_or_bytes
        self._disabled = list(kwargs.get("disabled_optimizers") or ())
        self._reading = threading.RLock()
        self._falls_back = int(kwargs.get("enable_fallback", 1)) == 1
        with loading(self._options.loading):
            self._begin(providers, provider_options, strict=not self._falls_back)

    def _begin(self, wanted: Any, provider_options: Any, strict: bool) -> None:
        """Be a session on these providers; if `strict`, nobody else's names are among them."""
        threads.check(self._threads())
        self._profiling = Profiling(self._options)
        self._source = Source(self._given, self._options.changes)
        self._weights = self._new_weights()
        self._variants: dict[frozenset[str], _Variant] = {}
        self._bundle = open_bundle(self._given)
        with paused():
            self._chosen = choice.of_session(self._options, wanted, provider_options, strict)
            self._asks_for_cpu = choice.means_cpu(self._options, wanted)
            if self._bundle:
                chosen, self._told = choose(self._bundle, self._chosen)
                self._chosen = [chosen]
            self._devices: list[Device] = []
            with suppress(MustAwait):  # `run_async` opens them
                self._open()
            if self._bundle is None:
                self._key = plan_cache.key(self._source, self._options, self._chosen, self._disabled)
            self._prepare()

    def _new_weights(self) -> Weights:
        limit, own = self._options.memory_limit, weakref.proxy(self)

        def evict() -> None:
            own.shrink()
            own._weights.clear()

        return Weights(Budget(limit, evict) if limit else None)

    @contextmanager
    def _sparing(self) -> Iterator[None]:
        """Within the block, have large constants that are computed in a file, and behind it none in memory, if there is
        a memory limit."""
        if not self._options.memory_limit:
            yield
            return
        with Spill().active():
            yield
        self._source.forget()

    def _taking_turns(self) -> AbstractContextManager[Any]:
        """Within the block, be the only run, if there is a memory limit."""
        budget = self._weights.budget
        return nullcontext() if budget is None else budget.turn

    def _threads(self) -> int:
        own = self._options.intra_op_num_threads
        return own if self._options.use_per_session_threads else threads.shared or own

    @classmethod
    async def from_url(
        cls,
        url: str,
        sess_options: SessionOptions | None = None,
        providers: Sequence[str | tuple[str, Mapping[str, Any]]] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        *,
        progress: Callable[[int, int], object] | None = None,
        **kwargs: Any,
    ) -> Self:
        """A session for the model, or bundle, at an address, relative to the page where there is one.

        `progress(loaded, total)` hears of bytes, `total` being 0 where the server does not say. A copy is kept, and
        fetched anew when the server has another (`sardonyx.api.download`). Raises Fail where it cannot be fetched.
        """
        from sardonyx.api.download import fetch

        return cls(await fetch(url, progress), sess_options, providers, provider_options, **kwargs)

    def _open(self) -> None:
        """Have the devices, all of them or none."""
        if not self._devices:
            self._devices += [provider.device(self._threaded(provider, given)) for provider, given in self._chosen]

    def _threaded(self, provider: Provider, options: Mapping[str, Any]) -> Mapping[str, Any]:
        count = self._threads()
        if not count or not provider.takes_threads:
            return options
        return {"intra_op_num_threads": str(count), **options}

    def _prepare(self) -> None:
        """Find what was made for this model before, or make the plan that needs no call."""
        self._main = self._variant(NOTHING)
        known = self._recall()
        if known is not None:
            self._facts, self._names = known.facts, known.names
            for plan in known.plans:
                self._main.function.remember(plan)
            if not known.plans[0].symbols:
                self._main.function.executors[0].prepare()
            self._main.function.fit()
            return
        self._names = WeightTable()
        self._facts = Facts.of(self._model, self._graph, self._main.compiler.inputs)
        with self._profiling.span("compile"), self._sparing():
            early = self._main.compiler.compile_early()
        if early:
            self._made(self._main, early)
            self._main.function.add(early)
            self._main.function.fit()

    def _recall(self) -> Remembered | None:
        """The plans of a bundle, or of earlier sessions."""
        if self._bundle is None:
            return plan_cache.recall(self._key, self._source)
        (provider, _), *_ = self._chosen
        return recall(self._bundle, provider, self._told)

    @cached_property
    def _model(self) -> Model:
        with self._profiling.span("read"):
            return change(self._source.read(), self._options.changes)

    @cached_property
    def _graph(self) -> Graph:
        """The model's graph, optimized."""
        model = self._model
        refuse_unknown(model)
        with self._profiling.span("optimize"), self._sparing():
            integers = self._chosen[0][0].prefers_integers
            prepared = prepare(model, self._options, self._disabled, integers)
        if target := self._options.optimized_model_filepath:
            self._options.refuse_ort(target)
            save_lowered(prepared, model.opset_imports, target, *self._options.external_data())
        return prepared.graph

    def _variant(self, fed: frozenset[str]) -> _Variant:
        if fed not in self._variants:
            self._variants[fed] = _Variant(self, fed, self._function([]))
        return self._variants[fed]

    def _compiler(self, fed: frozenset[str]) -> Compiler:
        with self._reading:
            return Compiler(self._graph, self._compiled_for(), self._names, fed)

    def _compiled_for(self) -> list[Provider]:
        """The providers; with a memory limit, those that copy weights leave the largest to others."""
        chosen = [provider for provider, _ in self._chosen]
        return limited(chosen, self._options.memory_limit) if self._options.memory_limit else chosen

    def _inputs(self, fed: frozenset[str]) -> Sequence[Value]:
        return self._variant(fed).compiler.inputs if fed else self._facts.inputs

    def _made(self, variant: _Variant, plan: Plan) -> None:
        """Tell of a new plan, and keep it for other processes."""
        if debug.level() >= debug.PLACEMENT:
            debug.say(debug.PLACEMENT, f"new plan: {plan.summary()}")
            for label, device in zip(plan.nodes, plan.placement, strict=True):
                if device > 0:
                    debug.say(debug.PLACEMENT, f"{label} falls to {plan.devices[device]}")
        if variant is self._main:
            plan_cache.remember(self._key, self._source, self._facts, [plan, *self.plans][:MOST_PLANS])
        self._source.forget()

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
        self.check_outputs(output_names)
        if run_options is not None:
            input_feed = run_options.adapted(input_feed)
        if run_options is None and not is_governed():
            results = self._surviving(lambda: self._outputs(input_feed))
        else:
            with governed(run_options):
                results = self._surviving(lambda: self._outputs(input_feed))
        if run_options is not None and run_options.entry(SHRINK):
            self.shrink()
        return self._pick(results, output_names)

    @overload
    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        *,
        run_options: RunOptions | None = None,
    ) -> Awaitable[list[Any]]: ...

    @overload
    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callback,
        user_data: Any = None,
        run_options: RunOptions | None = None,
    ) -> None: ...

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callback | None = None,
        user_data: Any = None,
        run_options: RunOptions | None = None,
    ) -> Awaitable[list[Any]] | None:
        """Begin a run in a thread or, where there are none as in Pyodide, on the event loop.

        When it is over, `callback(results, user_data, error)` is called in that thread, where `error` is a text, ""
        if all went well. Without a callback what is given can be awaited: `results = await session.run_async(None,
        feeds)`. To cancel that ends the run, unless it has `run_options`, whose `terminate` does. What is fed wrongly
        raises at once.
        """
        from sardonyx.api import asynchronous

        self.check_outputs(output_names)
        options = run_options or RunOptions()
        input_feed = options.adapted(input_feed)
        call = self._call(input_feed)

        def work() -> list[Any]:
            with governed(options):
                return self._pick(self._surviving(lambda: self._execute(self._call(input_feed))), output_names)

        async def awaited() -> list[Any]:
            devices = self._devices
            try:
                results = await self._execute_async(call, options)
            except DeviceLost as error:
                self._renounce(error, devices)
                results = await self._execute_async(call, options)
            return self._pick(results, output_names)

        if callback is not None:
            asynchronous.tell(work, awaited, lambda results, error: callback(results, user_data, error))
            return None
        stop = None if run_options else partial(setattr, options, "terminate", True)
        return asynchronous.begin(work, awaited, stop)

    def warm_up(self, *shapes: Mapping[str, Sequence[int]]) -> None:
        """Run once, on zeros, for inputs of each of these sets of shapes, so that later runs have no plan to make, no
        code to compile and no weights to upload. Inputs whose sizes the model tells may be left out.

        >>> from sardonyx.demo import assets
        >>> session = InferenceSession(assets() / "digits.onnx")
        >>> session.warm_up({"image": (1, 1, 28, 28)}, {"image": (8, 1, 28, 28)})
        """
        for each in shapes or ({},):
            self.run(None, blank(self._facts.inputs, each))

    def check_outputs(self, output_names: Sequence[str] | None) -> None:
        """Raise InvalidArgument where the model has no output of a name."""
        names = self._output_names
        for name in output_names or ():
            if name not in names:
                raise InvalidArgument(f"the model has no output {name!r}; it has {', '.join(map(repr, names))}")

    def _pick(self, results: list[Any], output_names: Sequence[str] | None) -> list[Any]:
        names = self._output_names
        for k in self._sparse_outputs:
            results[k] = SparseTensor.of_dense(results[k])
        return results if not output_names else [results[names.index(name)] for name in output_names]

    def _outputs(self, input_feed: Mapping[str, Any]) -> list[Any]:
        """All outputs; what was found out for a feed like this one is not found out again."""
        try:
            with self._taking_turns():
                found = self._main.function.rerun(input_feed, self._names.strings)
        except (GuardError, OverLimitError, StaleStringsError, StalePlanError):
            found = None
        return self._execute(self._call(input_feed)) if found is None else found

    def _call(self, input_feed: Mapping[str, Any]) -> _Call:
        """What is fed, checked."""
        others = NOTHING if input_feed.keys() <= self._input_names else self._overriding(input_feed)
        if any(isinstance(given, OrtValue) for given in input_feed.values()):
            input_feed = {name: self._own(given) for name, given in input_feed.items()}
        fed = fed_to(self._inputs(others), input_feed)
        tensors = [tensor for item in fed for tensor in leaves(item)]
        return _Call(self._variant(others), tensors, list(map(form, fed)))

    def _own(self, given: Any) -> Any:
        """What to feed for an OrtValue: where it lies, if on one of the session's devices."""
        return given.feed(self._devices) if isinstance(given, OrtValue) else given

    def _function(self, plans: Sequence[Plan]) -> Function:
        return Function(plans, self._devices, self._weights, profiler=self._profiling.profiler)

    def _execute(self, call: _Call) -> list[Any]:
        with self._profiling.span("model_run"), self._taking_turns():
            self._open()
            ran = self._run(call)
            try:
                return ran.present(downloaded(self._devices, ran.handles))
            finally:
                ran.release()

    async def _execute_async(self, call: _Call, options: RunOptions) -> list[Any]:
        """The same, but what can be awaited is: devices that are to be opened, and the outputs."""
        from sardonyx.api import asynchronous

        with self._profiling.span("model_run"):
            if not self._devices:
                wanted = ((provider, self._threaded(provider, given)) for provider, given in self._chosen)
                await asynchronous.opened(wanted)
            with governed(options):
                self._open()
                ran = self._run(call)
            try:
                return ran.present(await asynchronous.downloaded(self._devices, ran.handles))
            finally:
                ran.release()

    def run_bound(
        self, feeds: Mapping[str, OrtValue], targets: Mapping[str, Target], run_options: RunOptions | None = None
    ) -> dict[str, OrtValue]:
        """The outputs where they are wanted, for values wherever they lie (`sardonyx.api.io_binding`)."""
        feeds = feeds if run_options is None else run_options.adapted(feeds)
        with nullcontext() if run_options is None and not is_governed() else governed(run_options):
            found = self._surviving(lambda: self._execute_bound(feeds, targets))
        sparse = {self._output_names[k] for k in self._sparse_outputs}
        return {name: OrtValue.sparse(value) if name in sparse else value for name, value in found.items()}

    def _execute_bound(self, feeds: Mapping[str, OrtValue], targets: Mapping[str, Target]) -> dict[str, OrtValue]:
        with self._profiling.span("model_run"), self._taking_turns():
            self._open()
            ran = self._run(self._call(feeds))
            try:
                names = [provider.name for provider, _ in self._chosen]
                return Outputs(self._devices, names).take(ran, self._output_names, targets)
            finally:
                ran.release()

    @cached_property
    def _output_names(self) -> list[str]:
        return [value.name for value in self._facts.outputs]

    @cached_property
    def _sparse_outputs(self) -> list[int]:
        """The outputs that the model declares as sparse: runs know dense tensors alone."""
        return [k for k, value in enumerate(self._facts.outputs) if isinstance(value.type, SparseTensorType)]

    @cached_property
    def _input_names(self) -> frozenset[str]:
        return frozenset(value.name for value in self._facts.inputs)

    def _overriding(self, feed: Mapping[str, Any]) -> frozenset[str]:
        """The names of the initializers that are fed."""
        others = feed.keys() - self._input_names
        if unknown := others - {value.name for value in self._facts.overridable}:
            inputs = ", ".join(repr(value.name) for value in self._facts.inputs)
            raise InvalidArgument(f"the model has no input {min(unknown)!r}; it has {inputs}")
        return frozenset(others)

    def _run(self, call: _Call) -> Ran:
        """The outputs on their devices."""
        variant, feeds, arguments = call

        def compile_now(hints: Mapping[str, int]) -> Plan:
            if self._bundle:
                shapes = ", ".join(str(list(feed.shape)) for feed in feeds)
                raise InvalidArgument(
                    f"{self._bundle.name} is not for {shapes}; compile it for them, as it takes{accepts(self._told)}"
                )
            start = time.perf_counter()
            with self._profiling.span("compile"), paused(), self._sparing():
                plan = variant.compiler.compile(feeds, hints, arguments)
            self._made(variant, plan)
            debug.say(debug.TIMES, f"compiled in {1e3 * (time.perf_counter() - start):.1f} ms")
            return plan

        strings = RunStrings(self._names.strings)
        try:
            handles, plan, release = variant.function.call(feeds, strings, None, compile_now, arguments)
        except StaleStringsError:
            return self._run(call)
        except StalePlanError:
            variant.function.forget()
            return self._run(call)

        return Ran(handles, plan.results, strings, release)

    @property
    def plans(self) -> list[Plan]:
        """The plans kept so far, the one used last first."""
        return [executor.original for executor in self._main.function.executors]

    @property
    def compiled(self) -> int:
        """How many plans were made."""
        count: int = self._main.function.compiled
        return count
