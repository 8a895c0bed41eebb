"""What a session tells of itself: its model's interface, its providers, and what runs where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sardonyx.api.assignment import OrtEpAssignedSubgraph, assigned, guessed
from sardonyx.api.devices import OrtEpDevice, OrtMemoryInfo, get_ep_devices, memory_of
from sardonyx.api.feeds import node_arg
from sardonyx.api.options import NodeArg, SessionOptions
from sardonyx.common import memory
from sardonyx.common.memory import MemoryReport
from sardonyx.errors import Fail
from sardonyx.model.metadata import ModelMetadata
from sardonyx.plans.plan import Plan
from sardonyx.plans.plan_cache import Facts
from sardonyx.providers import registry
from sardonyx.providers.contract import Device, Provider
from sardonyx.runtime.executor import Executor
from sardonyx.runtime.profile import Profiling
from sardonyx.runtime.weights import Weights

RECORD = "session.record_ep_graph_assignment_info"


class Described:
    """The part of a session that answers questions."""

    _asks_for_cpu: bool
    _bundle: Any
    _chosen: Sequence[tuple[Provider, Mapping[str, str]]]
    _devices: list[Device]
    _facts: Facts
    _graph: Any
    """The optimized graph."""
    _main: Any
    _options: SessionOptions
    _profiling: Profiling
    _variants: Mapping[Any, Any]
    _weights: Weights
    plans: Any
    """The plans kept so far."""

    # ---- profiles

    def end_profiling(self) -> str:
        """Write the profile of all runs so far, and give the name of the file; "" if profiling is not enabled.

        The file is a Chrome trace: https://ui.perfetto.dev shows it.
        """
        return self._profiling.end()

    def get_profiling_start_time_ns(self) -> int:
        return self._profiling.start

    def memory(self) -> list[MemoryReport]:
        """What the session holds now on each of its providers: weights, arena, and the peak of the process. Where it
        has a memory limit, that and what it uses of it, too."""
        budget = self._weights.budget
        bound = (budget.limit, budget.arenas() + self._weights.held()) if budget else (0, 0)
        executors = self._executors()
        return [
            MemoryReport(
                provider.name,
                *self._weights.sizes(device),
                sum(executor.arena(number) for executor in executors),
                memory.peak(),
                *bound,
            )
            for number, ((provider, _), device) in enumerate(zip(self._chosen, self._devices))
        ]

    def shrink(self) -> None:
        """Give back the memory that runs leave for later ones; weights stay."""
        for executor in self._executors():
            executor.shrink()

    def _executors(self) -> list[Executor]:
        return [executor for variant in self._variants.values() for executor in variant.function.executors]

    # ---- the model

    def get_inputs(self) -> list[NodeArg]:
        return [node_arg(value) for value in self._facts.inputs]

    def get_outputs(self) -> list[NodeArg]:
        return [node_arg(value) for value in self._facts.outputs]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """The initializers that a call may feed: those that are inputs too, from IR version 4 on."""
        return [node_arg(value) for value in self._facts.overridable]

    def get_modelmeta(self) -> ModelMetadata:
        facts = self._facts.metadata
        return replace(facts, custom_metadata_map=dict(facts.custom_metadata_map))

    def get_input_memory_infos(self) -> list[OrtMemoryInfo]:
        """Where `run` takes each input from: the host."""
        return [memory_of("") for _ in self._facts.inputs]

    def get_output_memory_infos(self) -> list[OrtMemoryInfo]:
        """Where `run` leaves each output: the host."""
        return [memory_of("") for _ in self._facts.outputs]

    def get_input_epdevices(self) -> list[OrtEpDevice | None]:
        """The device of the first provider, for each input."""
        known = {device.ep_name: device for device in get_ep_devices()}
        return [known.get(self._chosen[0][0].name) for _ in self._facts.inputs]

    # ---- providers

    def get_session_options(self) -> SessionOptions:
        return self._options

    def get_providers(self) -> list[str]:
        """The providers, in the order in which nodes are offered to them.

        Where the CPU was asked for, `CPUExecutionProvider` stands before what it consists of here.
        """
        return list(self.get_provider_options())

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """The options that have an effect, by provider."""
        found: dict[str, dict[str, str]] = {}
        for provider, options in self._chosen:
            if self._asks_for_cpu and provider.name in registry.FASTEST:
                found.setdefault(registry.CPU, dict(options))
            found[provider.name] = dict(options)
        return found

    def get_provider_graph_assignment_info(self) -> Sequence[OrtEpAssignedSubgraph]:
        """Which nodes of the optimized model run on which provider: in the last run, or for some sizes before one.

        Raises Fail where the options' entry `session.record_ep_graph_assignment_info` is not "1", as onnxruntime does.
        """
        if self._options.entry(RECORD) != "1":
            raise Fail(f"Session configuration entry '{RECORD}' must be set to \"1\" to have the assignment told")
        if self._bundle is not None:
            raise Fail("a bundle has kernels, no nodes: ask a session on the model that it was compiled from")
        plans: Sequence[Plan] = self.plans
        titles = dict.fromkeys(registry.FASTEST, registry.CPU) if self._asks_for_cpu else {}
        return assigned(self._graph, plans[0] if plans else guessed(self._main.compiler), titles)

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        """Accepted for compatibility: no provider has options that change while it runs."""

    def get_tuning_results(self) -> list[Any]:
        """Nothing: nothing is tuned by measuring."""
        return []

    def set_tuning_results(self, results: Any, *, error_on_invalid: bool = False) -> None:
        """Accepted for compatibility: nothing is tuned by measuring."""

    def release_captured_graph(self, graph_annotation_id: int = 0) -> None:
        """Accepted for compatibility: plans are replayed anyway."""
