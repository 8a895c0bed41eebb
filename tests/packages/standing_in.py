"""Sardonyx in onnxruntime's place. As a plugin of pytest, where other packages are called `tests`, it stands there for
the provider that STANDING_IN names."""

from __future__ import annotations

import os

import sardonyx.compat
from sardonyx import providers

PROVIDER = os.environ.get("STANDING_IN")


def stand_in(provider: str | None) -> None:
    """Have `import onnxruntime` find Sardonyx, and `CPUExecutionProvider`, since packages name no other, stand for a
    provider."""
    if provider:
        providers.FASTEST = (provider, providers.NUMPY)
    sardonyx.compat.install()


if PROVIDER is not None:
    stand_in(PROVIDER)
