"""Where a kernel's elements are: running pointers, loads and stores at the place that the loops have come to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from .. import vectors
from ..assembler import Expr, Function, Operand, Variable, i32x4
from ..code import Unit
from ..scalars import values
from ..scalars.values import Kind
from ..vectors import Vector
from .graph import Access, Graph, Size
from .scope import Scope, expr, plus, times
from .shuffled import load_strided, transpose
from .strategy import LANES, Strategy, is_shuffled, is_transposed

Copies: TypeAlias = Sequence[int]
Terms: TypeAlias = tuple[tuple[int, Size], ...]
"""Nodes and their strides: what is yet to be added to a pointer."""


class Memory(Scope):
    """The state of the loops: values of nodes, pointers and counters, each as they are at this point of the function.

    A vector has its elements along the axis `lanes`. What depends on the axis `spread` exists in several copies, copy
    `j` for the place `j * stride` further on along it.
    """

    def __init__(self, unit: Unit, f: Function, graph: Graph, strategy: Strategy) -> None:
        count = len(graph.kernel.reads + graph.kernel.writes)
        super().__init__(unit, f, f.params[3 + count :])
        self.graph, self.strategy = graph, strategy
        self.lanes = strategy.lanes
        self.spread, self.stride = (strategy.lanes, LANES) if strategy.across is None else (strategy.across, 1)
        self.nodes: dict[int, dict[int, Vector]] = {}
        self.splats: dict[tuple[int, int], Vector] = {}
        self.pointers: dict[Access, tuple[Expr, Terms]] = {}
        self.counters: dict[int, Variable] = {}
        self.moving: dict[int, list[tuple[Access, Variable]]] = {}
        self._point(f.params[3 : 3 + count])

    def _point(self, buffers: Sequence[Variable]) -> None:
        """The pointers before all loops, and the strides in bytes that the loops need."""
        for access in self.graph.accesses:
            for axis, stride in access.axes.items():
                for factor in self._multiples(axis):
                    self.keep(stride, factor * access.width)
            start = plus(times(self.size(access.start), access.width), access.low * access.width)
            self.pointers[access] = self.let(expr(plus(buffers[access.buffer], start))), access.extra

    def _multiples(self, axis: int) -> Iterable[int]:
        if axis == self.lanes:
            return (1, 2, 3, 4, *(LANES * k for k in range(2, self.strategy.most + 1)))
        return (1, 2, 3, 4) if axis == self.spread else (1,)

    # ---- what holds here

    def is_vector(self, node: int) -> bool:
        """Whether a node differs between lanes."""
        return self.lanes is not None and self.graph.depends(node, self.lanes)

    def is_spread(self, node: int) -> bool:
        """Whether a node has copies."""
        return self.is_vector(node) or (self.spread is not None and self.graph.depends(node, self.spread))

    @contextmanager
    def nest(self) -> Iterator[None]:
        """What is computed inside is forgotten afterwards."""
        saved = self.nodes, self.splats, self.pointers, self.counters, self.moving
        self.nodes, self.splats = {node: dict(copies) for node, copies in self.nodes.items()}, dict(self.splats)
        self.pointers, self.counters, self.moving = dict(self.pointers), dict(self.counters), dict(self.moving)
        yield
        self.nodes, self.splats, self.pointers, self.counters, self.moving = saved

    @contextmanager
    def scalars(self) -> Iterator[None]:
        """Inside, everything is a scalar."""
        saved = self.lanes, self.spread
        self.lanes = self.spread = None
        with self.nest():
            yield
        self.lanes, self.spread = saved

    def operand(self, node: int, copy: int, vector: bool) -> Vector:
        """The value of a node, as a vector if need be; a scalar is a tuple of one."""
        copy = copy if self.is_spread(node) else 0
        value = self.nodes[node][copy]
        if not vector or self.is_vector(node):
            return value
        return self.splats.get((node, copy)) or vectors.splat(self.graph.kinds[node], *value)

    def ramp(self, stride: Size, factor: int = 1) -> Expr:
        """The multiples 0, 1, 2, 3 of a stride, an i32x4."""
        if isinstance(stride, int):
            return i32x4.const(*(lane * stride * factor for lane in range(LANES)))
        return vectors.iota() * i32x4.splat(expr(self.product(stride, factor)))

    # ---- addresses

    def settle(self) -> None:
        """Add what is known by now to pointers that still lack the values of nodes."""
        for access in self.graph.accesses:
            if self.pointers[access][1]:
                self._settle(access)

    def _settle(self, access: Access) -> None:
        pointer, terms = self.pointers[access]
        ready = [term for term in terms if not self.is_spread(term[0]) and term[0] in self.nodes]
        for node, stride in ready:
            (value,) = self.operand(node, 0, False)
            pointer = pointer + times(value, self.product(stride, access.width))
        if ready:
            self.pointers[access] = self.let(pointer), tuple(term for term in terms if term not in ready)

    def _place(self, number: int, copy: int) -> tuple[Expr, int, Size, Terms]:
        """An address of the first lane and an offset from it, the stride between lanes, and the vectors to be added."""
        access, literal = self.graph.places[number]
        self._settle(access)
        pointer, terms = self.pointers[access]
        offset = (literal - access.low) * access.width
        if self.spread in access.axes:
            further = self.product(access.axes[self.spread], copy * self.stride * access.width)
            if isinstance(further, int) and further >= 0:
                offset += further
            else:
                pointer = expr(plus(pointer, further))
        for node, stride in terms:
            if not self.is_vector(node):
                (value,) = self.operand(node, copy, False)
                pointer = pointer + times(value, self.product(stride, access.width))
        between = 0 if self.lanes is None else access.axes.get(self.lanes, 0)
        return pointer, offset, between, tuple(term for term in terms if self.is_vector(term[0]))

    def _regular(self, access: Access, pointer: Expr, stride: Size) -> list[Expr]:
        """The addresses of lanes that are a stride apart."""
        pointer = self.let(pointer)
        return [expr(plus(pointer, self.product(stride, lane * access.width))) for lane in range(LANES)]

    def _computed(self, access: Access, pointer: Expr, stride: Size, terms: Terms, copy: int) -> Expr:
        """The addresses of lanes that vectors tell, an i32x4."""
        total: Expr = i32x4.splat(pointer)
        if stride != 0:
            total = total + self.ramp(stride, access.width)
        for node, factor in terms:
            (value,) = self.operand(node, copy, True)
            total = total + scaled(value, self.product(factor, access.width))
        return self.let(total)

    def _each(self, addresses: Expr) -> list[Expr]:
        return [self.let(i32x4.extract_lane(addresses, lane=lane)) for lane in range(LANES)]

    # ---- loads

    def load(self, number: int, copy: int) -> Vector:
        """The element of a load, or the elements."""
        access, _ = self.graph.places[number]
        pointer, offset, stride, terms = self._place(number, copy)
        if not self.is_vector(number):
            return (values.load(self, access.kind, pointer, offset),)
        if terms:
            addresses = self._computed(access, pointer, stride, terms, copy)
            if any(self.graph.is_data(node) for node, _ in terms):
                return vectors.gather(self, access.kind, self._each(addresses), offset)
            return self._neighbours(access, addresses, offset)
        if stride == 1:
            return vectors.load(self, access.kind, pointer, offset)
        if isinstance(stride, int) and is_shuffled(access, stride):
            return load_strided(self, access.kind, pointer, stride, offset)
        return vectors.gather(self, access.kind, self._regular(access, pointer, stride), offset)

    def _neighbours(self, access: Access, addresses: Expr, offset: int) -> Vector:
        """Elements at computed places, which often turn out to be next to each other."""
        each = self._each(addresses)
        next_to = i32x4.splat(each[0]) + self.ramp(1, access.width)
        results = tuple(self.f.local(part) for part in vectors.types(access.kind))
        with self.f.if_(i32x4.all_true(addresses == next_to)):
            self.assign(results, vectors.load(self, access.kind, each[0], offset))
        with self.f.else_():
            self.assign(results, vectors.gather(self, access.kind, each, offset))
        return results

    def is_transposed(self, node: int) -> bool:
        """Whether `load_transposed` can load a node."""
        lanes, across = self.lanes, self.strategy.across
        if lanes is None or across is None or self.graph.nodes[node][0] != "load":
            return False
        return is_transposed(self.graph, node, lanes, across)

    def load_transposed(self, number: int) -> None:
        """Load all copies of what is contiguous along their axis, of which there are as many as lanes."""
        access, _ = self.graph.places[number]
        pointer, offset, stride, _ = self._place(number, 0)
        rows = self._regular(access, pointer, stride)
        loaded = [vectors.let(self, vectors.load(self, access.kind, row, offset)) for row in rows]
        self.nodes[number] = {copy: vectors.let(self, x) for copy, x in enumerate(transpose(loaded))}

    # ---- stores

    def store(self, copies: Copies = (0,)) -> None:
        """Store what the kernel stores, which is computed."""
        for number, (_, _, node) in zip(self.graph.stores, self.graph.kernel.stores, strict=True):
            access, _ = self.graph.places[number]
            spread = self.spread in access.axes or any(self.is_spread(term) for term, _ in access.extra)
            places = copies if spread else (0,)
            if self.is_packed(number, len(places)):
                pointer, offset, _, _ = self._place(number, places[0])
                stored = [self.operand(node, copy, True) for copy in places]
                vectors.store_together(self.f, self, access.kind, pointer, stored, offset)
                continue
            for copy in places:
                self._store(number, node, copy)

    def is_packed(self, number: int, copies: int) -> bool:
        """Whether so many copies of a store fill a v128: they are elements of fewer than 32 bits, side by side."""
        access, _ = self.graph.places[number]
        side_by_side = self.strategy.across is None and self.lanes is not None and access.axes.get(self.lanes) == 1
        return side_by_side and not access.extra and 1 < copies == 32 // access.kind.bits

    def _store(self, number: int, node: int, copy: int) -> None:
        access, _ = self.graph.places[number]
        pointer, offset, stride, terms = self._place(number, copy)
        if stride == 0 and not terms:
            self._store_scalar(access.kind, pointer, offset, *self.operand(node, copy, False))
        elif stride == 1 and not terms:
            vectors.store(self.f, self, access.kind, pointer, self.operand(node, copy, True), offset)
        else:
            value = vectors.let(self, self.operand(node, copy, True))
            if terms:
                each = self._each(self._computed(access, pointer, stride, terms, copy))
            else:
                each = self._regular(access, pointer, stride)
            for lane, address in enumerate(each):
                self._store_scalar(access.kind, address, offset, vectors.lane(self, access.kind, value, lane))

    def _store_scalar(self, k: Kind, address: Expr, offset: int, value: Expr) -> None:
        bits = values.to_bits(self, k, value) if k.is_half else value
        self.f.store(address, bits, bits=k.bits if k.bits < 32 else None, offset=offset)


def scaled(x: Expr, factor: Operand) -> Any:
    """An i32x4 times an i32."""
    if not isinstance(factor, int):
        return x * i32x4.splat(factor)
    if factor > 0 and factor & (factor - 1) == 0:
        return i32x4.shl(x, factor.bit_length() - 1) if factor > 1 else x
    return x * factor
