"""Strategies of hypothesis that draw calls of operators: `calls(domain, name)` for each of `DRAWERS`."""

from __future__ import annotations

import importlib
import pkgutil

from .call import Call, calls
from .draw import DRAWERS

for module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{module.name}")

__all__ = ["DRAWERS", "Call", "calls"]
