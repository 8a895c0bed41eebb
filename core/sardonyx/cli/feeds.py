"""Inputs of a model from the command line: files, shapes, and random values for what is not given."""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx.cli.files import ARCHIVES, Reader, archive, fit
from sardonyx.cli.normalization import Normalization
from sardonyx.common import dtypes, memory
from sardonyx.common.dtypes import DType
from sardonyx.common.record import record
from sardonyx.errors import Fail, InvalidArgument, NotImplemented, SardonyxError
from sardonyx.model.ir import Graph, Model, Node, OptionalType, TensorType, Value, size_name
from sardonyx.model.ir.types import DimLike
from sardonyx.model.structure import type_name

WORDS = ["red", "green", "blue", "north", "south", "east", "west", "one", "two", "three"]
LARGEST = 9
"""Of random integers about which nothing is known."""
LOOKUPS = {
    "Gather": {1: 0},
    "GatherBlockQuantized": {1: 0},
    "EmbedLayerNormalization": {0: 2, 1: 4},
}
"""Which input of an operator holds indices into which other one."""
THROUGH = frozenset({"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Clip"})
"""Operators that leave an index what it is."""


@record(frozen=True)
class Feeds:
    """Values by input name. `sources` are the file of each, or `random`; `assumed` are dimensions taken as 1.

    `notes` are what a person should know, `rate` the samples a second of the sound among them, 0 if there is none.
    """

    values: dict[str, Any]
    sources: dict[str, str]
    assumed: list[str]
    notes: list[str]
    rate: int

    @property
    def present(self) -> dict[str, Any]:
        """What a call is given: an optional without element is left out."""
        return {name: value for name, value in self.values.items() if value is not None}

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Within it, what goes wrong is told with the dimensions that were taken as 1."""
        try:
            yield
        except NotImplemented:  # at any size
            raise
        except SardonyxError as error:
            if not self.assumed:
                raise
            sizes = ", ".join(f"{name} = 1" for name in self.assumed)
            raise Fail(f"{error}; this took {sizes}, --shape says otherwise") from error


def add_input(parser: argparse.ArgumentParser) -> None:
    """The options `--input` and `--seed`."""
    parser.add_argument("--input", action="append", metavar="NAME=FILE", help=".npy, .npz, .json, .wav or a picture")
    add_seed(parser)


def add_seed(parser: argparse.ArgumentParser) -> None:
    """The option `--seed`."""
    parser.add_argument("--seed", type=_seed, default=0, metavar="N", help="of the random values, 0 if not given")


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is no seed; take 0 or more")
    return int(text)


def add_shape(parser: argparse.ArgumentParser) -> None:
    """The option `--shape`."""
    text = "shape of an input, or size of a named dimension as in batch=4; what is open is 1"
    parser.add_argument("--shape", action="append", metavar="NAME=1x3x224x224", help=text)


def inputs_of(model: Model) -> list[Value]:
    """What a call has to give: the graph's inputs that no initializer stands for."""
    initialized = set(model.graph.initializers)
    return [value for value in model.graph.inputs if value not in initialized]


def named(option: str, texts: Sequence[str] | None, names: Sequence[str], dims: Sequence[str] = ()) -> dict[str, str]:
    """Values by input name from `name=value`; the name may be left out where there is one input.

    `dims` are what else might have been named: errors tell them.

    >>> named("--shape", ["x=1x3"], ["x", "y"]), named("--shape", ["1x3"], ["x"])
    ({'x': '1x3'}, {'x': '1x3'})
    """
    result = {}
    for text in texts or ():
        name, equals, value = text.rpartition("=") if text.count("=") == 1 else text.partition("=")
        if not equals and len(names) == 1:
            name, value = names[0], text
        elif not equals:
            example = f", as in {option} {names[0]}={text}" if names else ""
            raise InvalidArgument(f"{option} {text}: say for which input{example}")
        if name not in names:
            there = f"the model has {', '.join([*names, *dims]) or 'none'}"
            raise InvalidArgument(f"{option} {text}: there is no input {'or dimension ' * bool(dims)}{name!r}; {there}")
        result[name] = value
    return result


