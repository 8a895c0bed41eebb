"""Graphs that say what comes next, as generation calls them: the first time, and again with what was chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.model.ir import Graph, Value
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.sizes.symbolic import Size

Run = Callable[[Graph, Sequence[Array]], list[Array]]
"""The outputs of a graph for its inputs."""


EXTRAS = (0, 1, 3)
"""How many inputs a decoder may take that tell where in its caches words are."""


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


class Caches:
    """Keys and values of the words so far, as a graph takes and gives them: one entry for each row, along `axis`.

    They grow from call to call, unless the graph takes `extras` behind all else: with one, caches have room for `most`
    words, and it is how many are in use; with three, rows stay where they are, and the others are the number of beams
    and for each word in a cache from which beam of its prompt it is.
    """

    def __init__(self, values: Sequence[Value], axis: int, extras: int, most: Size, width: int) -> None:
        self.values, self.axis, self.extras, self.most, self.width = values, axis, extras, most, width

    def empty(self, rows: Size) -> list[Array]:
        """The state before the first word."""
        return self.of([_empty(value, rows) for value in self.values], 0)

    def of(self, caches: Sequence[Array], used: Size) -> list[Array]:
        """The state for caches that hold all words so far, of which there are `used`."""
        if not self.extras:
            return list(caches)
        room = [p.pad(x, [0] * x.rank, [0] * (x.rank - 2) + [self.most - used, 0]) for x in caches]
        state = [*room, _counted(used)]
        return state if self.extras == 1 else [*state, self._own(caches[0].shape[self.axis])]

    def with_length(self, state: Sequence[Array], used: Size) -> list[Array]:
        """The state with the number of words in use as a size, so that shapes may depend on it."""
        count = len(self.values)
        return [*state[:count], _counted(used), *state[count + 1 :]] if self.extras else list(state)

    def inputs(self, state: Sequence[Array]) -> tuple[list[Array], list[Array]]:
        """The caches, and what the graph takes behind all else."""
        count = len(self.values)
        extras = list(state[count : count + 1])
        if self.extras > 1:
            source = state[-1]
            beams = p.reshape(source, (source.shape[0] // self.width, self.width, self.most))
            extras += [constant([self.width], dtypes.int32), beams]
        return list(state[:count]), extras

    def after(self, state: Sequence[Array], caches: Sequence[Array], words: Array, whole: bool = False) -> list[Array]:
        """The state after a call for words [N, S] that gave these caches; `whole` if the words are all so far."""
        if not self.extras:
            return list(caches)
        count = len(self.values)
        added = _counted(words.shape[1])
        return [*caches, added if whole else state[count] + added, *state[count + 1 :]]

    def taken(self, state: Sequence[Array], rows: Array) -> list[Array]:
        """The state when each row goes on from one of `rows` [N]."""
        count = len(self.values)
        if self.extras < 2:
            caches = [p.gather(cache, [rows], [self.axis], self.axis) for cache in state[:count]]
            return [*caches, *state[count:]]
        used, source = state[count], state[-1]
        place = p.iota((1, self.most), 1, dtypes.int32)
        source = p.where(place < used, p.gather(source, [rows], [0]), self._own(source.shape[0]))
        return [*state[:-1], source]

    def _own(self, rows: Size) -> Array:
        """Each word of a row is its own beam's."""
        return p.broadcast_to(p.iota((rows, 1), 0, dtypes.int32) % self.width, (rows, self.most))


class Gpt(Decoder):
    """A graph like GPT-2's, of words, positions [N, S], a mask [N, T] of words that count, and caches
    [2, N, heads, T - S, size]; for the first call there may be another one."""

    def __init__(
        self,
        run: Run,
        graph: Graph,
        start: Graph | None,
        words: Array,
        mask: Array | None,
        pad: int,
        most: Size,
        width: int = 1,
    ) -> None:
        layers = len(graph.outputs) - 1
        extras = len(graph.inputs) - 3 - layers
        if layers < 1 or extras not in EXTRAS:
            raise NotImplementedError(
                f"a decoder of {len(graph.inputs)} inputs and {len(graph.outputs)} outputs is not supported; it takes "
                "input_ids, position_ids, attention_mask and past states, and perhaps past_sequence_length, beam_width "
                "and cache_indirection, and gives logits and present states"
            )
        self.run, self.graph, self.start = run, graph, start or graph
        self.caches = Caches(graph.inputs[3 : 3 + layers], 1, extras, most, width)
        self.words = words
        self.counted = p.cast(p.not_equal(words, pad), dtypes.int32)
        self.mask = self.counted if mask is None else mask

    def first(self) -> tuple[Array, list[Array]]:
        positions = p.cumulative(self.counted, "sum", 1, exclusive=True) * self.counted
        state = self.caches.empty(self.words.shape[0])
        logits, state = self._call(self.start, [self.words, positions, self.mask], state)
        return logits, [p.sum_(self.counted, [1], keepdims=True), _longer(self.mask), *state]

    def next(self, words: Array, state: Sequence[Array]) -> tuple[Array, list[Array]]:
        sized = self.caches.with_length(state[2:], state[1].shape[1] - words.shape[1])
        logits, caches = self._call(self.graph, [words, *state[:2]], sized)
        return logits, [state[0] + 1, _longer(state[1]), *caches]

    def taken(self, state: Sequence[Array], rows: Array) -> list[Array]:
        return [*state[:2], *self.caches.taken(state[2:], rows)]

    def _call(self, graph: Graph, operands: list[Array], state: Sequence[Array]) -> tuple[Array, list[Array]]:
        caches, extras = self.caches.inputs(state)
        inputs = [*operands, *caches, *extras][: len(graph.inputs)]
        logits, *caches = self.run(graph, inputs)
        return logits, self.caches.after(state, caches, operands[0])


