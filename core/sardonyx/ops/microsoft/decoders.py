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


class EncoderDecoder(Decoder):
    """A graph like T5's or Whisper's, of words, what is known of what is encoded, and caches [N, heads, T, size]: keys
    and values of words for each layer, then those of what is encoded.

    Another graph makes the latter of `given`, a mask perhaps among it, which the decoder takes, too. If it also takes
    `words`, with which sequences begin, it gives what comes after them, what is encoded, and both kinds of caches.
    All that it makes is repeated `width` times.
    """

    def __init__(
        self, run: Run, encoder: Graph, graph: Graph, given: Sequence[Array], masked: bool, words: Array, width: int
    ) -> None:
        self.run, self.encoder, self.graph, self.given, self.words = run, encoder, graph, given, words
        self.width = width
        layers = (len(graph.outputs) - 1) // 2
        extra = len(graph.inputs) - 1 - int(masked) - 4 * layers
        whole = len(encoder.inputs) > len(given)
        if len(encoder.inputs) - len(given) not in (0, 1) or extra not in ((0, 1) if whole else (0,)):
            raise NotImplementedError(
                f"an encoder of {len(encoder.inputs)} inputs with a decoder of {len(graph.inputs)} inputs and "
                f"{len(graph.outputs)} outputs is not supported"
            )
        if len(encoder.outputs) != (2 + 4 * layers if whole else 2 * layers):
            raise ValueError(f"the encoder has {len(encoder.outputs)} outputs, but the decoder has {layers} layers")
        self.own, self.takes_hidden, self.starts = 2 * layers, extra == 1, whole
        self.fixed = [repeated(given[-1], width)] if masked else []
        self.crossed: list[Array] = []
        shape = graph.inputs[0].shape
        self.whole = shape is None or shape[1] != 1

    def first(self) -> tuple[Array, list[Array]]:
        if not self.starts:
            self.crossed = [repeated(x, self.width) for x in self.run(self.encoder, self.given)]
            words = repeated(self.words, self.width)
            own = self.graph.inputs[len(self.graph.inputs) - 2 * self.own :][: self.own]
            return self.next(words, [_empty(value, words.shape[0]) for value in own])
        made = [repeated(x, self.width) for x in self.run(self.encoder, [*self.given, self.words])]
        logits, hidden, *caches = made
        self.fixed += [hidden] if self.takes_hidden else []
        self.crossed = caches[self.own :]
        return logits, caches[: self.own]

    def next(self, words: Array, state: Sequence[Array]) -> tuple[Array, list[Array]]:
        logits, *caches = self.run(self.graph, [words, *self.fixed, *state, *self.crossed])
        return logits, caches

    def taken(self, state: Sequence[Array], rows: Array) -> list[Array]:
        return [p.gather(cache, [rows], [0]) for cache in state]


def repeated(x: Array, width: int) -> Array:
    """[B, ...] with each entry M times, [B * M, ...]."""
    spread = p.broadcast_to(p.unsqueeze(x, [1]), (x.shape[0], width, *x.shape[1:]))
    return p.reshape(spread, (x.shape[0] * width, *x.shape[1:]))


def _empty(value: Value, count: Size) -> Array:
    """A cache without words, for the input of a graph [2, N, heads, T, size] or [N, heads, T, size]."""
    shape = (value.shape or ())[-4:]
    if len(shape) != 4 or value.dtype is None or not isinstance(shape[1], int) or not isinstance(shape[3], int):
        raise ValueError(
            f"the decoder's input {value.name!r} must declare its type, its heads and their size, not {value.type}"
        )
    parts: list[Size] = [2] * (len(value.shape or ()) - 4)
    return p.full((*parts, count, shape[1], 0, shape[3]), 0.0, value.dtype)
