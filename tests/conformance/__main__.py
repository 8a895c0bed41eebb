"""`python -m tests.conformance`: run ONNX's backend cases on an execution provider, and say what became of them.

A case is one of those that `onnx.backend.test.loader` lists: nodes, simple graphs, models converted from PyTorch, and
real ones. It counts once, and passes if all outputs of all of its data sets have the wanted types and shapes, and
values within the case's own tolerance, as ONNX's runner compares them.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import asdict
from fnmatch import fnmatch
from pathlib import Path

import onnx

from sardonyx.providers.registry import NUMPY, OURS
from tests.conformance import expectation
from tests.conformance.cases import STATUSES, Case, Outcome, cases
from tests.conformance.pool import run_all
from tests.support.needs import quieten_vulkan


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--provider", choices=OURS, help="default: NumPy; with --write: all of them")
    parser.add_argument("--filter", metavar="GLOB", default="*", help="only cases of these names or operators")
    parser.add_argument("--every", metavar="N", type=int, default=1, help="only every N-th of those")
    parser.add_argument("--unknown-sizes", action="store_true", help="let the models declare no sizes of inputs")
    parser.add_argument("--json", metavar="FILE", type=Path, help="where to write the outcomes")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--write", action="store_true", help=f"put what passes into {expectation.FILE.name}")
    arguments = parser.parse_args()
    quieten_vulkan()
    chosen = [
        case for case in cases() if fnmatch(case.name, arguments.filter) or fnmatch(case.operator, arguments.filter)
    ]
    chosen = chosen[:: arguments.every]
    providers = [arguments.provider or NUMPY]
    for provider in OURS if arguments.write and not arguments.provider else providers:
        outcomes = dict(run_all(chosen, provider, arguments.jobs, arguments.unknown_sizes))
        report(provider, outcomes)
        if arguments.json:
            found = {case.name: asdict(outcome) for case, outcome in outcomes.items()}
            arguments.json.write_text(json.dumps(found, indent=1))
        if arguments.write:
            expectation.update(expectation.label(provider, arguments.unknown_sizes), outcomes)


def report(provider: str, outcomes: Mapping[Case, Outcome]) -> None:
    """Print counts, the reasons by frequency, and the cases that fail by operator."""
    failed = {case: outcome for case, outcome in outcomes.items() if outcome.status != "passed"}
    print(f"{provider}, onnx {onnx.__version__}: {expectation.summary(outcomes.values())}")
    print("\nReasons")
    for (status, text), count in Counter(map(_reason, failed.values())).most_common(40):
        print(f"{count:6} {status:12} {text}")
    operators: dict[str, list[tuple[Case, Outcome]]] = defaultdict(list)
    for case, outcome in failed.items():
        operators[case.operator].append((case, outcome))
    totals = Counter(case.operator for case in outcomes)
    print("\nOperators")
    for operator, items in sorted(operators.items()):
        counts = Counter(outcome.status for _, outcome in items)
        words = ", ".join(f"{counts[status]} {status}" for status in STATUSES if counts[status])
        print(f"  {operator}: {words} of {totals[operator]}")
        for case, outcome in sorted(items, key=lambda item: item[0].name):
            print(f"    {case.name}: {outcome.detail}")


def _reason(outcome: Outcome) -> tuple[str, str]:
    """What failures have in common: names in quotes and numbers do not count."""
    return outcome.status, re.sub(r"'[^']*'|\d+(\.\d+)?(e[+-]?\d+)?%?", "..", outcome.detail)[:110]


if __name__ == "__main__":
    main()
