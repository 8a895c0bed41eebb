"""An execution provider in one file: it prints Programs as Python functions, and runs them on byte arrays.

Core lowers whatever it is given to `sardonyx.code.program.Program`, a language of loops, variables, loads and stores.
A provider of the form "program" runs that, and nothing else.
"""

from __future__ import annotations

import ctypes
import platform
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import product
from math import inf, nan
from typing import Any

import numpy as np

from sardonyx.code import scalar
from sardonyx.code.program import Expression, Program, Statement
from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.common.termination import poll
from sardonyx.providers import Address, Device, Executable, Provider, SegmentLaunch

FLOATS = {"float32": ctypes.c_float, "float64": ctypes.c_double}
INTEGERS = {f"{kind}{bits}": getattr(ctypes, f"c_{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
TYPES: dict[str, Any] = {"bool": ctypes.c_bool, **FLOATS, **INTEGERS}
"""What an element is in memory. `TYPES[dtype](x).value` rounds a float, and wraps an integer, as that type does."""

OPERATORS = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"}
COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
"""How Python spells what programs do most; `apply` does the rest."""


class PlainProvider(Provider):
    """What core asks: the name, what runs here, and the device. All else is as `Provider` has it."""

    name = "PlainExecutionProvider"
    options = frozenset()

    def supports(
        self, primitive: str, inputs: Sequence[DType], outputs: Sequence[DType], params: Mapping[str, Any]
    ) -> bool:
        """Whether all elements are of types that there is memory for, whatever is done with them."""
        return {dtype.name for dtype in (*inputs, *outputs)} <= TYPES.keys()

    def device(self, options: Mapping[str, str]) -> Device:
        return _device()

    def describe(self) -> dict[str, str]:
        return {"python": platform.python_version()}


class PlainDevice(Device):
    """Byte arrays, which the host reads and writes as they are. What is asked for is done when a call returns."""

    def allocate(self, nbytes: int) -> bytearray:
        return bytearray(nbytes)

    def view(self, address: Address, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
        return np.ndarray(shape, dtype, address.chunk, address.offset)

    def upload(self, address: Address, array: np.ndarray) -> None:
        self.view(address, array.dtype, array.shape)[...] = array

    def download(self, address: Address, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
        return self.view(address, dtype, shape).copy()

    def load(self, codes: Sequence[Program], segments: Sequence[Sequence[SegmentLaunch]]) -> PlainExecutable:
        return PlainExecutable(codes, segments)


class PlainExecutable(Executable):
    """A Python function for each Program."""

    def __init__(self, codes: Sequence[Program], segments: Sequence[Sequence[SegmentLaunch]]) -> None:
        self.codes = codes
        self.functions = [compiled(code) for code in codes]
        self.segments = segments

    def bind(
        self, segment: int, buffers: Sequence[Sequence[Address]], params: Sequence[Sequence[int]]
    ) -> Callable[[], None]:
        calls = []
        for launch, addresses, numbers in zip(self.segments[segment], buffers, params, strict=True):
            code = self.codes[launch.code]
            arrays = map(elements, (*code.reads, *code.writes), addresses)
            calls.append(partial(self.functions[launch.code], *arrays, *numbers))

        def run() -> None:
            for call in calls:
                poll()  # whoever ends the run is heard between two launches
                call()

        return run


def elements(dtype: str, address: Address) -> Any:
    """A buffer as an array of Python's numbers."""
    kind = TYPES[dtype]
    count = address.nbytes // ctypes.sizeof(kind)
    if count == 0:  # what pads an empty tensor loads elements of it, and drops them
        return defaultdict(int)
    return (kind * count).from_buffer(address.chunk, address.offset)


def compiled(program: Program) -> Callable[..., None]:
    """A program as a function of its buffers (those read, then those written) and parameters."""
    names = dict(NAMES)
    exec(source(program), names)
    function: Callable[..., None] = names["run"]
    return function


def source(program: Program) -> str:
    """The text of that function: a loop over the grid around the body.

    >>> from sardonyx.code.program import Builder
    >>> b = Builder(["float32"], ["float32"])
    >>> b.store(1, b.grid(0), b.load(0, b.grid(0)) * 2)
    >>> print(source(b.program("double", [b.param()])))
    def run(b0, b1, p0):
        for g0, in product(range(p0)):
            b1[g0] = float32(b0[g0] * 2.0).value
    """
    buffers = [f"b{k}" for k in range(len(program.reads) + len(program.writes))]
    params = [f"p{k}" for k in range(program.params)]
    axes = "".join(f"g{k}, " for k in range(len(program.grid))) or "()"
    extents = ", ".join(f"range({text(extent)})" for extent in program.grid)
    lines = [f"def run({', '.join(buffers + params)}):", f"    for {axes.rstrip()} in product({extents}):"]
    return "\n".join([*lines, *block(program.body, " " * 8)])


def block(statements: Sequence[Statement], indent: str) -> Iterator[str]:
    """The lines of statements."""
    for statement in statements or [["pass"]]:
        match statement:
            case ["let" | "set", name, value]:
                yield f"{indent}{name} = {text(value)}"
            case ["store", buffer, index, value]:
                yield f"{indent}b{buffer}[{wide(index)}] = {wide(value)}"
            case ["for", name, count, inner]:
                yield f"{indent}for {name} in range({text(count)}):"
                yield from block(inner, indent + "    ")
            case ["while", condition, inner]:
                yield f"{indent}while {text(condition)}:"
                yield from block(inner, indent + "    ")
            case ["if", condition, yes, no]:
                yield f"{indent}if {text(condition)}:"
                yield from block(yes, indent + "    ")
                yield f"{indent}else:"
                yield from block(no, indent + "    ")
            case ["pass"]:
                yield f"{indent}pass"


def text(expression: Expression) -> str:
    """An expression whose value is a number of its type."""
    match expression:
        case ["const", dtype, number]:
            return repr(TYPES[dtype](float(number) if dtype in FLOATS else number).value)
        case ["param", _, number]:
            return f"p{number}"
        case ["grid", _, axis]:
            return f"g{axis}"
        case ["var", _, name]:
            return str(name)
        case ["load", _, buffer, index]:
            return f"b{buffer}[{wide(index)}]"
        case ["cast" | "bitcast" as function, dtype, [_, old, *_] as operand]:
            return f"{function}({old!r}, {dtype!r}, {text(operand)})"
        case ["where", _, condition, a, b]:
            return f"({text(a)} if {text(condition)} else {text(b)})"
        case [function, _, a, b] if function in COMPARISONS:
            return f"({text(a)} {COMPARISONS[function]} {text(b)})"
        case ["min" | "max" as function, _, a, b]:
            return f"{function}imum({text(a)}, {text(b)})"
        case [function, dtype, a, b] if function in OPERATORS:
            exact = f"({wide(a)} {OPERATORS[function]} {wide(b)})"
            return exact if dtype in ("bool", "float64") else f"{dtype}{exact}.value"
    function, _, *operands = expression
    return f"apply({function!r}, {operands[0][1]!r}, {', '.join(map(text, operands))})"


def wide(expression: Expression) -> str:
    """The same where only the low bits of an integer count, so that one that is too large will do."""
    match expression:
        case [function, dtype, a, b] if function in OPERATORS and dtype in INTEGERS:
            return f"({wide(a)} {OPERATORS[function]} {wide(b)})"
    return text(expression)


def minimum(a: Any, b: Any) -> Any:
    """The smaller number, or NaN if one is."""
    return a if a < b or a != a else b


def maximum(a: Any, b: Any) -> Any:
    """The larger number, or NaN if one is."""
    return a if a > b or a != a else b


def apply(function: str, dtype: str, *operands: Any) -> Any:
    """A scalar function of numbers of one type, as NumPy defines it."""
    storage = dtypes.by_name(dtype).storage
    with np.errstate(all="ignore"):
        return scalar.FUNCTIONS[function].numpy(*(np.asarray(x, storage) for x in operands)).item()


def cast(old: str, new: str, x: Any) -> Any:
    """A number in another type: floats saturate where that is an integer, and anything but 0 is true."""
    if old in FLOATS and new in INTEGERS:
        return scalar.cast(np.asarray(x, old), np.dtype(new)).item()
    return TYPES[new](x != 0 if new == "bool" else x).value


def bitcast(old: str, new: str, x: Any) -> Any:
    """The number that has these bits in another type."""
    return TYPES[new].from_buffer_copy(TYPES[old](x)).value


NAMES: dict[str, Any] = {"product": product, "inf": inf, "nan": nan, "minimum": minimum, "maximum": maximum}
NAMES |= {"apply": apply, "cast": cast, "bitcast": bitcast, **TYPES}
"""What the functions of programs call."""


@cache
def _device() -> PlainDevice:
    return PlainDevice()


provider = PlainProvider()
