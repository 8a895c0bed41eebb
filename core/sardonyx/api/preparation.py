"""What a session does with a model for which no earlier session left plans: read, optimize and compile it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from sardonyx.api.execution_providers import ExecutionProviders
from sardonyx.api.feeds import blank
from sardonyx.api.model_interface import NOTHING
from sardonyx.api.options import SessionOptions
from sardonyx.common.cached import cached_property
from sardonyx.common.forks import Whole
from sardonyx.common.garbage import paused
from sardonyx.common.spill import Spill
from sardonyx.compiler.compile import Compiler
from sardonyx.compiler.partition import limited
from sardonyx.errors import Fail, SardonyxError
from sardonyx.model.ir import Graph, Model
from sardonyx.model.structure import Form
from sardonyx.passes.changes import change
from sardonyx.passes.known import refuse_unknown
from sardonyx.passes.pipeline import prepare
from sardonyx.plans.plan import Plan
from sardonyx.plans.plan_cache import Source
from sardonyx.plans.weight_table import WeightTable
from sardonyx.runtime.handles import Feed
from sardonyx.runtime.profile import Profiling

GUESSES = (2, 1, 8, 64)
"""Sizes to be tried for those that a model leaves open."""


class Preparation:
    """The model of a source, its optimized graph, and what makes plans of it, each when first asked for.

    Constants and strings go to `names`.
    """

    def __init__(
        self,
        source: Source,
        options: SessionOptions,
        disabled: Sequence[str],
        providers: ExecutionProviders,
        profiling: Profiling,
        names: WeightTable,
    ) -> None:
        self._source = source
        self._options = options
        self._disabled = disabled
        self._providers = providers
        self._profiling = profiling
        self._names = names
        self._compilers: dict[frozenset[str], Compiler] = {}
        self._lock = threading.RLock()

    @cached_property
    def model(self) -> Model:
        with self._profiling.span("read"):
            return change(self._source.read(), self._options.changes)

    @cached_property
    def graph(self) -> Graph:
        """The model's graph, optimized."""
        model = self.model
        refuse_unknown(model)
        with self._profiling.span("optimize"), self._sparing():
            integers = self._providers.first.prefers_integers
            prepared = prepare(model, self._options, self._disabled, integers)
        if target := self._options.optimized_model_filepath:
            from sardonyx.passes.downgrade import save_lowered  # which brings the writer

            self._options.refuse_ort(target)
            save_lowered(prepared, model.opset_imports, target, *self._options.external_data())
        return prepared.graph

    def compiler(self, fed: frozenset[str]) -> Compiler:
        """What makes plans for calls that feed these initializers."""
        with Whole(), self._lock:
            if fed not in self._compilers:
                providers = [provider for provider, _ in self._providers.chosen]
                if limit := self._options.memory_limit:  # those that copy weights leave the largest to others
                    providers = limited(providers, limit)
                self._compilers[fed] = Compiler(self.graph, providers, self._names, fed, memory_limit=limit)
            return self._compilers[fed]

    # ---- compiling

    def early(self) -> Plan | None:
        """The plan that needs no call to be known, if there is one."""
        with self._profiling.span("compile"), self._sparing():
            return self.compiler(NOTHING).compile_early()

    def plan(
        self, fed: frozenset[str], feeds: Sequence[Feed], hints: Mapping[str, int], arguments: Sequence[Form]
    ) -> Plan:
        """A plan for calls like this one."""
        with self._profiling.span("compile"), paused(), self._sparing():
            return self.compiler(fed).compile(feeds, hints, arguments, is_called=True)

    def cover(self, plans: Sequence[Plan], feeds: Sequence[Feed], before: Sequence[tuple[int, ...]]) -> list[Plan]:
        """Plans for other sizes than those of two calls, the latter with these feeds."""
        with Whole():
            from sardonyx.compiler.coverage import cover  # which a session of one size needs not

        compiler = self.compiler(NOTHING)
        with self._profiling.span("compile"), paused(), self._sparing():
            return cover(plans, feeds, before, lambda others: compiler.compile(others, {}))

    def all_plans(self) -> list[Plan]:
        """Plans for all sizes that the model leaves open, with made-up ones: 0, 1 and more."""
        with Whole():
            from sardonyx.compiler.cases import Cases  # as above
            from sardonyx.compiler.open_sizes import OpenSizes

        compiler = self.compiler(NOTHING)
        with self._profiling.span("compile"), paused(), self._sparing():
            return Cases(compiler, OpenSizes(compiler.inputs)).make()

    def guessed(self) -> Plan:
        """A plan for some sizes; Fail where none of those that are tried makes sense to the model."""
        compiler = self.compiler(NOTHING)
        for guess in GUESSES:
            try:
                shapes = {
                    value.name: [size if isinstance(size, int) else guess for size in value.shape or ()]
                    for value in compiler.inputs
                }
                return compiler.compile(list(blank(compiler.inputs, shapes).values()), {})
            except SardonyxError:
                continue
        raise Fail("the model leaves sizes open: run it once, and the assignment is known")

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
