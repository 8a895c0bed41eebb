"""Text as its tokens come: characters are given when all of their bytes are there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

BROKEN = "\ufffd"
"""What decoders put where bytes are no character, or not yet one."""


class TokenizerStream:
    """Decodes one token after another; the texts together are what all tokens together mean.

    Tokens are decoded with those before them, as far back as the last text that was complete, since some tokenizers
    drop the space of a first word.

    >>> letters = {0: b"a", 1: b"\\xc3", 2: b"\\xa9"}
    >>> stream = TokenizerStream(lambda tokens: b"".join(letters[t] for t in tokens).decode(errors="replace"))
    >>> [stream.decode(token) for token in (0, 1, 2, 0)]
    ['a', '', 'é', 'a']
    """

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._tokens: list[int] = []
        self._shown = 0
        """How many of the tokens have been given as text."""

    def decode(self, token: int) -> str:
        """The text that this token completes, which is often none."""
        self._tokens.append(int(token))
        known, text = self._decode(self._tokens[: self._shown]), self._decode(self._tokens)
        if text.endswith(BROKEN) and len(self._tokens) - self._shown < LONGEST:
            return ""
        del self._tokens[: self._shown]
        self._shown = len(self._tokens)
        return text[len(known) :]


LONGEST = 5
"""Tokens that are waited for: a character has four bytes at most, so that more are no character at all."""
