"""Graphs that say what comes next, as generation calls them: the first time, and again with what was chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sardonyx import dtypes
from sardonyx import primitives as p
from sardonyx.array import Array
from sardonyx.ir import Graph, Value
from sardonyx.symbolic import Size

Run = Callable[[Graph, Sequence[Array]], list[Array]]
"""The outputs of a graph for its inputs."""


class Decoder:
    """Gives logits [N, S, V] of the word after each, and its state: what the next call needs, but for words."""

    whole = False
    """Whether a call takes all words again, not the last ones alone."""

    def first(self) -> tuple[Array, list[Array]]:
        """What comes after the prompt."""
        raise NotImplementedError

    def next(self, words: Array, state: Sequence[Array]) -> tuple[Array, list[Array]]:
        """What comes after further words [N, S]."""
        raise NotImplementedError

    def taken(self, state: Sequence[Array], rows: Array) -> list[Array]:
        """The state when each row goes on from one of `rows` [N]."""
        raise NotImplementedError


class Gpt(Decoder):
    """A graph like GPT-2's, of words, positions [N, S], a mask [N, T] of words that count, and caches
    [2, N, heads, T - S, size]; for the first call there may be another one."""

    def __init__(self, run: Run, graph: Graph, start: Graph | None, words: Array, mask: Array | None, pad: int) -> None:
        if len(graph.inputs) != len(graph.outputs) + 2 or len(graph.inputs) < 4:
            raise NotImplementedError(
                f"a decoder of {len(graph.inputs)} inputs and {len(graph.outputs)} outputs is not supported; it takes "
                "input_ids, position_ids, attention_mask and past states, and gives logits and present states"
            )
        self.run, self.graph, self.start = run, graph, start or graph
        self.words = words
        self.counted = p.cast(p.not_equal(words, pad), dtypes.int32)
        self.mask = self.counted if mask is None else mask

    def first(self) -> tuple[Array, list[Array]]:
        count = self.words.shape[0]
        positions = p.cumulative(self.counted, "sum", 1, exclusive=True) * self.counted
        caches = [_empty(value, count) for value in self.graph.inputs[3:]]
        logits, *caches = self.run(self.start, [self.words, positions, self.mask, *caches])
        return logits, [p.sum_(self.counted, [1], keepdims=True), _longer(self.mask), *caches]

    def next(self, words: Array, state: Sequence[Array]) -> tuple[Array, list[Array]]:
        logits, *caches = self.run(self.graph, [words, *state])
        return logits, [state[0] + 1, _longer(state[1]), *caches]

    def taken(self, state: Sequence[Array], rows: Array) -> list[Array]:
        return [*state[:2], *(p.gather(cache, [rows], [1], 1) for cache in state[2:])]


def _longer(mask: Array) -> Array:
    """A mask for one more word, which counts."""
    return p.concat([mask, p.full((mask.shape[0], 1), 1, dtypes.int32)], 1)


def _empty(value: Value, count: Size) -> Array:
    """A cache without words, for the input of a graph [2, N, heads, T, size]."""
    shape = value.shape or ()
    if len(shape) != 5 or value.dtype is None or not isinstance(shape[2], int) or not isinstance(shape[4], int):
        raise ValueError(
            f"the decoder's input {value.name!r} must declare its type, its heads and their size, not {value.type}"
        )
    return p.full((2, count, shape[2], 0, shape[4]), 0.0, value.dtype)
