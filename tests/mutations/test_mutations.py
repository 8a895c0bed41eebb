"""Every mutation can be made, and is noticed; and the runner tells what is from what is not."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutations import __main__ as command
from tests.mutations.changes import MUTATIONS
from tests.mutations.runner import ROOT, Mutation, Outcome, complaint, run_all

SHARDS = 8
BOUND = 1800.0
"""Seconds for a shard, on a machine that does other things, too."""
ROOMS = """
core/api core/cli core/code core/common core/compiler core/genai core/host core/model core/numpy_backend core/ops
core/passes core/plans core/primitives core/quantization core/runtime core/sizes core/training core/vision wasm web
webgpu_backend
"""


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.what)
def test_a_mutation_can_be_made(mutation: Mutation) -> None:
    assert complaint(mutation) == ""
    text = (ROOT / mutation.file).read_text("utf-8").replace(mutation.old, mutation.new)
    if mutation.file.endswith(".py"):
        ast.parse(text)


def test_there_are_some_for_every_room() -> None:
    assert len(MUTATIONS) >= 50
    assert len({mutation.what for mutation in MUTATIONS}) == len(MUTATIONS)
    assert set(ROOMS.split()) == {mutation.room for mutation in MUTATIONS}


@pytest.mark.nightly
@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_mutation_is_noticed(shard: int) -> None:
    chosen = MUTATIONS[shard::SHARDS]
    for outcome in run_all(chosen, limit=BOUND / len(chosen)):
        assert outcome.is_killed, f"{outcome.status}: {outcome.mutation}\n{outcome.detail}"


CODE = """
def least(a, b):
    return a if a < b else b

def count(n):
    return 0 if n <= 0 else 1 + count(n - 1)
"""
TESTS = """
import pytest
from code_of import count, least

def test_least():
    assert least(1, 2) == 1

def test_count():
    assert count(3) == 3

def test_wrong():
    assert least(2, 1) == 2

@pytest.mark.skip(reason="for its own sake")
def test_skipped():
    assert least(2, 1) == 1
"""


def mutation(old: str, new: str, test: str) -> Mutation:
    return Mutation(f"{old} {new}", "code_of.py", old, new, (f"test_of.py::{test}",))


@pytest.mark.slow
def test_the_runner(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A change that is seen, one that is not, one that hangs, and what cannot be judged."""
    (tmp_path / "code_of.py").write_text(CODE)
    (tmp_path / "test_of.py").write_text(TESTS)
    made = [
        (mutation("a < b", "a > b", "test_least"), "killed"),
        (mutation("a < b", "a <= b", "test_least"), "lives"),
        (mutation("n <= 0 else", "__import__('time').sleep(99) else", "test_count"), "killed"),
        (mutation("a < b", "a > b", "test_wrong"), "fails anyway"),
        (mutation("a < b", "a > b", "test_skipped"), "fails anyway"),
        (mutation("a < b", "a > b", "test_nothing"), "fails anyway"),
        (mutation("n", "m", "test_count"), "does not apply"),
        (mutation("a < c", "a > b", "test_count"), "does not apply"),
    ]
    outcomes = list(run_all([each for each, _ in made], tmp_path, limit=10))
    assert [outcome.status for outcome in outcomes] == [status for _, status in made]
    assert (tmp_path / "code_of.py").read_text() == CODE
    for place, outcome in enumerate(outcomes, 1):
        command.print_line(outcome, place, len(outcomes))
    command.print_summary(outcomes)
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= command.WIDTH
    assert "8 mutations in" in said
    assert "2 killed, 1 lives, 3 fails anyway, 2 does not apply" in said
    assert "its old text occurs 0 times in code_of.py, not once" in said


def test_a_line_fits(capsys: pytest.CaptureFixture[str]) -> None:
    for mutation in MUTATIONS:
        command.print_line(Outcome(mutation, "does not apply", 1234.5), 99, 100)
    command.print_list(MUTATIONS)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= command.WIDTH
    assert len(lines) > 2 * len(MUTATIONS)
