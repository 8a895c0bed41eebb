"""Automata of regular expressions, beside Python's `re`, and what `re` would take for ever to see."""

from __future__ import annotations

import random
import re

import pytest

from sardonyx.host.automaton import Automaton, UnknownError
from sardonyx.host.re2 import whole

ATOMS = ("a", "b", ".", "[ab]", "[^a]", r"\w", r"\s", r"\d", "é", r"\x61", "{", "}", "]", r"\.", r"\+")
MARKS = ("*", "+", "?", "*?", "+?", "??", "{2}", "{1,}", "{,2}", "{0,3}", "{2,3}?")
PLACES = ("^", "$", r"\b", r"\B", r"\A", r"\Z")
LETTERS = "aabb .\n_é1A{}+"


def pattern(rng: random.Random, depth: int = 3) -> str:
    """A random expression."""
    kind = rng.random()
    if depth == 0 or kind < 0.3:
        return rng.choice(ATOMS)
    if kind < 0.36:
        return rng.choice(PLACES)
    if kind < 0.6:
        return "".join(pattern(rng, depth - 1) for _ in range(rng.randint(1, 3)))
    opening = rng.choice(("(", "(?:", "(?P<name>", "(?i:", "(?s:", "(?m:", "(?ims:"))
    inside = "|".join(pattern(rng, depth - 1) for _ in range(rng.randint(1, 2)))
    return f"{opening}{inside}){rng.choice(MARKS) if kind < 0.9 else ''}"


def test_answers_are_those_of_re() -> None:
    rng = random.Random(0)
    seen = {True: 0, False: 0}
    while sum(seen.values()) < 30000:
        text = pattern(rng)
        try:
            regex = re.compile(text, re.ASCII)
        except re.error:  # a name twice
            continue
        automaton = Automaton(text)
        for _ in range(12):
            word = "".join(rng.choices(LETTERS, k=rng.randint(0, 6)))
            if ("$" in text and word.endswith("\n")) or (r"\B" in text and not word):  # `re` is not RE2 there
                continue
            expected = regex.fullmatch(word) is not None
            assert automaton.matches(word) == expected, (text, word)
            seen[expected] += 1
    assert min(seen.values()) > 3000


@pytest.mark.parametrize(
    "text",
    [
        "(a+)+",
        "(a|a)*b",
        "(a*)*b",
        "(a{0,30}){0,30}",
        r"(\w+\s?)*\.",
        "(a?){40}a{40}",
        "a*a*a*a*a*b",
        "a?" * 40 + "a" * 40,
    ],
)
def test_no_way_is_tried_twice(text: str) -> None:
    assert not whole(text)("a" * 3000 + "!")
    assert Automaton(text).is_cautious


@pytest.mark.parametrize("text", ["abc", "a*", "(a|b)c", "(ab){3}", r"[\w.]+@x\.com"])
def test_what_re_does_as_fast_is_left_to_it(text: str) -> None:
    assert not Automaton(text).is_cautious


@pytest.mark.parametrize("text", [r"(a+)+\1", "(?=a)(a+)+", "(?!b)a", "(?P<n>a)(?P=n)", "(?-i:a)", r"\N{DIGIT ONE}"])
def test_what_only_re_knows_has_no_automaton(text: str) -> None:
    re.compile(text)
    with pytest.raises(UnknownError):
        Automaton(text)
    whole(text)("a")


def test_steps_that_are_forgotten_are_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sardonyx.host.automaton.MOST_STEPS", 2)
    automaton = Automaton("(a|b)*c(d*e)*")
    assert automaton.matches("abbac" + "dde" * 9)
    assert not automaton.matches("abbac" + "dde" * 9 + "d")


def test_too_many_repetitions_are_refused() -> None:
    with pytest.raises(re.error, match="repetitions are too many"):
        whole("((a{100}){100}){100}")
