"""Inputs of a model from the command line: shapes, arrays in files, pictures, random numbers."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sardonyx import dtypes
from sardonyx.dtypes import DType
from sardonyx.errors import InvalidArgument, NoSuchFile
from sardonyx.ir.types import DimLike
from sardonyx.options import NodeArg


def add_shape(parser: argparse.ArgumentParser, text: str) -> None:
    """The option `--shape`."""
    parser.add_argument("--shape", action="append", metavar="INPUT=1x3x224x224", help=text)


def named(option: str, texts: Sequence[str] | None, names: Sequence[str]) -> dict[str, str]:
    """Values by input name from `name=value`; the name may be left out where there is one input.

    >>> named("--shape", ["x=1x3"], ["x", "y"]), named("--shape", ["1x3"], ["x"])
    ({'x': '1x3'}, {'x': '1x3'})
    """
    result = {}
    for text in texts or ():
        name, found, value = text.partition("=")
        if not found and len(names) == 1:
            name, value = names[0], text
        elif not found:
            raise InvalidArgument(f"{option} {text}: say for which input, as in {option} {names[0]}={text}")
        if name not in names:
            raise InvalidArgument(f"{option} {text}: there is no input {name!r}; there are {', '.join(names)}")
        result[name] = value
    return result


def shapes_of(texts: Sequence[str] | None, names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Shapes by input name, written `1x3x224x224` or `1,3,224,224`; nothing at all is a scalar."""
    shapes = {}
    for name, text in named("--shape", texts, names).items():
        parts = text.replace(",", "x").split("x") if text else []
        if not all(part.isdecimal() for part in parts):
            raise InvalidArgument(f"--shape {name}={text}: write sizes with x between them, as in 1x3x224x224")
        shapes[name] = tuple(map(int, parts))
    return shapes


def sizes(
    name: str, declared: Sequence[DimLike] | None, given: Mapping[str, Sequence[int]], assumed: list[str]
) -> tuple[int, ...]:
    """The shape to compile an input for; dimensions that are taken as 1 are written down in `assumed`."""
    if name in given:
        shape = tuple(given[name])
        fits = not declared or (  # of a shape that is not known, `NodeArg` tells no axes
            len(declared) == len(shape) and all(not isinstance(a, int) or a == b for a, b in zip(declared, shape))
        )
        if not fits:
            text = "x".join("?" if size is None else str(size) for size in declared or ())
            raise InvalidArgument(f"--shape {name}={'x'.join(map(str, shape))}: the model declares {text}")
        return shape
    if declared is None:
        raise InvalidArgument(f"the rank of input {name!r} is not known; give --shape {name}=...")
    open_ = [size or f"{name}.shape[{axis}]" for axis, size in enumerate(declared) if not isinstance(size, int)]
    assumed += (size for size in dict.fromkeys(open_) if size not in assumed)
    return tuple(size if isinstance(size, int) else 1 for size in declared)


def feeds(
    inputs: Sequence[NodeArg], files: Sequence[str] | None, shapes: Sequence[str] | None
) -> dict[str, np.ndarray]:
    """An array for every input: from its file, or random where its shape is given."""
    names = [port.name for port in inputs]
    paths, given = named("--input", files, names), shapes_of(shapes, names)
    rng = np.random.default_rng(0)
    result = {}
    for port in inputs:
        if not port.type.startswith("tensor("):
            raise InvalidArgument(f"input {port.name!r} is a {port.type}, which the command line cannot give")
        dtype = dtypes.by_name(port.type[len("tensor(") : -1])
        if port.name in paths:
            result[port.name] = from_file(port, dtype, Path(paths[port.name]))
        elif port.name in given:
            result[port.name] = random(dtype, sizes(port.name, port.shape, given, []), rng)
        else:
            shape = "x".join(str(size) if isinstance(size, int) else "1" for size in port.shape)
            raise InvalidArgument(
                f"input {port.name!r} ({port.type} {_text(port.shape)}) has no value; give --input {port.name}=FILE, "
                f"or --shape {port.name}={shape} for random numbers"
            )
    return result


