"""Text operators of com.microsoft."""

from __future__ import annotations

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.ops.operator import Operator, sample
from sardonyx.ops.text import expect_pattern, expect_strings
from sardonyx.primitives.array import Array


class Tokenizer(Operator, since=1, domain="com.microsoft"):
    """The tokens of each string along a new last axis: what matches `tokenexp`, or what is between `separators`.

    Both are regular expressions; a separator that is empty makes every character a token. Where several alternatives
    of `tokenexp` match, the first is taken, not the longest.
    """

    mark: int
    mincharnum: int
    pad_value: str
    separators: tuple[str, ...] = ()
    tokenexp: str = ""

    def expand(self, x: Array) -> Array:
        expect_strings(x)
        if bool(self.separators) == bool(self.tokenexp):
            raise ValueError("either separators or tokenexp is needed")
        if "" in self.separators and self.mincharnum > 1:
            raise ValueError(f"mincharnum is {self.mincharnum}, but tokens are single characters; use 1")
        for pattern in (*self.separators, self.tokenexp):
            expect_pattern(pattern)
        return p.host(
            "text.tokenize",
            x,
            results=[(dtypes.string, (*x.shape, None))],
            separators=list(self.separators),
            token=self.tokenexp,
            least=self.mincharnum,
            mark=bool(self.mark),
            filler=self.pad_value,
        )[0]

    samples = [
        sample(np.array(texts, object), mark=mark, mincharnum=least, pad_value="#", **how)
        for texts, mark, least, how in (
            (["Hello World", "I love computer science !"], 0, 1, {"separators": [" "]}),
            ([["Hello World", "!"], ["a b  c", ""]], 1, 2, {"separators": [" ", "l+"]}),
            (["abc", "dé", ""], 1, 1, {"separators": [""]}),
            ([" ", ""], 1, 1, {"separators": [" "]}),
            (["Hello World 123", "a1"], 0, 1, {"tokenexp": r"\b\w\w+\b"}),
            (["Hello World 123", "a1"], 1, 2, {"tokenexp": "[a-z]+"}),
        )
    ]
