"""A model as a session has it: with the plans of earlier sessions, or prepared and compiled where there are none."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sardonyx.api.execution_providers import ExecutionProviders
from sardonyx.api.model_interface import NOTHING
from sardonyx.api.options import SessionOptions
from sardonyx.common import debug
from sardonyx.common.forks import Whole
from sardonyx.model.ir import Value
from sardonyx.model.structure import Form
from sardonyx.plans import plan_cache
from sardonyx.plans.plan import Plan
from sardonyx.plans.plan_cache import Facts, Source
from sardonyx.plans.weight_table import WeightTable
from sardonyx.runtime.executor import MOST_PLANS
from sardonyx.runtime.handles import Feed
from sardonyx.runtime.profile import Profiling

if TYPE_CHECKING:  # which bring the compiler, or few sessions need
    from sardonyx.api.assignment import OrtEpAssignedSubgraph
    from sardonyx.api.preparation import Preparation


class LoadedModel:
    """Plans of a model, and what is told of it; it is read and prepared when a plan is missing.

    After `recall` there are `facts`, what is told of it, and `names`, the table of its constants and strings.
    """

    facts: Facts
    names: WeightTable
    is_bundle = False

    def __init__(
        self,
        source: Source,
        options: SessionOptions,
        disabled: Sequence[str],
        providers: ExecutionProviders,
        profiling: Profiling,
    ) -> None:
        self._source = source
        self._options = options
        self._disabled = disabled
        self._providers = providers
        self._profiling = profiling
        self.is_covered = False
        """Whether there are plans for sizes that were not met."""
        self._key: plan_cache.Key | None = None
        self._prepared: Preparation | None = None
        self._lock = threading.Lock()

    def recall(self) -> Sequence[Plan]:
        """The plans of earlier sessions; the devices are open by now, where they can be."""
        self._key = plan_cache.key(self._source, self._options, self._providers.chosen, self._disabled)
        if earlier := plan_cache.recall(self._key, self._source):
            self.facts, self.names, self.is_covered = earlier.facts, earlier.names, earlier.is_covered
            return earlier.plans
        self.names = WeightTable()
        preparation = self._preparation()
        self.facts = Facts.of(preparation.model, preparation.graph, preparation.compiler(NOTHING).inputs)
        return []

    def inputs(self, fed: frozenset[str]) -> Sequence[Value]:
        """What a call gives, some initializers among it."""
        return self._preparation().compiler(fed).inputs if fed else self.facts.inputs

    def compile_early(self) -> Plan | None:
        """The plan that needs no call to be known, if there is one."""
        plan = self._preparation().early()
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
        self._source.check()
        plan = self._preparation().plan(fed, feeds, hints, arguments)
        self._tell(plan)
        self._remember([plan, *earlier] if fed == NOTHING and not plan.is_beginning else [])
        debug.say(debug.TIMES, f"compiled in {1e3 * (time.perf_counter() - start):.1f} ms")
        return plan

    def cover(self, plans: Sequence[Plan], feeds: Sequence[Feed], before: Sequence[tuple[int, ...]]) -> list[Plan]:
        """Plans for other sizes than those of two calls, the latter with these feeds, once for all sessions."""
        if self.is_covered:
            return []
        self.is_covered = True
        if self._source.is_changed():
            return []
        found = self._preparation().cover(plans, feeds, before)
        for plan in found:
            self._tell(plan)
        self._remember([*plans, *found])
        return found

    def all_plans(self) -> list[Plan]:
        """Plans for all sizes that the model leaves open, with made-up ones: 0, 1 and more."""
        self.is_covered = True
        plans = self._preparation().all_plans()
        for plan in plans:
            self._tell(plan)
        self._remember(plans)
        return plans

    def assignment(self, plans: Sequence[Plan]) -> list[OrtEpAssignedSubgraph]:
        """Which nodes run on which provider, by the latest of these plans or, without one, for some sizes."""
        from sardonyx.api.assignment import assigned

        preparation = self._preparation()
        plan = plans[0] if plans else preparation.guessed()
        return assigned(preparation.graph, plan, self._providers.titles())

    def _preparation(self) -> Preparation:
        from sardonyx.api.preparation import Preparation  # takes as long to import as all else

        with Whole(), self._lock:
            if self._prepared is None:
                self._prepared = Preparation(
                    self._source, self._options, self._disabled, self._providers, self._profiling, self.names
                )
            return self._prepared

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
