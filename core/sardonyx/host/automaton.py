r"""Whether the whole of a text matches a regular expression, in a time that grows with the text alone, as RE2 promises.

Python's `re` tries one way after another, of which expressions such as `(a+)+` have exponentially many. Here all are
followed at once, as a set of states (K. Thompson, "Regular Expression Search Algorithm", 1968); where a character leads
from a set is found once. What `re` knows beyond RE2, such as references to groups, has no automaton.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from sardonyx.common.record import record

MOST_STATES = 1 << 14
"""Of an expression whose repetitions are written out."""
MOST_STEPS = 1 << 14
"""Steps that are remembered."""
DEPTH = 100
"""How deeply groups may nest."""

_TOKEN = re.compile(
    r"""\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|0[0-7]{0,2}|.)
    |\[\^?\]?(?:\\.|[^\]\\])*\]
    |\(\?P<\w+>|\(\?[ims]*:|\(\?[ims]+\)|\(\?|\(
    |(?:[*+?]|\{(?:\d+(?:,\d*)?|,\d*)\})[?+]?
    |.""",
    re.DOTALL | re.VERBOSE,
)
_COUNT = re.compile(r"\{(\d*)(,?)(\d*)\}")
_KEPT = re.compile(r"\\[1-9]|\(\?$|(?:[*+?]|\{.*)\+$")  # references, what looks ahead, and what gives nothing back
_ASSERTIONS = frozenset({"^", "$", r"\b", r"\B", r"\A", r"\Z"})

Node: TypeAlias = tuple[Any, ...]
"""`("of", pattern)`, `("at", assertion)`, `("all", nodes)`, `("any", nodes)` or `("times", node, least, most)`."""
Before: TypeAlias = str | None
"""The character before a place, or None at the start."""


class UnknownError(Exception):
    """An expression is of a kind for which there is no automaton."""


@record(frozen=True)
class Arc:
    """A way from a state to another one: over a character, if a pattern takes it, else where an assertion holds."""

    target: int
    takes: re.Pattern[str] | None = None
    holds: Callable[[Before, str | None], bool] | None = None


class Automaton:
    """The automaton of an expression in `re`'s syntax, whose classes are those of ASCII.

    Raises UnknownError for what it cannot say, re.error where repetitions make too many states.

    >>> cautious = Automaton("(a+)+b")
    >>> cautious.matches("a" * 4000 + "b"), cautious.matches("a" * 4000)
    (True, False)
    """

    def __init__(self, pattern: str) -> None:
        self._arcs: list[list[Arc]] = [[]]
        node = _Parser(pattern).parsed()
        self._end = self._add(node, 0)
        self._is_placed = any(arc.holds for arcs in self._arcs for arc in arcs)
        self._steps: dict[Any, frozenset[int]] = {}
        self.is_cautious = _choices(node) > 1
        """Whether there are so many choices that trying one way after another may take forever."""

    def matches(self, text: str) -> bool:
        """Whether the whole text matches."""
        states, before = frozenset({0}), None
        for character in text:
            key = states, before if self._is_placed else "", character
            found = self._steps.get(key)
            if found is None:
                if len(self._steps) >= MOST_STEPS:
                    self._steps.clear()
                found = self._steps[key] = self._step(states, before, character)
            if not found:
                return False
            states, before = found, character
        return self._end in self._closure(states, before, None)

    def _step(self, states: frozenset[int], before: Before, character: str) -> frozenset[int]:
        reached = self._closure(states, before, character)
        arcs = (arc for state in reached for arc in self._arcs[state])
        return frozenset(arc.target for arc in arcs if arc.takes is not None and arc.takes.match(character))

    def _closure(self, states: frozenset[int], before: Before, after: str | None) -> set[int]:
        """The states that are reached from these without a character."""
        found, waiting = set(states), [*states]
        while waiting:
            for arc in self._arcs[waiting.pop()]:
                is_free = arc.takes is None and (arc.holds is None or arc.holds(before, after))
                if is_free and arc.target not in found:
                    found.add(arc.target)
                    waiting.append(arc.target)
        return found

    def _add(self, node: Node, start: int) -> int:
        """Add what a node takes after a state; the state that follows."""
        kind, *rest = node
        if kind == "of":
            return self._state(start, takes=rest[0])
        if kind == "at":
            return self._state(start, holds=rest[0])
        if kind == "all":
            for each in rest[0]:
                start = self._add(each, start)
            return start
        if kind == "any":
            ends = [self._add(each, self._state(start)) for each in rest[0]]
            return self._joined(ends)
        part, least, most = rest
        for _ in range(least):
            start = self._add(part, start)
        if most is None:
            again = self._state(start)
            self._arcs[self._add(part, again)].append(Arc(again))
            return self._state(again)
        ends = [start]
        for _ in range(most - least):
            start = self._add(part, self._state(start))
            ends.append(start)
        return self._joined(ends)

    def _state(self, start: int, **conditions: Any) -> int:
        """A new state that is reached from another one."""
        if len(self._arcs) >= MOST_STATES:
            raise re.error("its repetitions are too many")
        self._arcs.append([])
        self._arcs[start].append(Arc(len(self._arcs) - 1, **conditions))
        return len(self._arcs) - 1

    def _joined(self, ends: list[int]) -> int:
        """A new state that is reached from all of these."""
        found = self._state(ends[0])
        for end in ends[1:]:
            self._arcs[end].append(Arc(found))
        return found


def _choices(node: Node) -> int:
    """How many places of an expression leave a choice: how often, or which; some of what is repeated count twice."""
    kind, *rest = node
    if kind in ("of", "at"):
        return 0
    if kind == "times":
        part, least, most = rest
        inside = _choices(part)
        return inside + (inside if most is None or most > 1 else 0) + int(least != most)
    return sum(map(_choices, rest[0])) + int(kind == "any")


class _Parser:
    """The tree of an expression that `re` takes."""

    def __init__(self, pattern: str) -> None:
        self._tokens: Iterator[str] = iter(_TOKEN.findall(pattern))
        self._token = next(self._tokens, "")

    def parsed(self) -> Node:
        return self._alternatives("", 0)

    def _next(self) -> str:
        token, self._token = self._token, next(self._tokens, "")
        return token

    def _alternatives(self, flags: str, depth: int) -> Node:
        if depth > DEPTH:
            raise UnknownError
        found = []
        while True:
            nodes: list[Node] = []
            while self._token not in ("", "|", ")"):
                token = self._next()
                if _KEPT.match(token):
                    raise UnknownError
                if token.startswith("(?") and token.endswith(")"):  # of all that follows
                    flags += token[2:-1]
                elif token[0] == "(":
                    more = token[2:-1] if token.endswith(":") else ""
                    inside = self._alternatives(flags + more, depth + 1)
                    self._next()
                    nodes.append(self._times(inside))
                else:
                    nodes.append(self._times(_single(token, flags)))
            found.append(("all", nodes))
            if self._token != "|":
                return found[0] if len(found) == 1 else ("any", found)
            self._next()

    def _times(self, node: Node) -> Node:
        """The node, repeated if a number follows."""
        token = self._token
        if token[:1] not in ("*", "+", "?", "{") or token == "{":
            return node
        if _KEPT.match(self._next()):
            raise UnknownError
        if token[0] != "{":
            least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[token[0]]
            return ("times", node, least, most)
        count = _COUNT.match(token)
        assert count is not None
        first, comma, last = count.groups()
        return ("times", node, int(first or 0), (int(last) if last else None) if comma else int(first))


def _single(token: str, flags: str) -> Node:
    """What takes a character, or asks for the place."""
    if token not in _ASSERTIONS:
        try:
            return ("of", re.compile(f"(?{flags}:{token})" if flags else token, re.ASCII))
        except re.error:  # a part of something else
            raise UnknownError from None
    lines = "m" in flags
    if token == r"\A" or (token == "^" and not lines):
        return ("at", lambda before, _: before is None)
    if token == r"\Z" or (token == "$" and not lines):
        return ("at", lambda _, after: after is None)
    if token == "^":
        return ("at", lambda before, _: before in (None, "\n"))
    if token == "$":
        return ("at", lambda _, after: after in (None, "\n"))
    return ("at", lambda before, after: (_is_word(before) != _is_word(after)) == (token == r"\b"))


def _is_word(character: str | None) -> bool:
    return character is not None and character.isascii() and (character.isalnum() or character == "_")
