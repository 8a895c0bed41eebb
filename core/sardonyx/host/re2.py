"""Regular expressions in RE2's syntax, as far as Python's `re` can say them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise

from sardonyx.host.automaton import Automaton, UnknownError

_TOKEN = re.compile(r"\\[pP](?:\{\^?\w+\}|\w)|\\.|\[\^?\]?|.", re.DOTALL)


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    r"""A pattern whose `\w` and the like are those of ASCII, as in RE2, and whose `\p{L}` are categories of Unicode.

    re.error says what it is that Python does not know.

    >>> compiled(r"[\p{L}_]{2,}").findall("a été, 北京 x1")
    ['été', '北京']
    """
    return re.compile("".join(_translated(pattern)), re.ASCII)


@cache
def whole(pattern: str) -> Callable[[str], bool]:
    """What tells whether the whole of a text matches, in a time that grows with the text alone.

    re.error as from `compiled`, and where repetitions are too many.

    >>> whole("(a+)+")("a" * 4000), whole("(a+)+")("a" * 4000 + "b")
    (True, False)
    """
    regex = compiled(pattern)
    try:
        automaton = Automaton("".join(_translated(pattern)))
    except UnknownError:
        automaton = None
    if automaton is None or not automaton.is_cautious:
        return lambda text: regex.fullmatch(text) is not None
    return automaton.matches


def _translated(pattern: str) -> Iterator[str]:
    listed = False
    for token in _TOKEN.findall(pattern):
        if token[:2] in (r"\p", r"\P") and len(token) > 2:
            name = token[2:].strip("{}")
            members = _members(name.lstrip("^"), (token[1] == "P") != name.startswith("^"))
            yield members if listed else f"[{members}]"
            continue
        if token[0] == "[" and not listed:
            listed = True
        elif token == "]":
            listed = False
        yield token


@cache
def _members(category: str, others: bool) -> str:
    """The characters of a category of Unicode, or all others, as they stand between the brackets of a class."""
    import unicodedata

    inside = [unicodedata.category(chr(code)).startswith(category) != others for code in range(sys.maxunicode + 1)]
    if len(set(inside)) == 1:
        raise re.error(f"\\p{{{category}}} is unknown; use a general category of Unicode, such as L or Nd")
    edges = [code for code, (one, next_one) in enumerate(pairwise([False, *inside, False])) if one != next_one]
    return "".join(f"\\U{start:08x}-\\U{end - 1:08x}" for start, end in zip(edges[::2], edges[1::2], strict=True))
