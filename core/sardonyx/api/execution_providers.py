"""The execution providers of a session, and the devices that they give it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sardonyx.api import choice
from sardonyx.api.options import SessionOptions
from sardonyx.common import threads
from sardonyx.common.forks import Whole
from sardonyx.providers import registry
from sardonyx.providers.contract import Device, Provider

SPINNING = "session.intra_op.allow_spinning"
"""The entry, onnxruntime's, whose "0" has threads sleep while they wait for each other."""


class ExecutionProviders:
    """The providers of a session, in the order in which nodes are offered to them, with their options and devices.

    `devices` is empty until `open`, and another list after `lose`: by that a run knows whether they are still its own.
    """

    def __init__(self, options: SessionOptions, names: Any, provider_options: Any, strict: bool) -> None:
        """Those that a session is asked for; if `strict`, nobody else's names are among them."""
        self._options = options
        self._asks_for_cpu = choice.means_cpu(options, names)
        self.chosen = choice.of_session(options, names, provider_options, strict)
        self.devices: list[Device] = []

    def keep(self, provider: Provider, options: Mapping[str, Any]) -> None:
        """Have this provider alone, with these options."""
        self.chosen = [(provider, dict(options))]

    @property
    def first(self) -> Provider:
        return self.chosen[0][0]

    @property
    def names(self) -> list[str]:
        return [provider.name for provider, _ in self.chosen]

    # ---- devices

    def wanted(self) -> list[tuple[Provider, Mapping[str, Any]]]:
        """The providers with the options of the devices that are to be opened."""
        return [(provider, self._threaded(provider, options)) for provider, options in self.chosen]

    def open(self) -> None:
        """Have the devices, all of them or none."""
        if not self.devices:
            with Whole():
                self.devices += [provider.device(options) for provider, options in self.wanted()]

    def lose(self) -> None:
        """Have no devices, until they are opened again."""
        self.devices = []

    def _threaded(self, provider: Provider, options: Mapping[str, Any]) -> Mapping[str, Any]:
        if not provider.takes_threads:
            return options
        own = {"allow_spinning": "0"} if self._options.entry(SPINNING) == "0" else {}
        if count := threads_of(self._options):
            own["intra_op_num_threads"] = str(count)
        return {**own, **options}

    # ---- what callers hear of them

    def options(self) -> dict[str, dict[str, str]]:
        """The options that have an effect, by provider.

        Where the CPU was asked for, `CPUExecutionProvider` stands before what it consists of here.
        """
        by_name: dict[str, dict[str, str]] = {}
        for provider, options in self.chosen:
            if self._asks_for_cpu and provider.name in registry.FASTEST:
                by_name.setdefault(registry.CPU, dict(options))
            by_name[provider.name] = dict(options)
        return by_name

    def titles(self) -> Mapping[str, str]:
        """What providers are called that were asked for by another name."""
        return dict.fromkeys(registry.FASTEST, registry.CPU) if self._asks_for_cpu else {}

    def is_fastest_of_cpu(self) -> bool:
        """Whether the first provider is one of those that `CPUExecutionProvider` consists of."""
        return self.first.name in registry.FASTEST


def threads_of(options: SessionOptions) -> int:
    """How many threads a session with these options has, 0 for as many as there are cores."""
    own = options.intra_op_num_threads
    return own if options.use_per_session_threads else threads.shared or own
