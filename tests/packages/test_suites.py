"""Packages' own tests pass with Sardonyx where they pass with onnxruntime."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.packages.suites import lost, outcomes, read
from tests.support import absent

REPORT = """<testsuites><testsuite>
<testcase classname="tests.a" name="good" />
<testcase classname="tests.a" name="bad"><failure>no</failure></testcase>
<testcase classname="tests.a" name="broken"><error>no</error></testcase>
<testcase classname="tests.a" name="left"><skipped>why</skipped></testcase>
</testsuite></testsuites>"""


def test_reports(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    found = read(report)
    assert found == {"tests.a::good": "passed", "tests.a::bad": "failed", "tests.a::broken": "error"} | {
        "tests.a::left": "skipped"
    }
    wanted = dict.fromkeys([*found, "tests.a::gone"], "passed")
    assert lost(found, wanted) == ["tests.a::bad", "tests.a::broken", "tests.a::gone", "tests.a::left"]


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["spox"])
def test_suite(name: str) -> None:
    arguments = ["-k", "not turing_completeness"]  # an interpreter that is a Loop which carries sequences: minutes
    try:
        wanted = outcomes(name, "onnxruntime", arguments)
    except subprocess.CalledProcessError as error:
        absent(f"{name} cannot be installed: {error.stderr.strip().splitlines()[-1]}")
    assert sum(outcome == "passed" for outcome in wanted.values()) > 500
    assert lost(outcomes(name, "CPU", arguments), wanted) == []