def _counted(words: Size) -> Array:
    """int32 [1]: how many words there are."""
    return p.reshape(p.literal(words, dtypes.int32), (1,))


def _longer(mask: Array) -> Array:
    """A mask for one more word, which counts."""
    return p.concat([mask, p.full((mask.shape[0], 1), 1, dtypes.int32)], 1)


class EncoderDecoder(Decoder):
    """A graph like T5's or Whisper's, of words, the encoder's results, and caches [N, heads, T, size].

    The caches are keys and values of words for each layer, then those of the encoder's results, which another graph
    makes of `encoder_inputs`, perhaps with a mask, which the decoder takes, too. If that graph also takes `words`, with
    which sequences begin, it gives the logits after them, its hidden states, and both kinds of caches. A decoder may
    take the encoder's first input as `encoder_input_ids`, and its hidden states as `encoder_hidden_states`. All that
    the decoder takes is repeated `width` times.
    """

    def __init__(
        self,
        run: Run,
        encoder: Graph,
        graph: Graph,
        encoder_inputs: Sequence[Array],
        masked: bool,
        words: Array,
        most: Size,
        width: int,
    ) -> None:
        self.run, self.encoder, self.graph, self.encoder_inputs, self.words = run, encoder, graph, encoder_inputs, words
        self.width = width
        layers = (len(graph.outputs) - 1) // 2
        whole = len(encoder.inputs) > len(encoder_inputs)
        names = [value.name for value in graph.inputs[1:4]]
        takes_ids, self.takes_hidden = "encoder_input_ids" in names[:1], "encoder_hidden_states" in names
        fixed = [encoder_inputs[0]] * takes_ids + [encoder_inputs[-1]] * masked
        before = 1 + len(fixed) + self.takes_hidden
        extras = len(graph.inputs) - before - 4 * layers
        if len(encoder.inputs) - len(encoder_inputs) not in (0, 1) or extras not in EXTRAS or self.takes_hidden > whole:
            raise NotImplementedError(
                f"an encoder of {len(encoder.inputs)} inputs with a decoder of {len(graph.inputs)} inputs and "
                f"{len(graph.outputs)} outputs is not supported"
            )
        if len(encoder.outputs) != (2 + 4 * layers if whole else 2 * layers):
            raise ValueError(f"the encoder has {len(encoder.outputs)} outputs, but the decoder has {layers} layers")
        self.own, self.starts = 2 * layers, whole
        self.caches = Caches(graph.inputs[before : before + self.own], 0, extras, most, width)
        self.fixed = [repeated(x, width) for x in fixed]
        self.crossed: list[Array] = []
        shape = graph.inputs[0].shape
        self.whole = shape is None or shape[1] != 1

    def first(self) -> tuple[Array, list[Array]]:
        if not self.starts:
            self.crossed = [repeated(x, self.width) for x in self.run(self.encoder, self.encoder_inputs)]
            words = repeated(self.words, self.width)
            return self.next(words, self.caches.empty(words.shape[0]))
        outputs = [repeated(x, self.width) for x in self.run(self.encoder, [*self.encoder_inputs, self.words])]
        logits, hidden, *caches = outputs
        self.fixed += [hidden] if self.takes_hidden else []
        self.crossed = caches[self.own :]
        return logits, self.caches.of(caches[: self.own], self.words.shape[1])

    def next(self, words: Array, state: Sequence[Array]) -> tuple[Array, list[Array]]:
        own, extras = self.caches.inputs(state)
        logits, *caches = self.run(self.graph, [words, *self.fixed, *own, *self.crossed, *extras])
        return logits, self.caches.after(state, caches, words, self.whole)

    def taken(self, state: Sequence[Array], rows: Array) -> list[Array]:
        return self.caches.taken(state, rows)


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
