"""Samples of operators in an interpreter elsewhere: what a provider gives there, and what the reference gives here."""

from __future__ import annotations

import base64
import json
import textwrap
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.pyodide import arrays
from tests.pyodide.storage import stored, typed

operators = import_module("tests.operators.test_samples")  # which has no strict types
CASES = [*operators.CASES, *operators.TYPED]

Run = Callable[[str, dict[str, bytes]], str]
"""Runs a program beside files, and returns what it printed; raises RuntimeError where it failed."""

SCRIPT = """
import base64, json
import numpy as np
from arrays import packed, unpacked
from sardonyx import InferenceSession

for name, model, feeds in json.load(open("samples.json")):
    print(name)
    try:
        session = InferenceSession(base64.b64decode(model), providers=[{provider!r}])
        assert session.get_providers()[0] == {provider!r}, session.get_providers()
        found = session.run(None, {{name: unpacked(feed) for name, feed in feeds.items()}})
        answer = [packed(np.asarray(array)) for array in found]
    except Exception as error:
        answer = f"{{type(error).__name__}}: {{error}}"
    print(json.dumps(answer))
"""


def check(run: Run, provider: str, cases: list[Any]) -> None:
    """Run the samples in one interpreter, and fail with a line for each that is wrong."""
    samples = []
    for case in cases:
        model, feeds = operators.model_of(*case.values)
        text = base64.b64encode(model.SerializeToString()).decode()
        samples.append([case.id, text, {name: arrays.packed(stored(feed)) for name, feed in feeds.items()}])
    files = {"samples.json": json.dumps(samples).encode(), "arrays.py": Path(arrays.__file__).read_bytes()}
    try:
        lines = run(SCRIPT.format(provider=provider), files).splitlines()
    except RuntimeError as error:  # its beginning is what all the samples before gave
        pytest.fail(f"the interpreter failed: {textwrap.shorten(str(error)[-2000:], 2000)}", pytrace=False)
    assert lines[::2] == [case.id for case in cases]
    complaints = []
    for case, line in zip(cases, lines[1::2], strict=True):
        operator, sample = case.values
        answer = json.loads(line)
        try:
            if isinstance(answer, str):
                raise AssertionError(answer)
            wanted = operators.expected(operator, sample)
            found = [typed(arrays.unpacked(one), like) for one, like in zip(answer, wanted)]
            operators.assert_near(found, wanted, sample.tolerance)
        except AssertionError as error:
            complaints.append(f"{case.id}: {textwrap.shorten(str(error), 300)}")
    if complaints:
        pytest.fail("\n".join(complaints), pytrace=False)
