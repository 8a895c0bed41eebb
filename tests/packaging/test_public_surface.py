"""What `import sardonyx` offers, and what it must not bring along."""

from __future__ import annotations

import subprocess
import sys

import sardonyx

FOREIGN = """
import sys
before = set(sys.modules)
import sardonyx
modules = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(modules - sys.stdlib_module_names))
"""


def test_every_exported_name_exists_and_is_documented() -> None:
    for name in sardonyx.__all__:
        thing = getattr(sardonyx, name)
        assert not callable(thing) or thing.__doc__, f"sardonyx.{name} has no docstring"


def test_import_brings_numpy_alone() -> None:
    command = [sys.executable, "-I", "-c", FOREIGN]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["numpy", "sardonyx"]
