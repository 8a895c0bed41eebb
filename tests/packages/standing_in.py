"""Sardonyx in onnxruntime's place. As a plugin of pytest, where other packages are called `tests`, it stands there for
the provider that STANDING_IN names."""

from __future__ import annotations

import os

import sardonyx.compat
from sardonyx.providers import registry


def stand_in(provider: str | None) -> None:
    """Have `import onnxruntime` find Sardonyx, and `CPUExecutionProvider`, since packages name no other, stand for a
    provider."""
    if provider:
        registry.FASTEST = (provider, registry.NUMPY)
    sardonyx.compat.install()


if "STANDING_IN" in os.environ:
    stand_in(os.environ["STANDING_IN"])
