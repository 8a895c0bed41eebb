"""Which providers a session runs on, by what it is asked for and by its options."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from sardonyx.api.options import SessionOptions
from sardonyx.errors import InvalidArgument, InvalidValue
from sardonyx.providers import registry
from sardonyx.providers.contract import Provider

ALONE = "session.disable_cpu_ep_fallback"


def means_cpu(options: SessionOptions, names: Any) -> bool:
    """Whether a session that is asked for these runs on `CPUExecutionProvider`, as `of_session` has it."""
    asked = registry.asked(names or options.providers())
    if registry.CPU in asked:
        return True
    for name in asked:
        with suppress(InvalidValue):
            if registry.is_here(name):
                return False
    return True


def of_session(
    options: SessionOptions, names: Any, provider_options: Any, strict: bool = False
) -> list[tuple[Provider, dict[str, str]]]:
    """The providers of a session that is asked for these; those of its options where it is not. `strict` as in
    `resolve`.

    With the entry `session.disable_cpu_ep_fallback` those that were not asked for are left out, and to ask for the CPU
    raises InvalidArgument.
    """
    names = names or options.providers()
    chosen = registry.resolve(names, provider_options, options.log_severity_level, strict)
    if options.entry(ALONE) == "1":
        asked = registry.asked(names)
        if registry.CPU in asked:
            raise InvalidArgument(f"the session config entry {ALONE!r} is set, and {registry.CPU} is asked for")
        chosen = [item for item in chosen if item[0].name in asked] or chosen
    return chosen
