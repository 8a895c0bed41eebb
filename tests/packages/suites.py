"""The tests of packages that import onnxruntime, run with it and with Sardonyx in its place.

    python -m tests.packages.suites spox                      all sides
    python -m tests.packages.suites skl2onnx CPU -k Scaler    one side, and whatever else pytest takes

It prints how many tests pass on each side, and what Sardonyx fails of those that onnxruntime passes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.packages.__main__ import SIDES
from tests.packages.installed import Package, environment, source

REFERENCE = "onnxruntime"


@dataclass(frozen=True)
class Suite:
    """A release whose source distribution has tests, and what else they import."""

    version: str
    package: Package
    tests: str = "tests"


SUITES = {
    "ndonnx": Suite("0.23.0", Package((), ("ndonnx==0.23.0", "spox==0.18.2", "pytest", "hypothesis"))),
    "skl2onnx": Suite("1.20.0", Package((), ("skl2onnx==1.20.0", "pandas", "pytest", "pytest-subtests"))),
    "spox": Suite("0.18.2", Package((), ("spox==0.18.2", "pytest", "hypothesis"))),
}


def outcomes(name: str, side: str, arguments: Sequence[str] = ()) -> dict[str, str]:
    """What became of each test on a side: passed, failed, error or skipped.

    Raises:
        subprocess.CalledProcessError: pip failed; `stderr` says why.
    """
    suite = SUITES[name]
    plugins = Path(__file__).parent
    paths = [str(environment(f"{name}-tests", suite.package)), str(plugins), os.environ.get("PYTHONPATH", "")]
    plugin = [] if side == REFERENCE else ["-p", "standing_in"]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", *plugin, suite.tests, f"--junitxml={report}", *arguments]
        command += ["-q", "-W", "ignore", "-p", "no:cacheprovider"]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "STANDING_IN": SIDES[side] or ""}
        done = subprocess.run(
            command,
            cwd=source(name, suite.version),
            env=environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=3600,
        )
        if not report.exists():
            raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
        return read(report)


def read(report: Path) -> dict[str, str]:
    """What became of each test, by what pytest reports."""
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        outcome = next((kind for kind in ("failure", "error", "skipped") if kind in kinds), "passed")
        found[f"{case.get('classname')}::{case.get('name')}"] = outcome.replace("failure", "failed")
    return found


def lost(found: Mapping[str, str], wanted: Mapping[str, str]) -> list[str]:
    """The tests that pass with onnxruntime, and not here."""
    return sorted(name for name, outcome in wanted.items() if outcome == "passed" and found.get(name) != "passed")


def main() -> None:
    name, *rest = sys.argv[1:] or [""]
    if name not in SUITES:
        sys.exit(f"{__doc__}\nSuites: {', '.join(SUITES)}")
    sides = [rest.pop(0)] if rest and rest[0] in SIDES else [side for side in SIDES if side != REFERENCE]
    wanted = outcomes(name, REFERENCE, rest)
    print(REFERENCE, dict(Counter(wanted.values())), flush=True)
    for side in sides:
        found = outcomes(name, side, rest)
        missing = lost(found, wanted)
        print(f"{side} {dict(Counter(found.values()))}: {len(missing)} of {len(wanted)} that only {REFERENCE} passes")
        print(*(f"    {each}" for each in missing), sep="\n", flush=True)


if __name__ == "__main__":
    main()
