"""What `import sardonyx` offers, and what it must not bring along."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import sardonyx

FOREIGN = """
import sys
before = set(sys.modules)
import sardonyx
modules = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(modules - sys.stdlib_module_names))
"""


def test_every_public_name_is_exported_and_documented() -> None:
    exported = set(getattr(sardonyx, "__all__", ()))
    visible = {name for name, thing in vars(sardonyx).items() if name[0] != "_" and not hidden(thing)}
    assert visible <= exported
    undocumented = {name for name in exported if callable(thing := getattr(sardonyx, name)) and not thing.__doc__}
    assert not undocumented


def hidden(thing: object) -> bool:
    """Whether `thing` is a submodule, or comes from `__future__` or `typing`."""
    origin = getattr(thing, "__module__", None) or type(thing).__module__
    return (
        isinstance(thing, (ModuleType, bool)) or "__future__" in (origin, type(thing).__module__) or origin == "typing"
    )


def test_import_brings_numpy_alone() -> None:
    command = [sys.executable, "-I", "-c", FOREIGN]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=500)
    assert set(done.stdout.split()) <= {"numpy", "sardonyx"}
