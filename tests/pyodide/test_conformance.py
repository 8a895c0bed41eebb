"""ONNX's backend cases in Pyodide: what `expected.json` says of WebAssembly natively must be so there."""

from __future__ import annotations

import base64
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from sardonyx import errors
from tests.conformance import expectation
from tests.conformance.cases import Case, Outcome, cases, compare, failed
from tests.engine.providers import WASM
from tests.pyodide import arrays
from tests.pyodide.storage import stored, typed
from tests.support import lines_from_pyodide, require
from tests.support.browser import run_in_browser

Recorder: TypeAlias = Callable[[str, object], None]
SAMPLE = 20
"""One of so many cases runs every time, all of them nightly."""
PARTS = 4
"""One interpreter runs that part of all cases, since it keeps the code that it loaded."""

SCRIPT = f"""
import base64, json
from arrays import packed, unpacked
from sardonyx import InferenceSession

def is_native(plan):
    inner = [sub for plans in plan.functions for sub in plans]
    return all(device <= 0 for device in plan.placement) and all(map(is_native, inner))

for line in open("cases.jsonl"):
    name, model, data_sets = json.loads(line)
    print(name, flush=True)
    try:
        session = InferenceSession(base64.b64decode(model), providers=[{WASM!r}])
        names = [value.name for value in session.get_inputs()]
        outputs = [session.run(None, dict(zip(names, unpacked(feeds)))) for feeds in data_sets]
        answer = {{"outputs": packed(outputs), "native": all(map(is_native, session.plans[:1]))}}
    except Exception as error:
        answer = {{"error": [type(error).__name__, str(error)]}}
    print(json.dumps(answer), flush=True)
"""


def in_node(files: Mapping[str, bytes]) -> Iterator[str]:
    """The lines that the script prints; a case may take as long as the start."""
    return lines_from_pyodide(SCRIPT, files, limit=300)


def in_browser(files: Mapping[str, bytes]) -> Iterator[str]:
    try:
        return iter(run_in_browser(SCRIPT, files, timeout=600).splitlines())
    except (TimeoutError, RuntimeError) as error:  # its end says which case ran
        pytest.fail(f"Chromium failed: {str(error)[-2000:]}", pytrace=False)


HOSTS = {"pyodide": in_node, "browser": in_browser}


def run_all(chosen: Sequence[Case], host: str) -> Iterator[tuple[Case, Outcome]]:
    """Run cases in an interpreter; in Node, those behind one that ends it or takes too long run in another."""
    given = deque((case, case.data_sets()) for case in chosen)
    jobs = [job(case, data_sets) for case, data_sets in given]
    while given:
        waiting = "\n".join(jobs[-len(given) :]).encode()
        lines = HOSTS[host]({"arrays.py": Path(arrays.__file__).read_bytes(), "cases.jsonl": waiting})
        for name in lines:
            case, data_sets = given.popleft()
            assert name == case.name
            try:  # where the interpreter ends, other lines tell what it did
                answer = next(line for line in lines if line.startswith("{"))
                outcome = judged(case, data_sets, json.loads(answer))
            except (TimeoutError, RuntimeError) as error:
                outcome = failed(error)
            yield case, outcome


def job(case: Case, data_sets: Sequence[Any]) -> str:
    model = base64.b64encode(case.model.SerializeToString()).decode()
    return json.dumps([case.name, model, [arrays.packed(stored([*inputs])) for inputs, _ in data_sets]])


def judged(case: Case, data_sets: Sequence[Any], answer: dict[str, Any]) -> Outcome:
    try:
        if "error" in answer:
            kind, text = answer["error"]
            raise getattr(errors, kind, RuntimeError)(text if hasattr(errors, kind) else f"{kind}: {text}")
        for (_, wanted), found in zip(data_sets, arrays.unpacked(answer["outputs"]), strict=True):
            compare(case, wanted, typed(found, [*wanted]))
    except Exception as error:
        return failed(error)
    return Outcome("passed", native=answer["native"])


@pytest.mark.slow
def test_sample(record_property: Recorder) -> None:
    check(cases()[::SAMPLE], "pyodide", record_property)


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("host", HOSTS)
def test_all(host: str, part: int, record_property: Recorder) -> None:
    check(cases()[part::PARTS], host, record_property)


def check(chosen: Sequence[Case], host: str, record_property: Recorder) -> None:
    """Run cases, and fail with a line for each whose outcome is not the expected one."""
    require("pyodide")
    require(host)
    outcomes = {case.name: outcome for case, outcome in run_all(chosen, host)}
    record_property("summary", f"ONNX's cases on {WASM} in {host}: {expectation.summary(outcomes.values())}")
    assert len(outcomes) == len(chosen)
    if differences := expectation.differences(f"{WASM}, in Pyodide", outcomes):
        pytest.fail("\n".join(differences), pytrace=False)
