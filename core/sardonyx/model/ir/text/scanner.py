"""A place in a text that moves forward, and the words of the text form."""

from __future__ import annotations

import json
import re
from ast import literal_eval
from typing import NoReturn

from sardonyx.errors import InvalidGraph

IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
NAME = re.compile(r"[\w/][\w/.:@-]*(?<!:)")
"""Names of Values, nodes and graphs that need no quotes."""
NUMBER = re.compile(r"[-+]?(?:(?:inf(?:inity)?|nan)(?!\w)|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)", re.IGNORECASE)

_SPACE = re.compile(r"(?:\s|#[^\n]*)*")
_WORD = re.compile(r"\w+|\S")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BYTES = re.compile(r"b\"(?:[^\"\\]|\\.)*\"|b'(?:[^'\\]|\\.)*'")


def quote(text: str) -> str:
    """A string as the text form writes it."""
    return json.dumps(text, ensure_ascii=False)


def named(name: str) -> str:
    """A name, in quotes where it needs them.

    >>> named("/model/Add_1"), named("a b")
    ('/model/Add_1', '"a b"')
    """
    return name if NAME.fullmatch(name) else quote(name)


class Scanner:
    """Space and `# comments` between words are skipped."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.pos = 0
        self.skip()

    def skip(self) -> None:
        space = _SPACE.match(self.text, self.pos)
        self.pos = space.end() if space else self.pos

    def at(self, symbol: str) -> bool:
        return self.text.startswith(symbol, self.pos)

    def take(self, symbol: str) -> bool:
        """Whether the symbol stands here; if so, goes past it."""
        if not self.at(symbol):
            return False
        self.pos += len(symbol)
        self.skip()
        return True

    def expect(self, symbol: str) -> None:
        if not self.take(symbol):
            self.fail(f"expected '{symbol}'")

    def match(self, pattern: re.Pattern[str]) -> str | None:
        match = pattern.match(self.text, self.pos)
        if match is None:
            return None
        self.pos = match.end()
        self.skip()
        return match.group()

    def peek(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.pos)
        return match.group() if match else ""

    def string(self) -> str | None:
        start = self.pos
        token = self.match(_STRING)
        if token is None:
            return None
        try:
            return str(json.loads(token, strict=False))
        except ValueError:
            self.fail("this string has an unknown escape; those of JSON are known", start)

    def string_or_bytes(self) -> str | bytes | None:
        """A string, or `b"..."` for one that is not UTF-8."""
        start = self.pos
        token = self.match(_BYTES)
        if token is None:
            return self.string()
        try:
            data: bytes = literal_eval(token)
        except (ValueError, SyntaxError):
            self.fail("these bytes have an unknown escape; those of Python are known", start)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return data

    def word(self, pattern: re.Pattern[str], what: str) -> str:
        """What the pattern matches, or a quoted string."""
        token = self.match(pattern) or self.string()
        if token is None:
            self.fail(f"expected {what}")
        return token

    def integer(self, what: str) -> int:
        start = self.pos
        token = self.match(NUMBER) or self.fail(f"expected {what}")
        try:
            return int(token)
        except ValueError:
            self.fail(f"expected {what}, an integer", start)

    def fail(self, message: str, pos: int | None = None) -> NoReturn:
        """Raises InvalidGraph with line, column and the line itself."""
        at = self.pos if pos is None else pos
        if pos is None and message.startswith("expected"):
            word = _WORD.match(self.text, at)
            message += f", found '{word.group()[:20]}'" if word else ", found the end of the text"
        start = self.text.rfind("\n", 0, at) + 1
        line = self.text[start:].partition("\n")[0]
        first = max(at - start - 60, 0)
        raise InvalidGraph(
            f"line {self.text.count(chr(10), 0, at) + 1}, column {at - start + 1}: {message}\n"
            f"    {line[first : first + 100]}\n    {' ' * (at - start - first)}^"
        )
