"""What operator expansions compute with: an Array, known or traced.

An expansion is written once against `Array`. If all that it is given is known, its primitives are evaluated with NumPy
on the spot: that is constant folding and eager execution. Otherwise they are recorded as equations of the active
`Trace`: that is the compiler's input. Three states, one class:

* `value`: a NumPy array: a constant, a weight, the result of folding (of strings the ids, see
  `sardonyx.common.strings`);
* `sizes`: a small object array of integers and symbolic sizes: what `Shape` gives, and arithmetic on it;
* `equation`: the output of a recorded primitive, or (None) an input of the trace.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from sardonyx.common import dtypes, memory
from sardonyx.common.dtypes import DType
from sardonyx.common.spill import spilled
from sardonyx.common.strings import StringTable, active_strings
from sardonyx.model.ir.model import Tensor
from sardonyx.model.structure import Form, form, leaves
from sardonyx.sizes.symbolic import Dim, Guards, Size, count, poly, product

Shape: TypeAlias = tuple[Size, ...]
Scalar: TypeAlias = int | float | bool

FOLD_LIMIT = 1 << 16
"""Elements up to which primitives on constants are evaluated while tracing."""
NARROW = 1 << 10
"""Elements from which on a constant may stay in few bits."""


@dataclass(eq=False, slots=True)
class Array:
    """A tensor of one element type whose sizes may be symbolic."""

    dtype: DType
    shape: Shape
    value: np.ndarray | None = None
    sizes: np.ndarray | None = None
    equation: Equation | None = None
    name: str = ""

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> Size:
        """The number of elements."""
        return product(self.shape)

    def __repr__(self) -> str:
        state = "value" if self.value is not None else "sizes" if self.sizes is not None else "traced"
        return f"<Array {self.dtype}[{','.join(f'{size}' for size in self.shape)}] {state}>"

    def __bool__(self) -> bool:
        raise TypeError("an Array has no truth value while a model is compiled; use primitives.where")

    __hash__ = object.__hash__

    def __add__(self, other: Operand) -> Array:
        return elementwise("add", self, other)

    def __radd__(self, other: Operand) -> Array:
        return elementwise("add", other, self)

    def __sub__(self, other: Operand) -> Array:
        return elementwise("sub", self, other)

    def __rsub__(self, other: Operand) -> Array:
        return elementwise("sub", other, self)

    def __mul__(self, other: Operand) -> Array:
        return elementwise("mul", self, other)

    def __rmul__(self, other: Operand) -> Array:
        return elementwise("mul", other, self)

    def __truediv__(self, other: Operand) -> Array:
        return elementwise("div", self, other)

    def __rtruediv__(self, other: Operand) -> Array:
        return elementwise("div", other, self)

    def __mod__(self, other: Operand) -> Array:
        return elementwise("rem", self, other)

    def __pow__(self, other: Operand) -> Array:
        return elementwise("pow", self, other)

    def __neg__(self) -> Array:
        return elementwise("neg", self)

    def __invert__(self) -> Array:
        return elementwise("not", self)

    def __and__(self, other: Operand) -> Array:
        return elementwise("and", self, other)

    def __or__(self, other: Operand) -> Array:
        return elementwise("or", self, other)

    def __xor__(self, other: Operand) -> Array:
        return elementwise("xor", self, other)

    def __lt__(self, other: Operand) -> Array:
        return elementwise("lt", self, other)

    def __le__(self, other: Operand) -> Array:
        return elementwise("le", self, other)

    def __gt__(self, other: Operand) -> Array:
        return elementwise("gt", self, other)

    def __ge__(self, other: Operand) -> Array:
        return elementwise("ge", self, other)


Operand: TypeAlias = Array | Scalar | Dim


def elementwise(function: str, *operands: Operand) -> Array:
    from sardonyx import primitives

    return primitives.elementwise(function, *operands)


@dataclass(eq=False, slots=True)
class Equation:
    """One recorded primitive. `origin` is the position of the ONNX node whose expansion recorded it."""

    primitive: Primitive
    inputs: tuple[Array, ...]
    params: dict[str, Any]
    outputs: tuple[Array, ...]
    origin: int
    bodies: tuple[Any, ...] = ()
    """The traced sub-plans of control flow."""


class Primitive:
    """The contract of a primitive: result types and shapes, and the value by NumPy.

    `pure` primitives with equal inputs and parameters are recorded once. `on_sizes` ones can be evaluated on arrays of
    symbolic sizes, where NumPy's object arrays do the arithmetic. `on_strings` ones do not mind that strings are ids.
    """

    name: str = ""
    pure: bool = True
    on_sizes: bool = False
    on_strings: bool = False

    def takes_sizes(self, params: dict[str, Any]) -> bool:
        """Whether these parameters allow evaluation on symbolic sizes."""
        return self.on_sizes

    infer: Callable[..., Sequence[tuple[DType, Shape]]]
    numpy: Callable[..., Sequence[np.ndarray]]
    expand: Callable[..., Sequence[Array]] | None = None
    """The results in other primitives, for providers that have no routine for this one."""
    room: Callable[..., Size] | None = None
    """The elements that output k may need, of k and the inputs, where its shape tells only what the run finds."""


PRIMITIVES: dict[str, Primitive] = {}


def primitive(cls: type[Primitive]) -> Primitive:
    """Register the one instance of a primitive under its name."""
    PRIMITIVES[cls.name] = instance = cls()
    return instance


POLYNOMIAL = {"add", "sub", "mul", "neg"}
MOVES = {"broadcast", "cast", "concat", "reshape", "transpose"}
"""What makes polynomials of numbers that are read, and what only moves them: nothing else need be read for it."""
TOLD, TOLD_DEPTH = 8, 8
"""Elements that such numbers have at most where nobody read them before, and the equations between."""


class TooEarlyError(Exception):
    """A size depends on data, and there is none yet."""


@dataclass(eq=False)
class Trace:
    """The equations of one graph for one choice of guards, in the order in which they were recorded.

    A trace inside another one (the body of a Loop) takes what it uses of the outer one as inputs of its own: `lifted`
    pairs those with the outer Arrays. `labels` names the ONNX nodes; `origin` is the number of the current one.
    """

    guards: Guards
    outer: Trace | None = None
    inputs: list[Array] = field(default_factory=list)
    equations: list[Equation] = field(default_factory=list)
    outputs: list[Array] = field(default_factory=list)
    arguments: list[Form] = field(default_factory=list)
    results: list[Form] = field(default_factory=list)
    """How inputs and outputs are arranged where they are given as more than tensors (`sardonyx.model.structure`)."""
    labels: list[str] = field(default_factory=list)
    origin: int = -1
    feeds: dict[int, np.ndarray] = field(default_factory=dict)
    early: bool = False
    """Whether no run has begun: then asking for what a run will tell raises `TooEarlyError`."""
    strings: StringTable = field(default_factory=lambda: active_strings() or StringTable())
    """Where the strings among constants have their ids; entered with the trace."""
    lifted: dict[int, tuple[Array, Array]] = field(default_factory=dict)
    input_reads: dict[int, list[Size]] = field(default_factory=dict)
    """Symbols that the elements of trace inputs define: the host reads them before the run."""
    fresh: set[str] = field(default_factory=set)
    """Symbols that only the run defines."""
    varying: dict[tuple[int, ...], set[tuple[int, int]]] = field(default_factory=dict)
    """Carried values and their axes that change in the loop at a `place`; kept by the root."""
    laid: set[int] = field(default_factory=set)
    """Arrays in the order of axes that memory is to have: they are written rather than transposed views of them."""
    repeated: bool = False
    """Whether it is the body of a loop: a device does best that takes all turns without the host."""
    narrow: bool = False
    """Whether large constants stay in few bits: they are cast to wider types where they are used."""
    guesses: dict[str, int] = field(default_factory=dict)
    """Symbols that no run told yet, and the numbers that stand for them; kept by the root."""
    branched: int = 0
    """How many guards there were when a branch was last chosen; kept by the root."""
    _known: dict[Any, tuple[Array, ...]] = field(default_factory=dict)
    _reads: dict[int, list[Size]] = field(default_factory=dict)
    _own: set[int] = field(default_factory=set)
    _counter: int = 0

    def __enter__(self) -> Trace:
        self.guards.__enter__()
        self.strings.__enter__()
        _active.__dict__.setdefault("stack", []).append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _active.stack.pop()
        self.strings.__exit__()
        self.guards.__exit__()

    @property
    def depth(self) -> int:
        return 0 if self.outer is None else self.outer.depth + 1

    @property
    def root(self) -> Trace:
        """The trace that is inside no other one."""
        return self if self.outer is None else self.outer.root

    def doubts(self) -> list[str]:
        """Symbols whose numbers are guesses on which branches may have been chosen, the most likely ones first."""
        facts = list(self.guards)[: self.branched]
        return [
            name
            for polynomial, _, _ in reversed(facts)
            for name in sorted(polynomial.symbols())
            if name in self.guesses
        ]

    @property
    def place(self) -> tuple[int, ...]:
        """The numbers of the nodes around, the current one last: where the trace is in the model."""
        return (*(self.outer.place if self.outer else ()), self.origin)

    def input(self, dtype: DType, shape: Shape, name: str = "") -> Array:
        """A new input."""
        array = Array(dtype, shape, name=name)
        self.inputs.append(array)
        self._own.add(id(array))
        return array

    def fresh_symbol(self, guess: int, stem: str = "n") -> Dim:
        """A size that only the run will tell; `guess` stands for it unless an earlier run told better."""
        if self.early:
            raise TooEarlyError
        name = f"{stem}{self._counter}" if self.outer is None else f"{stem}{self._counter}_{self.depth}"
        self._counter += 1
        self.fresh.add(name)
        if name not in self.guards.hints:
            self.root.guesses[name] = guess
        return self.guards.symbol(name, self.guards.hints.get(name, guess))

    def record(self, prim: Primitive, inputs: tuple[Array, ...], params: dict[str, Any]) -> tuple[Array, ...]:
        inputs = tuple(map(self.materialise, inputs))
        key = (prim.name, tuple(map(id, inputs)), freeze(params)) if prim.pure else None
        if key is not None and key in self._known:
            return self._known[key]
        types = prim.infer(*inputs, **params)
        return self.append(prim, inputs, params, types, key)

    def append(
        self,
        prim: Primitive,
        inputs: tuple[Array, ...],
        params: dict[str, Any],
        types: Sequence[tuple[DType, Shape]],
        key: Any = None,
    ) -> tuple[Array, ...]:
        """Record an equation whose result types are known already."""
        outputs = tuple(Array(dtype, shape) for dtype, shape in types)
        equation = Equation(prim, tuple(map(self.materialise, inputs)), params, outputs, self.origin)
        for output in outputs:
            output.equation = equation
            self._own.add(id(output))
        self.equations.append(equation)
        if key is not None:
            self._known[key] = outputs
        return outputs

    def value_in_this_call(self, array: Array) -> np.ndarray | None:
        """What an Array is for the feeds of the call at hand, if that is cheap to find out. Leaves no guard."""
        with Guards(self.guards.hints):
            return evaluate(array, self.feeds)

    def forget(self) -> None:
        """Record what was recorded before once more when it is asked for: earlier equations may come later now."""
        self._known.clear()

    def dissolve(self) -> None:
        """Part equations from what they compute, which refer to each other: their memory is free at once."""
        for equation in self.equations:
            for output in equation.outputs:
                output.equation = None
        self.equations = []

    def materialise(self, array: Array) -> Array:
        """The Array as something that a kernel of this trace can read.

        Sizes become the output of a `sizes` equation, Arrays of the outer trace inputs of this one.
        """
        if array.value is not None or id(array) in self._own:
            return array
        if array.sizes is not None:
            flat = tuple(array.sizes.reshape(-1).tolist())
            return self.record(PRIMITIVES["sizes"], (), {"sizes": flat, "shape": array.shape, "dtype": array.dtype})[0]
        if id(array) not in self.lifted:
            if self.outer is None:
                raise TypeError(f"{array} belongs to no trace that is active")
            self.lifted[id(array)] = (self.input(array.dtype, array.shape, array.name), array)
        return self.lifted[id(array)][0]

    def give(self, results: Sequence[Any]) -> None:
        """Have these outputs: Arrays, or what is arranged of them."""
        self.results = list(map(form, results))
        self.outputs = [self.materialise(array) for result in results for array in leaves(result)]

    def read(self, array: Array, guess: int = 1) -> list[Size]:
        """The elements of a traced integer Array, as symbols that the run reads from it.

        `guess` stands for those that no earlier run told and that cannot be computed now.
        """
        array = self.materialise(array)
        if id(array) in self._reads:
            return self._reads[id(array)]
        number = int(product(array.shape))
        if array.dtype.kind not in ("int", "uint", "bool") or number > 64:
            raise ValueError(f"sizes cannot be read from {array}: they are integers, 64 at most")
        known = evaluate(array)
        if known is not None:
            found: list[Size] = [int(item) for item in known.reshape(-1).tolist()]
        elif array.equation is not None and self._is_told(array):
            found = known_sizes(self._told(array))
        else:
            found_now = self.value_in_this_call(array)
            guesses = [guess] * number if found_now is None else [int(item) for item in found_now.reshape(-1).tolist()]
            found = [self.fresh_symbol(guess, "?n") for guess in guesses]
            if array.equation is None:
                self.input_reads[id(array)] = found
            else:
                self.append(PRIMITIVES["read"], (array,), {"symbols": tuple(map(str, found))}, [])
        self._reads[id(array)] = found
        return found

    def _is_told(self, array: Array, depth: int = TOLD_DEPTH) -> bool:
        """Whether an Array is a polynomial of numbers that were read, or that small inputs hold."""
        if array.value is not None:
            return array.value.size <= TOLD and bool((np.abs(array.value.astype(np.float64)) < 1 << 31).all())
        if id(array) in self._reads:
            return True
        equation = array.equation
        if array.dtype not in (dtypes.int32, dtypes.int64) or depth == 0:
            return False
        if equation is None:
            return isinstance(array.size, int) and array.size <= TOLD
        name, params = equation.primitive.name, equation.params
        moves = name in MOVES or (name == "elementwise" and params["function"] in POLYNOMIAL)
        return moves and all(self._is_told(x, depth - 1) for x in equation.inputs)

    def _told(self, array: Array) -> Array:
        """The sizes that such an Array holds."""
        if array.value is not None:
            return array
        if array.equation is None or id(array) in self._reads:
            known = np.empty(int(array.size), dtype=object)
            known[:] = self.read(array)
            shape = tuple(map(int, array.shape))
            return of_sizes(known.reshape(shape), array.dtype, shape)
        return bind(array.equation.primitive, *map(self._told, array.equation.inputs), **array.equation.params)[0]


_active = threading.local()


def active_trace() -> Trace | None:
    stack: list[Trace] = _active.__dict__.get("stack") or []
    return stack[-1] if stack else None


def freeze(value: Any) -> Any:
    """A hashable key of a parameter; symbolic sizes are told apart by their polynomials."""
    if isinstance(value, (tuple, list)):
        return tuple(map(freeze, value))
    if isinstance(value, Dim):
        return poly(value)
    if isinstance(value, dict):
        return tuple((name, freeze(item)) for name, item in sorted(value.items()))
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, (bool, int)):
        return type(value).__name__, value
    return value


def bind(prim: Primitive, *inputs: Array, **params: Any) -> tuple[Array, ...]:
    """Evaluate a primitive now if all that it needs is known, else record it in the active trace."""
    trace = active_trace()
    if not prim.on_strings and any(array.dtype is dtypes.string for array in inputs):
        raise TypeError(f"{prim.name} does not take strings")
    if all(array.value is not None for array in inputs) and (trace is None or (inputs and prim.pure)):
        types = prim.infer(*inputs, **params)
        if trace is None:
            for dtype, shape in types:
                memory.refuse(f"{prim.name} of {list(shape)}", count(shape) * dtype.itemsize, memory.EAGER)
        is_kept = trace is not None and trace.narrow and _widens(prim, inputs, types)
        if trace is None or (not is_kept and all(_small(shape) for _, shape in types)):
            values = prim.numpy(*(array.value for array in inputs if array.value is not None), **params)
            kept = map(spilled, map(np.asarray, values))
            return tuple(Array(dtype, tuple(v.shape), v) for (dtype, _), v in zip(types, kept, strict=True))
    elif prim.takes_sizes(params) and all(array.value is not None or array.sizes is not None for array in inputs):
        types = prim.infer(*inputs, **params)
        if all(dtype.kind in ("int", "uint", "bool") and _small(shape) for dtype, shape in types):
            return _on_sizes(prim, inputs, params, types)
    if trace is None:
        raise TypeError(f"primitive {prim.name} needs a trace: some of its inputs are not known")
    return trace.record(prim, inputs, params)


def _small(shape: Shape) -> bool:
    return all(isinstance(size, int) for size in shape) and count(shape) <= FOLD_LIMIT


def _widens(prim: Primitive, inputs: Sequence[Array], types: Sequence[tuple[DType, Shape]]) -> bool:
    """Whether a cast makes a constant of some size larger."""
    if prim.name != "cast":
        return False
    ((dtype, shape),) = types
    return dtype.bits > inputs[0].dtype.bits and _small(shape) and count(shape) >= NARROW


DEAR = {"branch", "conv_general", "coupling", "dot_general", "host", "loop", "recurrent", "reduce_window", "sort"}
DEAR |= {"suppression", "top_k", "tree_ensemble"}
"""Primitives that are not evaluated for the sake of a guess."""


EVALUATE_LIMIT = 1 << 24
"""Elements up to which primitives on constants are evaluated because the plan depends on them."""


def _is_dear(equation: Equation, feeds: Mapping[int, np.ndarray] | None) -> bool:
    if feeds is None:
        return any(isinstance(array.size, int) and array.size > EVALUATE_LIMIT for array in equation.outputs)
    return equation.primitive.name in DEAR or any(count(array.shape) > FOLD_LIMIT for array in equation.outputs)


def evaluate(array: Array, feeds: dict[int, np.ndarray] | None = None) -> np.ndarray | None:
    """The value of an Array that depends on constants, sizes and feeds alone; guards tie sizes to their numbers.

    None where it depends on anything else, or, with feeds, is dear to compute. What is computed joins the feeds.
    """
    values: dict[int, np.ndarray] = {} if feeds is None else feeds
    stack = [array]
    while stack:
        top = stack[-1]
        if id(top) in values:
            stack.pop()
        elif top.value is not None:
            values[id(top)] = top.value
        elif top.equation is None or not top.equation.primitive.pure or _is_dear(top.equation, feeds):
            return None
        elif waiting := [item for item in top.equation.inputs if id(item) not in values]:
            stack += waiting
        else:
            equation = top.equation
            results = equation.primitive.numpy(*(values[id(item)] for item in equation.inputs), **equation.params)
            values.update((id(item), result) for item, result in zip(equation.outputs, results, strict=True))
    return values[id(array)]


def _on_sizes(
    prim: Primitive, inputs: tuple[Array, ...], params: dict[str, Any], types: Sequence[tuple[DType, Shape]]
) -> tuple[Array, ...]:
    objects = [array.sizes if array.sizes is not None else as_objects(array) for array in inputs]
    outputs = []
    for (dtype, shape), result in zip(types, prim.numpy(*objects, **params), strict=True):
        known = np.asarray(result)
        outputs.append(of_sizes(known if known.dtype == object else known.astype(object), dtype, shape))
    return tuple(outputs)


def as_objects(array: Array) -> np.ndarray:
    assert array.value is not None
    return array.value if array.dtype is dtypes.bool_ else array.value.astype(object)


def of_sizes(known: np.ndarray, dtype: DType, shape: Shape) -> Array:
    """The Array of these integers, a plain value if none of them is symbolic."""
    if any(isinstance(size, Dim) for size in known.reshape(-1).tolist()):
        return Array(dtype, shape, sizes=known)
    return Array(dtype, shape, value=known.astype(dtype.storage))


def constant(value: Any, dtype: DType | None = None) -> Array:
    """The Array that holds this NumPy array, number or string."""
    array = np.asarray(value)
    dtype = dtype or dtypes.of(array.dtype)
    if dtype is dtypes.string:
        strings = active_strings()
        if strings is None:
            raise TypeError("strings are numbered in a trace, or inside `with StringTable():`")
        return Array(dtype, array.shape, strings.encode(array))
    return Array(dtype, array.shape, array.astype(dtype.storage, copy=False))


def of_tensor(tensor: Tensor) -> Array:
    """The Array of a constant of the model, a view of the model's bytes unless it holds strings or is computed."""
    if tensor.dtype is dtypes.string:
        return replace(constant(tensor.array(), tensor.dtype), name=tensor.name)
    if tensor.product is not None and active_trace() is not None:
        base, factors = tensor.product
        return of_tensor(base) * constant(factors, tensor.dtype)
    return Array(tensor.dtype, tensor.shape, tensor.array(), name=tensor.name)


def sizes(items: Sequence[Size], dtype: DType = dtypes.int64) -> Array:
    """A vector of sizes, as ONNX's Shape gives it."""
    known = np.empty(len(items), dtype=object)
    known[:] = items
    return of_sizes(known, dtype, (len(items),))


def known_sizes(array: Array, guess: int = 1) -> list[Size]:
    """The elements of a small integer Array that shapes depend on.

    What is not known yet becomes symbols that the run reads (`read`), so asking costs the plan a halt; sizes that went
    through arithmetic which is not on integers are tied to their numbers by guards. `guess` as in `Trace.read`.
    """
    if array.value is not None:
        return [int(item) for item in array.value.reshape(-1).tolist()]
    if array.sizes is not None:
        return list(array.sizes.reshape(-1).tolist())
    trace = active_trace()
    if trace is None:
        raise TypeError("the elements of this Array are not known")
    return trace.read(array, guess)
