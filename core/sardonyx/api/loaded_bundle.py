"""A bundle as a session has it: its plans are all that there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from sardonyx.api.execution_providers import ExecutionProviders
from sardonyx.errors import Fail, InvalidArgument
from sardonyx.model.ir import Value
from sardonyx.model.serde.source import BytesLike
from sardonyx.model.structure import Form
from sardonyx.plans.acceptance import holds
from sardonyx.plans.bundle.recall import accepts, choose, open_bundle, recall
from sardonyx.plans.plan import Plan
from sardonyx.plans.plan_cache import Facts
from sardonyx.plans.signature import Given
from sardonyx.plans.weight_table import WeightTable
from sardonyx.runtime.handles import Feed


class LoadedBundle:
    """What `LoadedModel` is to a model, where nothing can be compiled: `facts` and `names` are there after `recall`."""

    facts: Facts
    names: WeightTable
    is_bundle = True
    is_covered = True

    def __init__(self, given: Given, held: BytesLike | None, providers: ExecutionProviders) -> None:
        """The bundle at a path or in memory; `held` is what lies at the path, if it was read."""
        self._bundle = open_bundle(given, held)
        (self._provider, options), self._told = choose(self._bundle, providers.chosen)
        providers.keep(self._provider, options)

    def recall(self) -> Sequence[Plan]:
        """The bundle's plans."""
        remembered = recall(self._bundle, self._provider, self._told)
        self.facts, self.names = remembered.facts, remembered.names
        self._plans = remembered.plans
        return remembered.plans

    def inputs(self, fed: frozenset[str]) -> Sequence[Value]:
        """What a call gives; InvalidArgument where initializers are among it."""
        if fed:
            raise InvalidArgument(f"{self._bundle.name} is compiled: {min(fed)!r} cannot be fed any more")
        return self.facts.inputs

    def compile_early(self) -> Plan | None:
        return None

    def compile(
        self,
        fed: frozenset[str],
        feeds: Sequence[Feed],
        hints: Mapping[str, int],
        arguments: Sequence[Form],
        earlier: Sequence[Plan],
    ) -> NoReturn:
        """Raises InvalidArgument, which says what the bundle is for."""
        told = accepts(self._told)
        if any(holds(plan, [feed.shape for feed in feeds]) for plan in self._plans):
            name = self._deciding()
            raise InvalidArgument(
                f"{self._bundle.name} has no plan for what elements of {name!r} decide; compile it with typical ones,"
                f" --value {name}=..., as it takes{told}"
            )
        shapes = ", ".join(str(list(feed.shape)) for feed in feeds)
        raise InvalidArgument(f"{self._bundle.name} is not for {shapes}; compile it for them, as it takes{told}")

    def _deciding(self) -> str:
        """The input whose elements decide: one that is read before the run, or the smallest of those without floats."""
        ports = self._plans[0].inputs
        read = [port for plan in self._plans for port in plan.inputs if port.symbols]
        whole = [port for port in ports if not port.dtype.startswith("float")]
        return min(read or whole or ports, key=lambda port: len(port.shape)).name

    def cover(self, plans: Sequence[Plan], feeds: Sequence[Feed], before: Sequence[tuple[int, ...]]) -> list[Plan]:
        """None: its plans are all that there are."""
        return []

    def all_plans(self) -> list[Plan]:
        return []

    def assignment(self, plans: Sequence[Plan]) -> Any:
        """Raises Fail."""
        raise Fail("a bundle has kernels, no nodes: ask a session on the model that it was compiled from")
