"""Programs: what the WASM and WGSL generators print. Plain data, one small imperative language.

A program runs once for every point of its grid, in any order or in parallel. It reads and writes typed buffers, and
takes 32-bit integer parameters (sizes, strides, offsets). Buffers are numbered, those read first, then those written;
a written buffer may be read too. Indices count elements, from the buffer's start. All of it is JSON:

    expression   ["const", dtype, number]          floats that JSON lacks as "nan", "inf", "-inf"
                 ["param", "int32", k]             k-th parameter
                 ["grid", "int32", k]              index along the k-th grid axis
                 ["var", dtype, name]
                 ["load", dtype, buffer, index]
                 ["cast", dtype, x]                float to integer saturates, NaN gives 0; anything but 0 is true
                 ["bitcast", dtype, x]
                 ["pick", dtype, numbers, n, x]    the number at x - n of four, x a variable; in functions of `strict`
                 [function, dtype, operand, ...]   a scalar function (`sardonyx.code.scalar`), dtype that of the result
    statement    ["let", name, expression]         a new variable of the expression's dtype, visible to its block's end
                 ["set", name, expression]
                 ["for", name, count, [statement]] name is an int32 from 0 to count - 1
                 ["while", condition, [statement]]
                 ["if", condition, [statement], [statement]]
                 ["store", buffer, index, value]

dtypes are `sardonyx.common.dtypes` names. Arithmetic on `int32` indices may assume that nothing overflows. An
expression has no effects, so it may be evaluated at any place where its variables have the same values; loads in it are
in bounds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from sardonyx.code import scalar
from sardonyx.common import dtypes
from sardonyx.common.cached import cached_property
from sardonyx.common.fingerprint import fingerprint
from sardonyx.common.record import field, fields, record

Expression: TypeAlias = list[Any]
Statement: TypeAlias = list[Any]


@record(frozen=True)
class Program:
    """`grid` holds one expression over constants and parameters per axis; no axis means that it runs once."""

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    params: int
    grid: tuple[Any, ...]
    body: tuple[Any, ...]

    def json(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Program:
        return cls(
            data["name"],
            tuple(data["reads"]),
            tuple(data["writes"]),
            data["params"],
            tuple(data["grid"]),
            tuple(data["body"]),
        )

    @cached_property
    def key(self) -> str:
        """A digest of all but the name: equal programs share their compiled code."""
        text = json.dumps([self.reads, self.writes, self.params, self.grid, self.body])
        return fingerprint(text.encode()).hexdigest()[:16]


@record
class Value:
    """An expression under construction, with Python's operators; numbers take the dtype of the other operand."""

    code: Expression

    @property
    def dtype(self) -> str:
        return str(self.code[1])

    def _with(self, function: str, other: Any, swapped: bool = False) -> Value:
        right = other if isinstance(other, Value) else const(self.dtype, other)
        return call(function, right, self) if swapped else call(function, self, right)

    def __add__(self, other: Any) -> Value:
        return self._with("add", other)

    def __radd__(self, other: Any) -> Value:
        return self._with("add", other, True)

    def __sub__(self, other: Any) -> Value:
        return self._with("sub", other)

    def __rsub__(self, other: Any) -> Value:
        return self._with("sub", other, True)

    def __mul__(self, other: Any) -> Value:
        return self._with("mul", other)

    def __rmul__(self, other: Any) -> Value:
        return self._with("mul", other, True)

    def __truediv__(self, other: Any) -> Value:
        return self._with("div", other)

    def __floordiv__(self, other: Any) -> Value:
        """Division of indices, which are not negative."""
        return self._with("div", other)

    def __mod__(self, other: Any) -> Value:
        return self._with("rem", other)

    def __lt__(self, other: Any) -> Value:
        return self._with("lt", other)

    def __le__(self, other: Any) -> Value:
        return self._with("le", other)

    def __gt__(self, other: Any) -> Value:
        return self._with("gt", other)

    def __ge__(self, other: Any) -> Value:
        return self._with("ge", other)

    def __and__(self, other: Any) -> Value:
        return self._with("and", other)

    def __or__(self, other: Any) -> Value:
        return self._with("or", other)

    def __neg__(self) -> Value:
        return call("neg", self)

    def __invert__(self) -> Value:
        return call("not", self)


_SPECIAL = {float("inf"): "inf", float("-inf"): "-inf"}


def const(dtype: str, number: Any) -> Value:
    """A literal; booleans are 0 and 1."""
    if dtypes.by_name(dtype).is_float:
        number = "nan" if number != number else _SPECIAL.get(float(number), float(number))
    else:
        number = int(number)
    return Value(["const", dtype, number])


def call(function: str, *operands: Value) -> Value:
    """A scalar function of values."""
    result = scalar.FUNCTIONS[function].result
    dtype = "bool" if result == "bool" else operands[-1].dtype
    return Value([function, dtype, *(operand.code for operand in operands)])


def cast(dtype: str, value: Value) -> Value:
    return value if value.dtype == dtype else Value(["cast", dtype, value.code])


@record
class Builder:
    """Writes a program statement by statement."""

    reads: Sequence[str]
    writes: Sequence[str]
    _blocks: list[list[Statement]] = field(default_factory=lambda: [[]])
    _names: int = 0
    _params: int = 0

    def param(self) -> Value:
        self._params += 1
        return Value(["param", "int32", self._params - 1])

    def grid(self, axis: int) -> Value:
        return Value(["grid", "int32", axis])

    def load(self, buffer: int, index: Value) -> Value:
        return Value(["load", (*self.reads, *self.writes)[buffer], buffer, index.code])

    def store(self, buffer: int, index: Value, value: Value) -> None:
        self._blocks[-1].append(["store", buffer, index.code, value.code])

    def let(self, value: Value) -> Value:
        """A new variable that holds the value."""
        name = self._name()
        self._blocks[-1].append(["let", name, value.code])
        return Value(["var", value.dtype, name])

    def set(self, variable: Value, value: Value) -> None:
        self._blocks[-1].append(["set", variable.code[2], value.code])

    @contextmanager
    def loop(self, count: Value) -> Iterator[Value]:
        """The statements inside run `count` times; gives the index."""
        name = self._name()
        with self._block() as block:
            yield Value(["var", "int32", name])
        self._blocks[-1].append(["for", name, count.code, block])

    @contextmanager
    def while_(self, condition: Value) -> Iterator[None]:
        with self._block() as block:
            yield
        self._blocks[-1].append(["while", condition.code, block])

    @contextmanager
    def if_(self, condition: Value) -> Iterator[None]:
        with self._block() as block:
            yield
        self._blocks[-1].append(["if", condition.code, block, []])

    @contextmanager
    def else_(self) -> Iterator[None]:
        """What runs where the condition of the `if_` just before does not hold."""
        with self._block() as block:
            yield
        self._blocks[-1][-1][3] = block

    def program(self, name: str, grid: Sequence[Value] = ()) -> Program:
        extents = tuple(extent.code for extent in grid)
        return Program(name, tuple(self.reads), tuple(self.writes), self._params, extents, tuple(self._blocks[0]))

    def _name(self) -> str:
        self._names += 1
        return f"v{self._names - 1}"

    @contextmanager
    def _block(self) -> Iterator[list[Statement]]:
        self._blocks.append([])
        yield self._blocks[-1]
        self._blocks.pop()