def random(dtype: DType, shape: Sequence[int], rng: np.random.Generator) -> np.ndarray:
    """Random numbers: floats in 0..1, integers in 0..9 (fewer where the type is narrower), either bool."""
    if dtype.kind == "string":
        raise InvalidArgument("random strings make no sense; give --input a file")
    if dtype.is_native and dtype.kind in ("float", "complex"):
        return rng.random(shape).astype(dtype.storage)
    return rng.integers(0, min(10, 2 ** (dtype.bits - 1)) if dtype.bits > 1 else 2, shape).astype(dtype.storage)


def from_file(port: NodeArg, dtype: DType, path: Path) -> np.ndarray:
    """An input from a .npy file, or from a picture."""
    if path.suffix.lower() == ".npy":
        return _from_npy(port, dtype, path)
    from sardonyx.demo import pictures

    return from_picture(port, dtype, pictures.read(path))


def _from_npy(port: NodeArg, dtype: DType, path: Path) -> np.ndarray:
    try:
        array = np.load(path, allow_pickle=False)
    except FileNotFoundError as error:
        raise NoSuchFile(f"{path} does not exist") from error
    except (ValueError, EOFError) as error:
        raise InvalidArgument(f"{path} is no array that np.save wrote: {error}") from error
    if not isinstance(array, np.ndarray):
        raise InvalidArgument(f"{path} holds several arrays; give one .npy file per input")
    if dtype.kind == "string" and array.dtype.kind == "U":
        return array.astype(object)
    if not np.can_cast(array.dtype, dtype.storage, "same_kind"):
        raise InvalidArgument(f"{path} holds {array.dtype}, and input {port.name!r} wants {dtype.name}")
    return array.astype(dtype.storage)


def from_picture(port: NodeArg, dtype: DType, pixels: NDArray[np.uint8]) -> np.ndarray:
    """A picture [H, W, C] as an input: resized, its channels where the shape has 1 or 3, floats scaled to 0..1.

    NCHW, NHWC, CHW, HWC and HW are told apart by where the shape has 1 or 3 channels, the first that fits in this
    order; sizes that the model leaves open are the picture's own. Transparent pixels are laid on white.
    """
    from sardonyx.demo import pictures

    layout = _layout(port.shape)
    if layout is None:
        raise InvalidArgument(
            f"input {port.name!r} {_text(port.shape)} is not shaped like a picture (NCHW, NHWC, CHW, HWC or HW with 1 "
            "or 3 channels); give a .npy file"
        )
    if dtype.name not in ("float16", "float32", "float64", "uint8"):
        raise InvalidArgument(f"input {port.name!r} is {dtype.name}; pictures become floats or uint8, give a .npy file")
    wanted = dict(zip(layout, port.shape, strict=True))
    if isinstance(batch := wanted.get("N"), int) and batch != 1:
        raise InvalidArgument(f"input {port.name!r} wants {batch} pictures at once; give a .npy file")
    opaque = pictures.on_white(pixels)
    if wanted.get("C", 1) == 1:
        opaque = pictures.gray(opaque)[:, :, None]
    elif opaque.shape[2] == 1:
        opaque = opaque.repeat(3, axis=2)
    height, width = (size if isinstance(size := wanted[axis], int) else pixels.shape[k] for k, axis in enumerate("HW"))
    picture = pictures.resize(opaque, height, width)
    picture = np.rint(picture) if dtype.name == "uint8" else picture / 255
    places = {"H": 0, "W": 1, "C": 2}
    picture = picture if "C" in layout else picture[:, :, 0]
    picture = picture.transpose([places[axis] for axis in layout if axis != "N"])
    return (picture[None] if "N" in layout else picture).astype(dtype.storage)


def _layout(shape: Sequence[DimLike]) -> str | None:
    """What the axes of a picture's shape are, or None: a channel axis that is named counts as three channels."""
    for layout in ("NCHW", "NHWC", "CHW", "HWC", "HW"):
        channels = shape[layout.find("C")] if "C" in layout and len(layout) == len(shape) else 1
        if len(layout) == len(shape) and channels in (1, 3):
            return layout
    return {4: "NCHW", 3: "CHW"}.get(len(shape)) if not all(isinstance(size, int) for size in shape) else None


def _text(shape: Sequence[DimLike]) -> str:
    return f"[{', '.join('?' if size is None else str(size) for size in shape)}]"
