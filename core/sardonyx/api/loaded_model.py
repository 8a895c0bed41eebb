"""A model as a session has it: read, optimized and compiled where no earlier session left its plans."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from sardonyx.api.assignment import OrtEpAssignedSubgraph, assigned, guessed
from sardonyx.api.execution_providers import ExecutionProviders
from sardonyx.api.model_interface import NOTHING
from sardonyx.api.options import SessionOptions
from sardonyx.common import debug
from sardonyx.common.garbage import paused
from sardonyx.common.spill import Spill
from sardonyx.compiler import coverage
from sardonyx.compiler.cases import Cases
from sardonyx.compiler.compile import Compiler
from sardonyx.compiler.open_sizes import OpenSizes
from sardonyx.compiler.partition import limited
from sardonyx.model.ir import Graph, Model, Value
from sardonyx.model.structure import Form
from sardonyx.passes.changes import change
from sardonyx.passes.downgrade import save_lowered
from sardonyx.passes.known import refuse_unknown
from sardonyx.passes.pipeline import prepare
from sardonyx.plans import plan_cache
from sardonyx.plans.plan import Plan
from sardonyx.plans.plan_cache import Facts, Source
from sardonyx.plans.weight_table import WeightTable
from sardonyx.runtime.executor import MOST_PLANS
from sardonyx.runtime.handles import Feed
from sardonyx.runtime.profile import Profiling


class LoadedModel:
    """What was read of a model, and is prepared for compiling when that is first asked for.

    After `recall` there are `facts`, what is told of it, and `names`, the table of its constants and strings.
    """

    facts: Facts
    names: WeightTable
    is_bundle = False

    def __init__(
        self,
        given: Any,
        options: SessionOptions,
        disabled: Sequence[str],
        providers: ExecutionProviders,
        profiling: Profiling,
    ) -> None:
        self._source = Source(given, options.changes)
        self._options = options
        self._disabled = disabled
        self._providers = providers
        self._profiling = profiling
        self.is_covered = False
        """Whether there are plans for sizes that were not met."""
        self._key: bytes | None = None
        self._compilers: dict[frozenset[str], Compiler] = {}
        self._lock = threading.RLock()

    def recall(self) -> Sequence[Plan]:
        """The plans of earlier sessions; the devices are open by now, where they can be."""
        self._key = plan_cache.key(self._source, self._options, self._providers.chosen, self._disabled)
        if earlier := plan_cache.recall(self._key, self._source):
            self.facts, self.names, self.is_covered = earlier.facts, earlier.names, earlier.is_covered
            return earlier.plans
        self.names = WeightTable()
        self.facts = Facts.of(self._model, self._graph, self._compiler(NOTHING).inputs)
        return []

    def inputs(self, fed: frozenset[str]) -> Sequence[Value]:
        """What a call gives, some initializers among it."""
        return self._compiler(fed).inputs if fed else self.facts.inputs

    # ---- compiling

    def compile_early(self) -> Plan | None:
        """The plan that needs no call to be known, if there is one."""
        with self._profiling.span("compile"), self._sparing():
            plan = self._compiler(NOTHING).compile_early()
        if plan:
            self._tell(plan)
            self._remember([plan])
        return plan

    def compile(
        self,
        fed: frozenset[str],
        feeds: Sequence[Feed],
        hints: Mapping[str, int],
        arguments: Sequence[Form],
        earlier: Sequence[Plan],
    ) -> Plan:
        """A plan for calls like this one, which later sessions find beside the `earlier` ones."""
        start = time.perf_counter()
        with self._profiling.span("compile"), paused(), self._sparing():
            plan = self._compiler(fed).compile(feeds, hints, arguments)
        self._tell(plan)
        self._remember([plan, *earlier] if fed == NOTHING else [])
        debug.say(debug.TIMES, f"compiled in {1e3 * (time.perf_counter() - start):.1f} ms")
        return plan

    def cover(self, plans: Sequence[Plan], feeds: Sequence[Feed], before: Sequence[tuple[int, ...]]) -> list[Plan]:
        """Plans for other sizes than those of two calls, the latter with these feeds, once for all sessions."""
        if self.is_covered:
            return []
        self.is_covered = True
        compiler = self._compiler(NOTHING)
        with self._profiling.span("compile"), paused(), self._sparing():
            found = coverage.cover(plans, feeds, before, lambda others: compiler.compile(others, {}))
        for plan in found:
            self._tell(plan)
        self._remember([*plans, *found])
        return found

    def all_plans(self) -> list[Plan]:
        """Plans for all sizes that the model leaves open, with made-up ones: 0, 1 and more."""
        self.is_covered = True
        compiler = self._compiler(NOTHING)
        with self._profiling.span("compile"), paused(), self._sparing():
            plans = Cases(compiler, OpenSizes(compiler.inputs)).make()
        for plan in plans:
            self._tell(plan)
        self._remember(plans)
        return plans

    def assignment(self, plans: Sequence[Plan]) -> list[OrtEpAssignedSubgraph]:
        """Which nodes run on which provider, by the latest of these plans or, without one, for some sizes."""
        plan = plans[0] if plans else guessed(self._compiler(NOTHING))
        return assigned(self._graph, plan, self._providers.titles())

    def _tell(self, plan: Plan) -> None:
        """Tell of a new plan."""
        if debug.level() < debug.PLACEMENT:
            return
        debug.say(debug.PLACEMENT, f"new plan: {plan.summary()}")
        for label, device in zip(plan.nodes, plan.placement, strict=True):
            if device > 0:
                debug.say(debug.PLACEMENT, f"{label} falls to {plan.devices[device]}")

    def _remember(self, plans: Sequence[Plan]) -> None:
        """Keep plans for other processes, and no page of the files in memory."""
        if plans:
            plan_cache.remember(self._key, self._source, self.facts, plans[:MOST_PLANS], self.is_covered)
        self._source.forget()

    # ---- preparing

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
            integers = self._providers.first.prefers_integers
            prepared = prepare(model, self._options, self._disabled, integers)
        if target := self._options.optimized_model_filepath:
            self._options.refuse_ort(target)
            save_lowered(prepared, model.opset_imports, target, *self._options.external_data())
        return prepared.graph

    def _compiler(self, fed: frozenset[str]) -> Compiler:
        """What makes plans for calls that feed these initializers."""
        with self._lock:
            if fed not in self._compilers:
                providers = [provider for provider, _ in self._providers.chosen]
                if limit := self._options.memory_limit:  # those that copy weights leave the largest to others
                    providers = limited(providers, limit)
                self._compilers[fed] = Compiler(self._graph, providers, self.names, fed)
            return self._compilers[fed]

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
