"""What is given of the open sizes of a model's inputs: numbers, typical numbers, and relations."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from sardonyx.common.record import field, record, replace
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Model, TensorType, Value, size_name
from sardonyx.passes.copy import copy_model
from sardonyx.sizes.functions import substitute
from sardonyx.sizes.parse import parsed
from sardonyx.sizes.polynomial import Poly, constant

Typical: TypeAlias = Sequence[int | str] | np.ndarray
"""What a bundle is for: sizes of an input, where `?16` leaves one open that is typically 16, and `?` one of which
nothing is known; or a typical value, for an input whose elements decide on shapes, or on branches."""

ENCODED = re.compile(r"past_key_values\.\d+\.encoder\.(key|value)")
"""Inputs by the names of transformers' exports: what a decoder with two branches keeps of what its encoder gave."""


@record
class OpenInputs:
    """The inputs of a model for which a set of plans is made.

    `model` has inputs of the sizes that are given, `typical` are numbers by the names of sizes (`size_name`),
    `relations` tell sizes by those of others, `values` are typical inputs, `ranks` those of inputs that declare none.
    """

    model: Model
    typical: dict[str, int] = field(default_factory=dict)
    relations: dict[str, Poly] = field(default_factory=dict)
    values: dict[str, np.ndarray] = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)


def open_inputs(model: Model, typical: Mapping[str, Typical], sizes: Mapping[str, int | str]) -> OpenInputs:
    """A model's inputs, of which these are `typical`; `sizes` are numbers, `?16` or `P + S` by name.

    A name of a dimension is known from the first input that has it. Raises InvalidArgument for what makes no sense.
    """
    names = [value.name for value in model.graph.inputs]
    if unknown := {*typical} - {*names}:
        there = ", ".join(map(repr, names))
        raise InvalidArgument(f"there is no input {min(unknown)!r}; the model has {there}")
    result = OpenInputs(_untied(copy_model(model)))
    shapes = {}
    for name, given in typical.items():
        shapes[name] = tuple(given.shape if isinstance(given, np.ndarray) else given)
        result.ranks[name] = len(shapes[name])
        if isinstance(given, np.ndarray):
            result.values[name] = given
    fixed: dict[str, set[int]] = {}
    for name, size in _given(result.model, shapes):
        if isinstance(size, int):
            fixed.setdefault(name, set()).add(size)
        elif number := size.removeprefix("?"):
            result.typical[name] = int(number)
    known = {name: found.pop() for name, found in fixed.items() if len(found) == 1}
    _take(result, sizes, known)
    for value in result.model.graph.inputs:
        kind, wanted = value.type, shapes.get(value.name)
        if isinstance(kind, TensorType):
            value.type = replace(kind, shape=_fixed(value, kind, wanted, known))
    _refuse_ranks(result.model)
    return result


def _refuse_ranks(model: Model) -> None:
    """Raise InvalidArgument where inputs have no shape, so that nothing says how many axes there are."""
    kinds = {value.name: value.type for value in model.graph.inputs}
    names = [name for name, kind in kinds.items() if isinstance(kind, TensorType) and kind.shape is None]
    if names:
        which = f"input {names[0]!r} has" if len(names) == 1 else f"inputs {', '.join(map(repr, names))} have"
        way = f"--shape {names[0]}=?1x?16, a ? for each axis that stays open"
        raise InvalidArgument(f"{which} no shape in the model: say one, as in {way} (shapes in a page)")


def _untied(model: Model) -> Model:
    """The model, changed: the lengths of what is kept of an encoder's results are `past_` ones.

    Exports call them as they call that of the results, and yet nothing is kept, 0, in the run that is given results.
    """
    inputs = model.graph.inputs
    kept = [value for value in inputs if ENCODED.fullmatch(value.name)]
    results = [value.shape for value in inputs if value not in kept and value.shape is not None]
    lengths = {shape[1] for shape in results if len(shape) == 3}
    for value in kept:
        if isinstance(value.type, TensorType) and value.type.shape:
            shape = (f"past_{size}" if isinstance(size, str) and size in lengths else size for size in value.type.shape)
            value.type = replace(value.type, shape=tuple(shape))
    return model


def _given(model: Model, shapes: Mapping[str, Sequence[int | str]]) -> Iterator[tuple[str, int | str]]:
    """The names of sizes for which a shape is given, with what is given."""
    for value in model.graph.inputs:
        if value.name not in shapes:
            continue
        declared = value.shape if value.shape is not None else (None,) * len(shapes[value.name])
        for axis, (size, given) in enumerate(zip(declared, shapes[value.name])):
            if not isinstance(size, int):
                yield size_name(value.name, axis, size), given


def _take(result: OpenInputs, sizes: Mapping[str, int | str], known: dict[str, int]) -> None:
    """Note what `sizes` tell: numbers become `known`."""
    names = {
        size_name(value.name, axis, size): None
        for value in result.model.graph.inputs
        for axis, size in enumerate(value.shape or ())
        if not isinstance(size, int)
    }
    told: dict[str, Poly] = {}
    for name, size in sizes.items():
        _check(name, names)
        text = str(size).strip()
        if text.removeprefix("?").isdecimal() or text == "?":
            if not text.startswith("?"):
                known[name] = int(text)
            elif text != "?":
                result.typical[name] = int(text[1:])
            continue
        try:
            told[name] = parsed(text)
        except ValueError as error:
            raise InvalidArgument(f"size {name}={text}: {error}, or ?16 for what is typically 16") from None
        for part in told[name].symbols():
            _check(part, names)
    for _ in told:  # each may speak of others
        numbers = {name: constant(number) for name, number in known.items()}
        told = {name: substitute(polynomial, {**told, **numbers}) for name, polynomial in told.items()}
    for name, polynomial in told.items():
        if name in polynomial.symbols():
            raise InvalidArgument(f"size {name}={sizes[name]} tells {name} by itself")
        if polynomial.constant is None:
            result.relations[name] = polynomial
        elif known.setdefault(name, polynomial.constant) != polynomial.constant:
            raise InvalidArgument(f"size {name}={sizes[name]} makes {polynomial.constant}, not {known[name]}")


def _check(name: str, names: Collection[str]) -> None:
    if name not in names:
        there = ", ".join(names)
        raise InvalidArgument(f"there is no open size {name!r}; the model has {there or 'none'}")


def _fixed(
    value: Value, kind: TensorType, wanted: Sequence[int | str] | None, known: Mapping[str, int]
) -> tuple[int | str | None, ...] | None:
    """The shape of an input, of which these sizes are `wanted`; else its dimensions may be `known` by their names."""
    declared = kind.shape
    if declared is None:
        declared = None if wanted is None else (None,) * len(wanted)
    if declared is None:
        return None
    wanted = ["?"] * len(declared) if wanted is None else wanted
    pairs = list(zip(declared, wanted))
    if len(declared) != len(wanted) or any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs):
        text = "x".join(map(str, wanted))
        raise InvalidArgument(f"input {value.name!r} is {kind}, and cannot be {text}")
    return tuple(
        b if isinstance(b, int) else a if isinstance(a, int) else known.get(size_name(value.name, axis, a), a)
        for axis, (a, b) in enumerate(pairs)
    )
