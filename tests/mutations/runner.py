"""Makes mutations in a copy of the tree, one at a time, and runs the tests that should see them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.cache import CACHE

ROOT = Path(__file__).parents[2]
PACKAGES = ("core", "webgpu_backend", "wasm", ".")
"""What a copy puts before the packages that are installed."""
LIMIT = 300.0
"""Seconds that the tests of one mutation may take: what hangs is noticed, too."""
_PASSED, _FAILED, _BROKEN = 0, 1, 2
"""How pytest exits, the last where a module of tests cannot be imported."""


@dataclass(frozen=True)
class Mutation:
    """In `file`, `old` becomes `new`; `tests` are what pytest is told, of which one must fail."""

    what: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def room(self) -> str:
        """The part of the project that is changed."""
        package, _, *inner = Path(self.file).parts[:-1]
        return "/".join((package, *inner[:1])) if package == "core" else package


@dataclass(frozen=True)
class Outcome:
    """What became of a mutation: `killed` as it should be, or else `lives`, `does not apply` or `fails anyway`."""

    mutation: Mutation
    status: str
    seconds: float = 0.0
    detail: str = ""

    @property
    def is_killed(self) -> bool:
        return self.status == "killed"


def complaint(mutation: Mutation, root: Path = ROOT) -> str:
    """Why a mutation cannot be made in a tree; empty if it can."""
    path = root / mutation.file
    if not path.is_file():
        return f"there is no {mutation.file}"
    if (count := path.read_text("utf-8").count(mutation.old)) != 1:
        return f"its old text occurs {count} times in {mutation.file}, not once"
    if mutation.old == mutation.new:
        return "it changes nothing"
    missing = [test for test in mutation.tests if not (root / test.partition("::")[0]).exists()]
    return f"there is no {missing[0]}" if missing else "" if mutation.tests else "no test is named"


def run_all(mutations: Sequence[Mutation], root: Path = ROOT, limit: float = LIMIT) -> Iterator[Outcome]:
    """The outcomes of mutations, as they come. Nothing is changed in the tree itself."""
    with copied(root) as tree:
        before: dict[tuple[str, ...], tuple[int | None, str]] = {}
        """What tests do in the tree as it is."""
        for mutation in mutations:
            started = time.perf_counter()
            status, detail = _judge(mutation, tree, limit, before)
            yield Outcome(mutation, status, time.perf_counter() - started, detail)


def _judge(
    mutation: Mutation, tree: Path, limit: float, before: dict[tuple[str, ...], tuple[int | None, str]]
) -> tuple[str, str]:
    if detail := complaint(mutation, tree):
        return "does not apply", detail
    if mutation.tests not in before:
        before[mutation.tests] = _pytest(tree, mutation.tests, limit)
    code, said = before[mutation.tests]
    if code != _PASSED:
        return "fails anyway", said
    with mutated(tree, mutation):
        code, said = _pytest(tree, mutation.tests, limit)
    if code == _PASSED:
        return "lives", ""
    return ("killed", "") if code in (None, _FAILED, _BROKEN) else ("fails anyway", said)


@contextmanager
def copied(root: Path) -> Iterator[Path]:
    """A copy of the files of a tree that git knows or would add, or of all where it has no git."""
    with tempfile.TemporaryDirectory(prefix="sardonyx-mutations-") as folder:
        tree = Path(folder, "tree")
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=3600)
        names = listed.stdout.split("\0") if listed.returncode == 0 else map(str, root.rglob("*"))
        for name in names:
            path = root / name
            if path.is_file():
                target = tree / path.relative_to(root)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target)
        yield tree


@contextmanager
def mutated(tree: Path, mutation: Mutation) -> Iterator[None]:
    """The tree with a mutation made. The file gets another time, since Python tells compiled modules by seconds."""
    path = tree / mutation.file
    before, times = path.read_bytes(), path.stat()
    path.write_text(before.decode().replace(mutation.old, mutation.new), "utf-8")
    os.utime(path, (times.st_atime, times.st_mtime + 10))
    try:
        yield
    finally:
        path.write_bytes(before)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def _pytest(tree: Path, tests: Sequence[str], limit: float) -> tuple[int | None, str]:
    """How pytest exits for these tests, None if it does not within the limit, and the end of what it says."""
    places = os.pathsep.join(str(tree / package) for package in PACKAGES)
    own = {"PYTHONPATH": places, "XDG_CACHE_HOME": str(tree.parent / "cache"), "SARDONYX_TEST_CACHE": str(CACHE)}
    options = ["-q", "-x", "--tb=line", "-p", "no:cacheprovider", "-m", "not nightly"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    with subprocess.Popen(
        command,
        cwd=tree,
        env=os.environ | own,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as running:
        try:
            said, _ = running.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            return None, f"nothing came within {limit:.0f} s"
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(running.pid, signal.SIGKILL)  # what the tests started
    skipped = " skipped" in said and " passed" not in said
    return (running.returncode, said) if not skipped else (5, "all of its tests were skipped\n" + said)
