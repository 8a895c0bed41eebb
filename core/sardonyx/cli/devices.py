"""Execution providers as the command line names them, and in what state they are."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from sardonyx.common.record import field, record
from sardonyx.errors import EPFail
from sardonyx.providers import registry
from sardonyx.providers.registry import TITLES, full_name

IN_ORDER = "execution provider, in full or short as in webgpu, wasm, numpy or cpu; several are tried in their order"


def add_provider(parser: argparse.ArgumentParser, text: str = IN_ORDER) -> None:
    """The option `--provider`, which may be given several times."""
    parser.add_argument("--provider", action="append", metavar="NAME", help=text)


@record(frozen=True)
class State:
    """A provider on this machine: `problem` says why it is not usable, `details` what it runs on."""

    name: str
    problem: str = ""
    details: dict[str, str] = field(default_factory=dict)
    software: bool = False

    @property
    def title(self) -> str:
        """The device's own name, where the provider tells one."""
        return self.details.get("adapter", "")


def short_name(name: str) -> str:
    """A provider's name as prose has it."""
    return TITLES.get(name, name.removesuffix(registry.SUFFIX))


def chosen(texts: Sequence[str] | None) -> list[str] | None:
    """The full names that `--provider` asks for, None without any; EPFail with the reason where one is not usable."""
    names = [full_name(text) for text in texts or ()]
    for name in names:
        if name != registry.CPU:
            registry.load(name)
            if problem := state(name).problem:
                raise EPFail(f"{name} is not usable here: {problem}")
    return names or None


def state(name: str) -> State:
    """What an installed provider says of itself, its device opened."""
    try:
        provider = registry.load(name)
        device = provider.device({})
        details, software = provider.describe(), provider.is_software(device)
    except Exception as error:  # a provider is foreign code, and its trouble is what is asked for
        return State(name, " ".join(str(error).split()).removeprefix(f"{name}: ") or type(error).__name__)
    return State(name, "" if provider.available() else "it says that it is not available", details, software)


def states() -> list[State]:
    """All installed providers, the one to be preferred first."""
    return [state(name) for name in registry.installed()]
