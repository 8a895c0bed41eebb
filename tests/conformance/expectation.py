"""What is expected of every case: `expected.json`, which `python -m tests.conformance --write` generates.

A case maps to "passed", or to the reasons by provider why it does not pass there. A provider of models that declare no
sizes is called "..., unknown sizes", one in Pyodide, which has no Pillow here, "..., in Pyodide"; what is not said of
those is as without these words.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from sardonyx_wasm.device import blas
from tests.conformance.cases import STATUSES, Case, Outcome, cases

FILE = Path(__file__).with_name("expected.json")
PASSED = "passed"
ORDERED = {"test_squeezenet"}
"""Cases of 1,000 equal logits around 1e10: they pass where BLAS makes every sum in the same order, as with AVX-512."""
Expectation: TypeAlias = dict[str, str | dict[str, str]]


def load() -> Expectation:
    known: Expectation = json.loads(FILE.read_text())
    return known


def reason(known: Expectation, case: str, provider: str) -> str | None:
    """Why a case is expected to fail on a provider; None if it is expected to pass."""
    reasons = known[case]
    return None if isinstance(reasons, str) else reasons.get(provider, reasons.get(provider.partition(",")[0]))


def label(provider: str, unknown_sizes: bool) -> str:
    """What a provider is called here."""
    return f"{provider}, unknown sizes" if unknown_sizes else provider


def update(provider: str, outcomes: Mapping[Case, Outcome]) -> None:
    """Write down the outcomes of some cases on one provider; those of others stay."""
    known = load() if FILE.exists() else {}
    for case, outcome in outcomes.items():
        before = known.get(case.name, PASSED)
        reasons = {} if isinstance(before, str) else before
        reasons.pop(provider, None)
        if outcome.status != PASSED and provider.partition(",")[0] not in reasons:
            reasons[provider] = f"{outcome.status}: {outcome.detail}"
        known[case.name] = dict(sorted(reasons.items())) or PASSED
    every = [case.name for case in cases()]
    ordered = {name: known[name] for name in every if name in known}
    FILE.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")


def differences(provider: str, outcomes: Mapping[str, Outcome]) -> list[str]:
    """A line for every case whose outcome is not the expected one."""
    known = load()
    lines = []
    for name, outcome in outcomes.items():
        if name not in known:
            lines.append(f"{name} is new: regenerate")
            continue
        expected = reason(known, name, provider)
        if expected is None and outcome.status != PASSED and (name not in ORDERED or blas.in_blocks()):
            lines.append(f"{name} is {outcome.status}: {outcome.detail}")
        elif expected is not None and outcome.status == PASSED:
            lines.append(f"{name} passes now: regenerate")
    return lines


def summary(outcomes: Iterable[Outcome]) -> str:
    """Counts in a line."""
    items = list(outcomes)
    counts = Counter(outcome.status for outcome in items)
    words = ", ".join(f"{counts[status]} {status}" for status in STATUSES)
    native = sum(outcome.native for outcome in items)
    return f"{words} of {len(items)}; {native} wholly on the provider"
