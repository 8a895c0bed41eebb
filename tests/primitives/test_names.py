"""What is imported late is found where it is looked for, and no module hides a function of its name."""

from __future__ import annotations

import subprocess
import sys

from sardonyx import ops

SCRIPT = """
import importlib, pkgutil, sys
from sardonyx import primitives as p
assert "sardonyx.primitives.control" not in sys.modules
early = set(p.PRIMITIVES)
assert all(p.find(name).name == name for name in p._HOMES.keys() - set(p.__all__))
for module in pkgutil.iter_modules(p.__path__):
    importlib.import_module(f"{p.__name__}.{module.name}")
assert all(callable(getattr(p, name)) for name in p.__all__)
assert p.PRIMITIVES.keys() <= early | p._HOMES.keys()
"""


def test_primitives() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, timeout=500)


def test_families_that_are_looked_at_first() -> None:
    found = [module.rpartition(".")[2] for module, _ in ops._modules("")]
    assert found[: len(ops.FIRST)] == [*ops.FIRST]