def shapes_of(texts: Sequence[str] | None, inputs: Sequence[Value]) -> dict[str, tuple[int, ...]]:
    """Shapes by input name, or a size by the name of a dimension; written `1x3x224x224` or `1,3,224,224`.

    Nothing at all is a scalar.
    """
    names = [value.name for value in inputs]
    dims = {size for value in inputs for size in value.shape or () if isinstance(size, str)} - set(names)
    of_dims = [text for text in texts or () if text.partition("=")[0] in dims]
    given = named("--shape", [text for text in texts or () if text not in of_dims], names, sorted(dims))
    given |= {name: size for name, _, size in (text.partition("=") for text in of_dims)}
    shapes = {}
    for name, text in given.items():
        parts = text.replace(",", "x").split("x") if text else []
        if not all(part.isdecimal() for part in parts):
            raise InvalidArgument(f"--shape {name}={text}: write sizes with x between them, as in 1x3x224x224")
        if name in dims and len(parts) != 1:
            raise InvalidArgument(f"--shape {name}={text}: {name!r} is a dimension, and takes one size")
        shapes[name] = tuple(map(int, parts))
    return shapes


def sizes(
    name: str, declared: Sequence[DimLike] | None, asked: Mapping[str, Sequence[int]], assumed: list[str]
) -> tuple[int, ...]:
    """The shape of an input; dimensions that are taken as 1 are written down in `assumed`."""
    if name in asked:
        shape = tuple(asked[name])
        fits = declared is None or (
            len(declared) == len(shape) and all(not isinstance(a, int) or a == b for a, b in zip(declared, shape))
        )
        if not fits:
            text = "x".join("?" if size is None else str(size) for size in declared or ())
            raise InvalidArgument(
                f"--shape {name}={'x'.join(map(str, shape))}: the model declares {text or 'a scalar'}"
            )
        return shape
    if declared is None:
        raise InvalidArgument(f"the rank of input {name!r} is not known; give --shape {name}=...")
    shape = ()
    for axis, size in enumerate(declared):
        if isinstance(size, str) and size in asked:
            size = asked[size][0]
        elif not isinstance(size, int):
            label = size_name(name, axis, size)
            assumed += [label] if label not in assumed else []
            size = 1
        shape = (*shape, size)
    return shape


def wanted(value: Value, asked: Mapping[str, Sequence[int]]) -> tuple[DimLike, ...] | None:
    """The shape that a file has to have, as far as the model or `--shape` tells it; None where neither does."""
    if value.name in asked:
        return sizes(value.name, value.shape, asked, [])
    if value.shape is None:
        return None
    return tuple(asked[size][0] if isinstance(size, str) and size in asked else size for size in value.shape)


def feeds(
    model: Model,
    files: Sequence[str] | None = None,
    shapes: Sequence[str] | None = None,
    seed: int = 0,
    normalization: Normalization | None = None,
) -> Feeds:
    """A value for every input: from its file, a picture normalized, else random."""
    inputs = inputs_of(model)
    names = [value.name for value in inputs]
    asked = shapes_of(shapes, inputs)
    reader = Reader(sample_rate(model.metadata), normalization)
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    single = []
    for text in files or ():
        if "=" in text or len(inputs) == 1 or Path(text).suffix.lower() not in ARCHIVES:
            single.append(text)
            continue
        arrays = archive(Path(text))
        if not isinstance(arrays, dict):
            raise InvalidArgument(f"{text} holds no values by name; give --input NAME={text}")
        named("--input", [f"{name}={text}" for name in arrays], names)
        values |= {
            value.name: fit(value.name, value.type, arrays[value.name], text)
            for value in inputs
            if value.name in arrays
        }
        sources |= dict.fromkeys(arrays, text)
    sources |= (paths := named("--input", single, names))
    values |= {
        value.name: reader.read(value, Path(paths[value.name]), wanted(value, asked))
        for value in inputs
        if value.name in paths
    }
    _refuse_others(inputs, asked, values, sources)
    if normalization is not None and not reader.pictures:
        raise InvalidArgument(f"{normalization.option} is for pictures, and no input is one")
    rng = np.random.default_rng(seed)
    assumed: list[str] = []
    bounds = limits(model.graph)
    for value in inputs:
        if value.name not in values:
            values[value.name] = made_up(value, asked, assumed, rng, bounds.get(value.name))
            sources[value.name] = "random"
    return Feeds({name: values[name] for name in names}, sources, assumed, reader.notes, reader.rate)


