"""What the inputs and outputs of a decoder are for, as their names and shapes tell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx.api.options import NodeArg
from sardonyx.common.record import field, record
from sardonyx.errors import InvalidValue

IDS, MASK, POSITIONS, LOGITS = "input_ids", "attention_mask", "position_ids", "logits"
ENCODED, ENCODED_MASK = "encoder_hidden_states", "encoder_attention_mask"
OTHERS = {
    IDS: ("decoder_input_ids", "tokens", "token_ids"),
    MASK: ("decoder_attention_mask",),
    POSITIONS: ("decoder_position_ids", "positions"),
    ENCODED: ("encoder_outputs", "encoder_output", "hidden_states"),
    ENCODED_MASK: (),
    LOGITS: ("lm_logits", "prediction_scores"),
}
"""Other names of the same."""
LENGTHS = ("past_sequence_length", "past_seq_len", "total_sequence_length", "total_seq_len", "current_sequence_length")
KEPT = ("num_logits_to_keep", "logits_to_keep", "onnx::Neg_67")
"""Inputs that say how many of the last rows of logits are wanted; some exports of Phi-3 lost the name."""
CACHE_BRANCH, CACHE_POSITION, TYPES = "use_cache_branch", "cache_position", "token_type_ids"
ROWS = "logits_position"
"""The input by which a session is told of which positions the logits are wanted (`SessionOptions.choose_rows`)."""
KNOWN = (*LENGTHS, *KEPT, CACHE_BRANCH, CACHE_POSITION, TYPES, ROWS)
"""Inputs that follow from how many tokens there are."""
_PAST = re.compile(r"past|cache|state", re.IGNORECASE)
_CROSS = re.compile(r"encoder|cross", re.IGNORECASE)
_DTYPES = {"float": "float32", "double": "float64"}


@record(frozen=True)
class Past:
    """A tensor that a run leaves for the next one: what it comes in as, and goes out as."""

    input: str
    output: str
    dtype: np.dtype[Any]
    shape: tuple[int | None, ...]
    cross: bool = False
    """Whether it is of the encoder, and the same in all runs."""

    @property
    def rows(self) -> int:
        """The axis of the batch."""
        return 1 if len(self.shape) == 5 else 0

    @property
    def time(self) -> int:
        """The axis of tokens."""
        if len(self.shape) == 5:
            return 3
        return 1 if self.shape[1] is None and self.shape[2] is not None else 2

    def empty(self, rows: int) -> np.ndarray:
        """What is fed before there is any token."""
        sizes = [size or 0 for size in self.shape]
        sizes[self.rows], sizes[self.time] = rows, 0
        return np.zeros(sizes, self.dtype)


@record(frozen=True)
class Ports:
    """The inputs and outputs of a decoder by what they are for; what it does not have is None."""

    ids: str
    logits: str
    mask: str | None = None
    positions: str | None = None
    encoded: str | None = None
    encoded_mask: str | None = None
    past: tuple[Past, ...] = ()
    dtypes: Mapping[str, np.dtype[Any]] = field(default_factory=dict)
    ranks: Mapping[str, int] = field(default_factory=dict)
    known: tuple[str, ...] = ()
    """Those of `KNOWN` that there are."""
    unknown: tuple[str, ...] = ()
    """Inputs that a caller must give."""
    vocabulary: int = 0
    """How many tokens there are, 0 where the model does not say."""
    last_only: bool = False
    """Whether the logits are those of the last position alone, as far as the model says."""


def told(inputs: Sequence[NodeArg], outputs: Sequence[NodeArg], decoder: Mapping[str, Any]) -> Ports:
    """What inputs and outputs are for; `decoder` is that part of a genai configuration, whose names come first.

    Raises InvalidValue, with the names that there are, where something cannot be told.
    """
    given, made = {each.name: each for each in inputs}, {each.name: each for each in outputs}
    wanted = {**decoder.get("inputs", {}), **decoder.get("outputs", {})}
    for name, there in ((IDS, given), (LOGITS, made)):
        if wanted.get(name, next(iter(there), None)) not in there:
            raise InvalidValue(
                f"the configuration calls {name} {wanted[name]!r}, which the model lacks: {_listed(there)}"
            )
    ids = _named(IDS, given, wanted)
    if ids is None:
        raise InvalidValue(
            f"none of the model's inputs takes tokens: {_listed(given)}; {IDS} is its usual name, and another one is "
            'said in genai_config.json as {"model": {"decoder": {"inputs": {"input_ids": NAME}}}}'
        )
    logits = _named(LOGITS, made, wanted)
    if logits is None:
        raise InvalidValue(f"none of the model's outputs is called {LOGITS}: {_listed(made)}")
    single = {name: _named(name, given, wanted) for name in (MASK, POSITIONS, ENCODED, ENCODED_MASK)}
    past = tuple(_past(given, made, decoder))
    taken = {ids, *single.values(), *(each.input for each in past)}
    rest = [name for name in given if name not in taken]
    shape = made[logits].shape or []
    return Ports(
        ids,
        logits,
        single[MASK],
        single[POSITIONS],
        single[ENCODED],
        single[ENCODED_MASK],
        past,
        {name: _dtype(each) for name, each in given.items()},
        {name: len(each.shape or ()) for name, each in given.items()},
        tuple(name for name in rest if name in KNOWN),
        tuple(name for name in rest if name not in KNOWN),
        shape[-1] if shape and isinstance(shape[-1], int) else 0,
        ROWS not in given and (len(shape) == 2 or (len(shape) == 3 and shape[1] == 1)),
    )


def made_by(outputs: Iterable[str], past: Past) -> str:
    """The output of another decoder of the same model that a run then takes; InvalidValue where there is none."""
    names = list(outputs)
    for name in (past.output, *_outputs(past.input)):
        if name and name in names:
            return name
    raise InvalidValue(f"no output of the decoder for the first run is what input {past.input!r} takes: {names[:8]}")


def logits_of(names: Mapping[str, Any]) -> str:
    """The output that has the logits; `names` as in `told`."""
    return str(names.get("outputs", {}).get(LOGITS, LOGITS))


def _named(name: str, ports: Mapping[str, NodeArg], wanted: Mapping[str, Any]) -> str | None:
    """What the model calls it."""
    for each in (wanted.get(name), name, *OTHERS[name]):
        if each in ports:
            return str(each)
    return None


def _past(given: Mapping[str, NodeArg], made: Mapping[str, NodeArg], decoder: Mapping[str, Any]) -> Iterator[Past]:
    """The tensors that go from run to run, in the order of the inputs."""
    for name, port in given.items():
        number = re.search(r"\d+", name)
        said = _said(name, number[0], decoder) if number else None
        if number is None or name in KNOWN or (said is None and not _PAST.search(name)):
            continue
        names = [*([said] if said else []), *_outputs(name)]
        output = next((each for each in names if each in made), "")
        cross = bool(_CROSS.search(name))
        if not output and not cross:
            raise InvalidValue(f"no output is what input {name!r} takes in the next run: {_listed(made)}")
        yield Past(name, output, _dtype(port), _sizes(port, decoder), cross)


def _said(name: str, number: str, decoder: Mapping[str, Any]) -> str | None:
    """What a configuration calls the output that becomes this input, "" where it does not say; None for others."""
    inputs, outputs = decoder.get("inputs", {}), decoder.get("outputs", {})
    for kind in ("key_names", "value_names", "names"):
        for where in ("", "cross_"):
            if inputs.get(f"{where}past_{kind}", "").replace("%d", number) == name:
                return str(outputs.get(f"{where}present_{kind}", "")).replace("%d", number)
    return None


def _sizes(port: NodeArg, decoder: Mapping[str, Any]) -> tuple[int | None, ...]:
    """The shape of keys or values, None for the sizes that vary."""
    sizes = [size if isinstance(size, int) else None for size in port.shape or ()]
    if len(sizes) not in (4, 5):
        raise InvalidValue(f"input {port.name!r} has {len(sizes)} axes; keys and values have 4, and both together 5")
    for axis, names in ((-3, ("num_key_value_heads", "num_attention_heads")), (-1, ("head_size",))):
        if sizes[axis] is None and not (axis == -3 and sizes[-2] is not None):
            told = next((int(decoder[name]) for name in names if decoder.get(name)), None)
            if told is None:
                raise InvalidValue(
                    f"neither the shape {port.shape} of input {port.name!r} nor the configuration tells {names[0]}"
                )
            sizes[axis] = told
    return tuple(sizes)


def _outputs(name: str) -> list[str]:
    """What the output may be called that becomes this input.

    >>> _outputs("past_key_values.0.key")[:2], _outputs("past_0")[0]
    (['present.0.key', 'present_key_values.0.key'], 'present_0')
    """
    swapped = [name.replace(word, "present") for word in ("past_key_values", "past") if word in name]
    return [*swapped, f"{name}_out", f"out_{name}", f"new_{name}"]


def _dtype(port: NodeArg) -> np.dtype[Any]:
    """The type of a port's elements."""
    kind = port.type.removeprefix("tensor(").removesuffix(")")
    try:
        return np.dtype(_DTYPES.get(kind, kind))
    except TypeError:
        raise InvalidValue(f"input {port.name!r} is a {port.type}, which NumPy lacks") from None


def _listed(ports: Mapping[str, NodeArg]) -> str:
    names = list(ports)
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
