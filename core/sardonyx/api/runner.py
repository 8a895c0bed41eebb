"""A model on execution providers, ready to run: what a call feeds becomes tensors, and a plan's results its outputs."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sardonyx.api.execution_providers import ExecutionProviders, threads_of
from sardonyx.api.feeds import fed_to
from sardonyx.api.loaded_model import LoadedModel
from sardonyx.api.model_interface import NOTHING, ModelInterface
from sardonyx.api.options import RunOptions, SessionOptions
from sardonyx.api.ort_value import OrtValue
from sardonyx.api.outputs import Outputs, Ran, Target
from sardonyx.api.variants import Variants
from sardonyx.common import debug, threads
from sardonyx.common.forks import Whole
from sardonyx.common.garbage import paused
from sardonyx.common.record import record
from sardonyx.common.strings import RunStrings, StaleStringsError
from sardonyx.common.termination import governed
from sardonyx.errors import DeviceLost, InvalidArgument, MustAwait
from sardonyx.model.serde.source import BytesLike
from sardonyx.model.structure import TENSOR, Form, form, leaves
from sardonyx.plans.plan import Plan
from sardonyx.plans.plan_cache import Source, StalePlanError
from sardonyx.plans.signature import is_bundle_at
from sardonyx.runtime.budget import OverLimitError
from sardonyx.runtime.frames import GuardError
from sardonyx.runtime.handles import Feed, downloaded
from sardonyx.runtime.profile import Profiling

if TYPE_CHECKING:  # a session on a model does without what reads bundles
    from sardonyx.api.loaded_bundle import LoadedBundle


@record(slots=True)
class RunCall:
    """What a run is given: which initializers are fed, tensors, and how they are arranged."""

    fed: frozenset[str]
    feeds: list[Feed]
    arguments: list[Form]


class Runner:
    """Owns all that a session has on some providers: `providers` with their devices, `model` with what is read and
    prepared of it, its `interface`, `variants` with the plans and the memory, and the `profiling` of all that."""

    def __init__(
        self,
        given: Any,
        options: SessionOptions,
        disabled: Sequence[str],
        names: Any,
        provider_options: Any,
        strict: bool,
    ) -> None:
        """A model at a path or in bytes on the providers of these names; if `strict`, nobody else's are among them."""
        threads.check(threads_of(options))
        self._shapes: list[tuple[int, ...]] | None = None
        self.profiling = Profiling(options)
        self._lock = threading.Lock()
        source = Source(given, options.changes)
        held = source.held()
        with Whole(), paused():
            self.providers = ExecutionProviders(options, names, provider_options, strict)
            self.model: LoadedModel | LoadedBundle = (
                _bundle(given, held, self.providers)
                if is_bundle_at(given, held)
                else LoadedModel(source, options, disabled, self.providers, self.profiling)
            )
            with suppress(MustAwait):  # `run_async` opens them
                self.providers.open()
            self.variants = Variants(self.providers.devices, options.memory_limit, self.profiling.profiler)
            self._prepare()
        self.interface = ModelInterface(self.model.facts)

    def _prepare(self) -> None:
        """Find the plans that were made for this model before, or make the one that needs no call."""
        main = self.variants.main
        plans = self.model.recall()
        for plan in plans:
            main.remember(plan)
        if plans and not plans[0].symbols:
            main.executors[0].prepare()
        early = None if plans else self.model.compile_early()
        if early:
            main.add(early)
        if plans or early:
            main.fit()

    # ---- running

    def run(self, feed: Mapping[str, Any]) -> list[Any]:
        """All outputs; what was found out for a feed like this one is not found out again."""
        try:
            with self.variants.turn():
                outputs = self.variants.main.rerun(feed, self.model.names.strings, self.model.is_covered)
        except (GuardError, OverLimitError, StaleStringsError, StalePlanError):
            outputs = None
        return self.execute(self.call(feed)) if outputs is None else outputs

    def call(self, feed: Mapping[str, Any]) -> RunCall:
        """What is fed, checked."""
        if not isinstance(feed, Mapping):
            names = ", ".join(repr(value.name) for value in self.interface.facts.inputs)
            raise InvalidArgument(
                f"feed a dictionary of arrays by the names of inputs, {names}, not a {type(feed).__name__}"
            )
        fed = self.interface.overridden(feed)
        if any(isinstance(value, OrtValue) for value in feed.values()):
            feed = {name: self._own(value) for name, value in feed.items()}
        items = fed_to(self.model.inputs(fed), feed)
        return RunCall(fed, [tensor for item in items for tensor in leaves(item)], list(map(form, items)))

    def execute(self, call: RunCall) -> list[Any]:
        """All outputs."""
        with self.profiling.span("model_run"), self.variants.turn():
            self.providers.open()
            ran = self._ran(call)
            try:
                return ran.present(downloaded(self.providers.devices, ran.handles))
            finally:
                ran.release()

    async def execute_async(self, call: RunCall, options: RunOptions) -> list[Any]:
        """The same, but what can be awaited is: devices that are to be opened, and the outputs."""
        devices = self.providers.devices
        try:
            return await self._execute_async(call, options)
        except DeviceLost as error:
            self.reopen(error, devices)
        return await self._execute_async(call, options)

    async def _execute_async(self, call: RunCall, options: RunOptions) -> list[Any]:
        from sardonyx.api import asynchronous  # asyncio takes long to import

        with self.profiling.span("model_run"):
            if not self.providers.devices:
                await asynchronous.opened(self.providers.wanted())
            with governed(options):
                self.providers.open()
                ran = self._ran(call)
            try:
                return ran.present(await asynchronous.downloaded(self.providers.devices, ran.handles))
            finally:
                ran.release()

    def run_bound(self, feeds: Mapping[str, OrtValue], targets: Mapping[str, Target]) -> dict[str, OrtValue]:
        """The outputs where they are wanted, for values wherever they lie."""
        with self.profiling.span("model_run"), self.variants.turn():
            self.providers.open()
            ran = self._ran(self.call(feeds))
            try:
                outputs = Outputs(self.providers.devices, self.providers.names)
                values = outputs.take(ran, self.interface.output_names, targets)
            finally:
                ran.release()
        sparse = filter(self.interface.is_sparse, values)
        return values | {name: OrtValue.sparse(values[name]) for name in sparse}

    def _own(self, value: Any) -> Any:
        """What to feed for an OrtValue: where it lies, if on one of the session's devices."""
        return value.feed(self.providers.devices) if isinstance(value, OrtValue) else value

    def _ran(self, call: RunCall) -> Ran:
        """The outputs on their devices."""
        fed, feeds, arguments = call.fed, call.feeds, call.arguments
        function = self.variants.function(fed)

        def compile_now(hints: Mapping[str, int]) -> Plan:
            return self.model.compile(fed, feeds, hints, arguments, self.variants.plans)

        strings = RunStrings(self.model.names.strings)
        try:
            handles, plan, release = function.call(feeds, strings, None, compile_now, arguments)
        except StaleStringsError:
            return self._ran(call)
        except StalePlanError:
            function.forget()
            return self._ran(call)
        if not self.model.is_covered and fed == NOTHING:
            self._cover(feeds, plan)
        return Ran(handles, plan.results, strings, release)

    def _cover(self, feeds: Sequence[Feed], plan: Plan) -> None:
        """Have plans for other sizes, too, when there have been two: a third is to find its plan there."""
        shapes = [feed.shape for feed in feeds]
        before, self._shapes = self._shapes, shapes
        if plan.symbols and all(form == TENSOR for form in plan.arguments) and before not in (None, shapes):
            self.variants.main.append(self.model.cover(self.variants.plans, feeds, before))

    def plan_all(self) -> None:
        """Have plans for all sizes that the model leaves open, with their code."""
        with self.variants.turn():
            self.providers.open()
            for plan in self.model.all_plans():
                self.variants.main.add(plan)

    # ---- devices that are lost

    def reopen(self, error: DeviceLost, devices: Sequence[Any]) -> None:
        """Have no devices, unless another thread was here first. The next run opens them: plans stay, weights are
        uploaded again."""
        with Whole(), self._lock:
            if self.providers.devices is not devices:
                return
            debug.warn(f"{error}; it is opened again, and the model runs once more", RuntimeWarning)
            self.providers.lose()
            self.variants.move(self.providers.devices)


def _bundle(given: Any, held: BytesLike | None, providers: ExecutionProviders) -> LoadedBundle:
    from sardonyx.api.loaded_bundle import LoadedBundle

    return LoadedBundle(given, held, providers)