def _refuse_others(
    inputs: Sequence[Value], asked: Mapping[str, Sequence[int]], values: Mapping[str, Any], sources: Mapping[str, str]
) -> None:
    """Raises InvalidArgument where a file has another shape than `--shape` says."""
    for value in inputs:
        shape = getattr(values.get(value.name), "shape", None)
        declared = wanted(value, asked)
        if shape is None or declared is None or declared == value.shape:
            continue
        if len(shape) != len(declared) or any(isinstance(a, int) and a != b for a, b in zip(declared, shape)):
            sides = ["x".join("?" if size is None else str(size) for size in each) for each in (shape, declared)]
            raise InvalidArgument(
                f"{sources[value.name]} is {sides[0]}, and --shape says {sides[1]} for {value.name!r}"
            )


def made_up(
    value: Value, asked: Mapping[str, Sequence[int]], assumed: list[str], rng: np.random.Generator, bound: int | None
) -> Any:
    """A value for an input that is not given: masks of 1, positions that count, else random."""
    if isinstance(value.type, OptionalType):
        return None
    if not isinstance(value.type, TensorType):
        text = f"input {value.name!r} is a {type_name(value.type)}; give --input {value.name}=FILE.json"
        raise InvalidArgument(text)
    dtype = value.dtype or dtypes.float32
    shape = sizes(value.name, value.shape, asked, assumed)
    memory.refuse(f"input {value.name!r} of {'x'.join(map(str, shape))}", math.prod(shape) * DRAWN)
    name = value.name.lower()
    if "mask" in name and dtype.kind in ("int", "uint", "bool"):
        return np.ones(shape, dtype.storage)
    if "position" in name and dtype.is_int and shape:
        return np.broadcast_to(np.arange(shape[-1]), shape).astype(dtype.storage)
    return random(dtype, shape, rng, bound)


DRAWN = 8
"""Bytes of an element while it is drawn."""


def random(dtype: DType, shape: Sequence[int], rng: np.random.Generator, bound: int | None = None) -> np.ndarray:
    """Random values: floats in 0..1, integers in 0..9 or below `bound`, fewer where the type is narrower, words."""
    if dtype.kind == "string":
        return rng.choice(WORDS, shape).astype(object)
    if dtype.is_native and dtype.kind in ("float", "complex"):
        return rng.random(shape).astype(dtype.storage)
    narrow = 2 ** (dtype.bits - 1) if dtype.bits > 1 else 2
    if dtype.kind == "bool":
        narrow = 2
    return rng.integers(0, max(min(bound or LARGEST + 1, narrow), 1), shape).astype(dtype.storage)


def limits(graph: Graph) -> dict[str, int]:
    """For inputs that are indices into a table of the model, as token ids are: how many entries that has."""
    users: defaultdict[Value | None, list[tuple[Node, int]]] = defaultdict(list)
    for node in graph.nodes:
        for place, value in enumerate(node.inputs):
            users[value].append((node, place))
    entries_of = {}
    for value in graph.inputs:
        if value.dtype is None or not value.dtype.is_int:
            continue
        numbers = []
        reached = [value]
        for each in reached:
            for node, place in users[each]:
                if node.op_type in THROUGH and place == 0:
                    reached += node.outputs
                elif (table := LOOKUPS.get(node.op_type, {}).get(place)) is not None and table < len(node.inputs):
                    entries = _sizes(node.inputs[table])
                    axis = node.attribute("axis", 0) if node.op_type == "Gather" else 0
                    if entries and -len(entries) <= axis < len(entries):
                        numbers.append(entries[axis])
        if numbers:
            entries_of[value.name] = min(numbers)
    return entries_of


def _sizes(value: Value | None) -> tuple[int, ...] | None:
    """The shape of what is a constant, or is made of one without changing its shape."""
    while value is not None and value.constant is None:
        node = value.producer
        if node is None or node.op_type not in ("DequantizeLinear", "Cast", "Identity", "Constant"):
            return None
        if node.op_type == "Constant":
            tensor = node.attribute("value")
            return tensor.shape if tensor is not None else None
        value = node.inputs[0]
    return value.constant.shape if value is not None and value.constant is not None else None


def sample_rate(metadata: Mapping[str, str]) -> int:
    """The samples a second that a model's metadata names, 0 if it names none."""
    for name, text in metadata.items():
        if name.lower().replace("_", "").replace("ing", "e") in ("samplerate", "sr"):
            return int(text) if text.isdecimal() else 0
    return 0
