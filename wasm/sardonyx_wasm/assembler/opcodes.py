"""The instruction set of WebAssembly as data, and how its parts become bytes.

`INSTRUCTIONS` maps a mnemonic to its encoding, operand types, result type and immediates: the MVP's numeric and memory
instructions, sign extension, saturating conversions, bulk memory, SIMD, relaxed SIMD, threads. Structured control,
calls, variables and constants have syntax of their own: `function` spells them with the bytes in `CONTROL`.

Opcodes: https://webassembly.github.io/spec/core/appendix/index-instructions.html, and
https://github.com/WebAssembly/threads/blob/main/proposals/threads/Overview.md for the atomics.

>>> INSTRUCTIONS["f32x4.relaxed_madd"].code.hex(), INSTRUCTIONS["i32.load16_u"].width
('fd8502', 2)
"""

from __future__ import annotations

import functools
import operator
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sardonyx.common.record import record


class Lanes(NamedTuple):
    """What a value type holds: `lanes` numbers of `bits` bits, integers ("i"), floats ("f") or unknown ("")."""

    code: int
    kind: str
    bits: int
    lanes: int


V128 = 0x7B  # the binary format's one vector type; here its operands are told apart by their lanes
VALUE_TYPES = {
    "i32": Lanes(0x7F, "i", 32, 1),
    "i64": Lanes(0x7E, "i", 64, 1),
    "f32": Lanes(0x7D, "f", 32, 1),
    "f64": Lanes(0x7C, "f", 64, 1),
    "v128": Lanes(V128, "", 128, 1),
    "i8x16": Lanes(V128, "i", 8, 16),
    "i16x8": Lanes(V128, "i", 16, 8),
    "i32x4": Lanes(V128, "i", 32, 4),
    "i64x2": Lanes(V128, "i", 64, 2),
    "f32x4": Lanes(V128, "f", 32, 4),
    "f64x2": Lanes(V128, "f", 64, 2),
    "void": Lanes(0x40, "", 0, 0),  # the block type of what leaves nothing on the stack
}

CONTROL = {
    "unreachable": b"\x00",
    "block": b"\x02",
    "loop": b"\x03",
    "if": b"\x04",
    "else": b"\x05",
    "end": b"\x0b",
    "br": b"\x0c",
    "br_if": b"\x0d",
    "br_table": b"\x0e",
    "return": b"\x0f",
    "call": b"\x10",
    "call_indirect": b"\x11",
    "drop": b"\x1a",
    "select": b"\x1b",
    "local.get": b"\x20",
    "local.set": b"\x21",
    "local.tee": b"\x22",
    "global.get": b"\x23",
    "global.set": b"\x24",
    "i32.const": b"\x41",
    "i64.const": b"\x42",
    "f32.const": b"\x43",
    "f64.const": b"\x44",
    "v128.const": b"\xfd\x0c",
}


@record(frozen=True)
class Instruction:
    """One instruction: operands are pushed left to right; `width` is the natural alignment of a memory access."""

    name: str
    code: bytes
    operands: tuple[str, ...]
    result: str
    immediates: tuple[str, ...]
    width: int


# Rows: prefix of the names, first opcode, "operands -> result" ("T" is the prefix), names in the order of the opcodes
# ("-" skips one), immediates.
_Row = tuple[str, int, str, str, str]

_COMPARE = "eq ne lt_s lt_u gt_s gt_u le_s le_u ge_s ge_u"
_COMPARE_FLOAT = "eq ne lt gt le ge"
_INTEGER = "add sub mul div_s div_u rem_s rem_u and or xor shl shr_s shr_u rotl rotr"
_FLOAT = "add sub mul div min max copysign"
_ROUND = "abs neg ceil floor trunc nearest sqrt"

_PLAIN: list[_Row] = [
    ("i32", 0x28, "i32 -> T", "load", "memory"),
    ("i64", 0x29, "i32 -> T", "load", "memory"),
    ("f32", 0x2A, "i32 -> T", "load", "memory"),
    ("f64", 0x2B, "i32 -> T", "load", "memory"),
    ("i32", 0x2C, "i32 -> T", "load8_s load8_u load16_s load16_u", "memory"),
    ("i64", 0x30, "i32 -> T", "load8_s load8_u load16_s load16_u load32_s load32_u", "memory"),
    ("i32", 0x36, "i32 T", "store", "memory"),
    ("i64", 0x37, "i32 T", "store", "memory"),
    ("f32", 0x38, "i32 T", "store", "memory"),
    ("f64", 0x39, "i32 T", "store", "memory"),
    ("i32", 0x3A, "i32 T", "store8 store16", "memory"),
    ("i64", 0x3C, "i32 T", "store8 store16 store32", "memory"),
    ("memory", 0x3F, "-> i32", "size", "zero"),
    ("memory", 0x40, "i32 -> i32", "grow", "zero"),
    ("i32", 0x45, "T -> i32", "eqz", ""),
    ("i32", 0x46, "T T -> i32", _COMPARE, ""),
    ("i64", 0x50, "T -> i32", "eqz", ""),
    ("i64", 0x51, "T T -> i32", _COMPARE, ""),
    ("f32", 0x5B, "T T -> i32", _COMPARE_FLOAT, ""),
    ("f64", 0x61, "T T -> i32", _COMPARE_FLOAT, ""),
    ("i32", 0x67, "T -> T", "clz ctz popcnt", ""),
    ("i32", 0x6A, "T T -> T", _INTEGER, ""),
    ("i64", 0x79, "T -> T", "clz ctz popcnt", ""),
    ("i64", 0x7C, "T T -> T", _INTEGER, ""),
    ("f32", 0x8B, "T -> T", _ROUND, ""),
    ("f32", 0x92, "T T -> T", _FLOAT, ""),
    ("f64", 0x99, "T -> T", _ROUND, ""),
    ("f64", 0xA0, "T T -> T", _FLOAT, ""),
    ("i32", 0xA7, "i64 -> T", "wrap_i64", ""),
    ("i32", 0xA8, "f32 -> T", "trunc_f32_s trunc_f32_u", ""),
    ("i32", 0xAA, "f64 -> T", "trunc_f64_s trunc_f64_u", ""),
    ("i64", 0xAC, "i32 -> T", "extend_i32_s extend_i32_u", ""),
    ("i64", 0xAE, "f32 -> T", "trunc_f32_s trunc_f32_u", ""),
    ("i64", 0xB0, "f64 -> T", "trunc_f64_s trunc_f64_u", ""),
    ("f32", 0xB2, "i32 -> T", "convert_i32_s convert_i32_u", ""),
    ("f32", 0xB4, "i64 -> T", "convert_i64_s convert_i64_u", ""),
    ("f32", 0xB6, "f64 -> T", "demote_f64", ""),
    ("f64", 0xB7, "i32 -> T", "convert_i32_s convert_i32_u", ""),
    ("f64", 0xB9, "i64 -> T", "convert_i64_s convert_i64_u", ""),
    ("f64", 0xBB, "f32 -> T", "promote_f32", ""),
    ("i32", 0xBC, "f32 -> T", "reinterpret_f32", ""),
    ("i64", 0xBD, "f64 -> T", "reinterpret_f64", ""),
    ("f32", 0xBE, "i32 -> T", "reinterpret_i32", ""),
    ("f64", 0xBF, "i64 -> T", "reinterpret_i64", ""),
    ("i32", 0xC0, "T -> T", "extend8_s extend16_s", ""),
    ("i64", 0xC2, "T -> T", "extend8_s extend16_s extend32_s", ""),
]

_SATURATING_AND_BULK: list[_Row] = [
    ("i32", 0x00, "f32 -> T", "trunc_sat_f32_s trunc_sat_f32_u", ""),
    ("i32", 0x02, "f64 -> T", "trunc_sat_f64_s trunc_sat_f64_u", ""),
    ("i64", 0x04, "f32 -> T", "trunc_sat_f32_s trunc_sat_f32_u", ""),
    ("i64", 0x06, "f64 -> T", "trunc_sat_f64_s trunc_sat_f64_u", ""),
    ("memory", 0x08, "i32 i32 i32", "init", "index zero"),
    ("data", 0x09, "", "drop", "index"),
    ("memory", 0x0A, "i32 i32 i32", "copy", "zero zero"),
    ("memory", 0x0B, "i32 i32 i32", "fill", "zero"),
    ("table", 0x0C, "i32 i32 i32", "init", "index zero"),
    ("elem", 0x0D, "", "drop", "index"),
    ("table", 0x0E, "i32 i32 i32", "copy", "zero zero"),
]

_SIMD: list[_Row] = [
    ("v128", 0x00, "i32 -> T", "load", "memory"),
    ("v128", 0x01, "i32 -> T", "load8x8_s load8x8_u load16x4_s load16x4_u load32x2_s load32x2_u", "memory"),
    ("v128", 0x07, "i32 -> T", "load8_splat load16_splat load32_splat load64_splat", "memory"),
    ("v128", 0x0B, "i32 T", "store", "memory"),
    ("i8x16", 0x0D, "T T -> T", "shuffle", "lanes"),
    ("i8x16", 0x0E, "T T -> T", "swizzle", ""),
    ("i8x16", 0x0F, "i32 -> T", "splat", ""),
    ("i16x8", 0x10, "i32 -> T", "splat", ""),
    ("i32x4", 0x11, "i32 -> T", "splat", ""),
    ("i64x2", 0x12, "i64 -> T", "splat", ""),
    ("f32x4", 0x13, "f32 -> T", "splat", ""),
    ("f64x2", 0x14, "f64 -> T", "splat", ""),
    ("i8x16", 0x15, "T -> i32", "extract_lane_s extract_lane_u", "lane"),
    ("i8x16", 0x17, "T i32 -> T", "replace_lane", "lane"),
    ("i16x8", 0x18, "T -> i32", "extract_lane_s extract_lane_u", "lane"),
    ("i16x8", 0x1A, "T i32 -> T", "replace_lane", "lane"),
    ("i32x4", 0x1B, "T -> i32", "extract_lane", "lane"),
    ("i32x4", 0x1C, "T i32 -> T", "replace_lane", "lane"),
    ("i64x2", 0x1D, "T -> i64", "extract_lane", "lane"),
    ("i64x2", 0x1E, "T i64 -> T", "replace_lane", "lane"),
    ("f32x4", 0x1F, "T -> f32", "extract_lane", "lane"),
    ("f32x4", 0x20, "T f32 -> T", "replace_lane", "lane"),
    ("f64x2", 0x21, "T -> f64", "extract_lane", "lane"),
    ("f64x2", 0x22, "T f64 -> T", "replace_lane", "lane"),
    ("i8x16", 0x23, "T T -> T", _COMPARE, ""),
    ("i16x8", 0x2D, "T T -> T", _COMPARE, ""),
    ("i32x4", 0x37, "T T -> T", _COMPARE, ""),
    ("f32x4", 0x41, "T T -> i32x4", _COMPARE_FLOAT, ""),
    ("f64x2", 0x47, "T T -> i64x2", _COMPARE_FLOAT, ""),
    ("v128", 0x4D, "T -> T", "not", ""),
    ("v128", 0x4E, "T T -> T", "and andnot or xor", ""),
    ("v128", 0x52, "T T T -> T", "bitselect", ""),
    ("v128", 0x53, "T -> i32", "any_true", ""),
    ("v128", 0x54, "i32 T -> T", "load8_lane load16_lane load32_lane load64_lane", "memory lane"),
    ("v128", 0x58, "i32 T", "store8_lane store16_lane store32_lane store64_lane", "memory lane"),
    ("v128", 0x5C, "i32 -> T", "load32_zero load64_zero", "memory"),
    ("f32x4", 0x5E, "f64x2 -> T", "demote_f64x2_zero", ""),
    ("f64x2", 0x5F, "f32x4 -> T", "promote_low_f32x4", ""),
    ("i8x16", 0x60, "T -> T", "abs neg popcnt", ""),
    ("i8x16", 0x63, "T -> i32", "all_true bitmask", ""),
    ("i8x16", 0x65, "i16x8 i16x8 -> T", "narrow_i16x8_s narrow_i16x8_u", ""),
    ("f32x4", 0x67, "T -> T", "ceil floor trunc nearest", ""),
    ("i8x16", 0x6B, "T i32 -> T", "shl shr_s shr_u", ""),
    ("i8x16", 0x6E, "T T -> T", "add add_sat_s add_sat_u sub sub_sat_s sub_sat_u", ""),
    ("f64x2", 0x74, "T -> T", "ceil floor", ""),
    ("i8x16", 0x76, "T T -> T", "min_s min_u max_s max_u", ""),
    ("f64x2", 0x7A, "T -> T", "trunc", ""),
    ("i8x16", 0x7B, "T T -> T", "avgr_u", ""),
    ("i16x8", 0x7C, "i8x16 -> T", "extadd_pairwise_i8x16_s extadd_pairwise_i8x16_u", ""),
    ("i32x4", 0x7E, "i16x8 -> T", "extadd_pairwise_i16x8_s extadd_pairwise_i16x8_u", ""),
    ("i16x8", 0x80, "T -> T", "abs neg", ""),
    ("i16x8", 0x82, "T T -> T", "q15mulr_sat_s", ""),
    ("i16x8", 0x83, "T -> i32", "all_true bitmask", ""),
    ("i16x8", 0x85, "i32x4 i32x4 -> T", "narrow_i32x4_s narrow_i32x4_u", ""),
    ("i16x8", 0x87, "i8x16 -> T",
     "extend_low_i8x16_s extend_high_i8x16_s extend_low_i8x16_u extend_high_i8x16_u", ""),
    ("i16x8", 0x8B, "T i32 -> T", "shl shr_s shr_u", ""),
    ("i16x8", 0x8E, "T T -> T", "add add_sat_s add_sat_u sub sub_sat_s sub_sat_u", ""),
    ("f64x2", 0x94, "T -> T", "nearest", ""),
    ("i16x8", 0x95, "T T -> T", "mul min_s min_u max_s max_u - avgr_u", ""),
    ("i16x8", 0x9C, "i8x16 i8x16 -> T",
     "extmul_low_i8x16_s extmul_high_i8x16_s extmul_low_i8x16_u extmul_high_i8x16_u", ""),
    ("i32x4", 0xA0, "T -> T", "abs neg", ""),
    ("i32x4", 0xA3, "T -> i32", "all_true bitmask", ""),
    ("i32x4", 0xA7, "i16x8 -> T",
     "extend_low_i16x8_s extend_high_i16x8_s extend_low_i16x8_u extend_high_i16x8_u", ""),
    ("i32x4", 0xAB, "T i32 -> T", "shl shr_s shr_u", ""),
    ("i32x4", 0xAE, "T T -> T", "add - - sub - - - mul min_s min_u max_s max_u", ""),
    ("i32x4", 0xBA, "i16x8 i16x8 -> T", "dot_i16x8_s", ""),
    ("i32x4", 0xBC, "i16x8 i16x8 -> T",
     "extmul_low_i16x8_s extmul_high_i16x8_s extmul_low_i16x8_u extmul_high_i16x8_u", ""),
    ("i64x2", 0xC0, "T -> T", "abs neg", ""),
    ("i64x2", 0xC3, "T -> i32", "all_true bitmask", ""),
    ("i64x2", 0xC7, "i32x4 -> T",
     "extend_low_i32x4_s extend_high_i32x4_s extend_low_i32x4_u extend_high_i32x4_u", ""),
    ("i64x2", 0xCB, "T i32 -> T", "shl shr_s shr_u", ""),
    ("i64x2", 0xCE, "T T -> T", "add - - sub - - - mul eq ne lt_s gt_s le_s ge_s", ""),
    ("i64x2", 0xDC, "i32x4 i32x4 -> T",
     "extmul_low_i32x4_s extmul_high_i32x4_s extmul_low_i32x4_u extmul_high_i32x4_u", ""),
    ("f32x4", 0xE0, "T -> T", "abs neg - sqrt", ""),
    ("f32x4", 0xE4, "T T -> T", "add sub mul div min max pmin pmax", ""),
    ("f64x2", 0xEC, "T -> T", "abs neg - sqrt", ""),
    ("f64x2", 0xF0, "T T -> T", "add sub mul div min max pmin pmax", ""),
    ("i32x4", 0xF8, "f32x4 -> T", "trunc_sat_f32x4_s trunc_sat_f32x4_u", ""),
    ("f32x4", 0xFA, "i32x4 -> T", "convert_i32x4_s convert_i32x4_u", ""),
    ("i32x4", 0xFC, "f64x2 -> T", "trunc_sat_f64x2_s_zero trunc_sat_f64x2_u_zero", ""),
    ("f64x2", 0xFE, "i32x4 -> T", "convert_low_i32x4_s convert_low_i32x4_u", ""),
]  # fmt: skip

_RELAXED_SIMD: list[_Row] = [
    ("i8x16", 0x100, "T T -> T", "relaxed_swizzle", ""),
    ("i32x4", 0x101, "f32x4 -> T", "relaxed_trunc_f32x4_s relaxed_trunc_f32x4_u", ""),
    ("i32x4", 0x103, "f64x2 -> T", "relaxed_trunc_f64x2_s_zero relaxed_trunc_f64x2_u_zero", ""),
    ("f32x4", 0x105, "T T T -> T", "relaxed_madd relaxed_nmadd", ""),
    ("f64x2", 0x107, "T T T -> T", "relaxed_madd relaxed_nmadd", ""),
    ("i8x16", 0x109, "T T T -> T", "relaxed_laneselect", ""),
    ("i16x8", 0x10A, "T T T -> T", "relaxed_laneselect", ""),
    ("i32x4", 0x10B, "T T T -> T", "relaxed_laneselect", ""),
    ("i64x2", 0x10C, "T T T -> T", "relaxed_laneselect", ""),
    ("f32x4", 0x10D, "T T -> T", "relaxed_min relaxed_max", ""),
    ("f64x2", 0x10F, "T T -> T", "relaxed_min relaxed_max", ""),
    ("i16x8", 0x111, "T T -> T", "relaxed_q15mulr_s", ""),
    ("i16x8", 0x112, "i8x16 i8x16 -> T", "relaxed_dot_i8x16_i7x16_s", ""),
    ("i32x4", 0x113, "i8x16 i8x16 i32x4 -> T", "relaxed_dot_i8x16_i7x16_add_s", ""),
]

_ATOMIC: list[_Row] = [
    ("memory", 0x00, "i32 i32 -> i32", "atomic.notify", "memory"),
    ("memory", 0x01, "i32 i32 i64 -> i32", "atomic.wait32", "memory"),
    ("memory", 0x02, "i32 i64 i64 -> i32", "atomic.wait64", "memory"),
    ("atomic", 0x03, "", "fence", "zero"),
    ("i32", 0x10, "i32 -> T", "atomic.load", "memory"),
    ("i64", 0x11, "i32 -> T", "atomic.load", "memory"),
    ("i32", 0x12, "i32 -> T", "atomic.load8_u atomic.load16_u", "memory"),
    ("i64", 0x14, "i32 -> T", "atomic.load8_u atomic.load16_u atomic.load32_u", "memory"),
    ("i32", 0x17, "i32 T", "atomic.store", "memory"),
    ("i64", 0x18, "i32 T", "atomic.store", "memory"),
    ("i32", 0x19, "i32 T", "atomic.store8 atomic.store16", "memory"),
    ("i64", 0x1B, "i32 T", "atomic.store8 atomic.store16 atomic.store32", "memory"),
]
for _first, _what in zip(range(0x1E, 0x4F, 7), ("add", "sub", "and", "or", "xor", "xchg", "cmpxchg")):
    _stack = "i32 T T -> T" if _what == "cmpxchg" else "i32 T -> T"
    _ATOMIC += [
        ("i32", _first, _stack, f"atomic.rmw.{_what}", "memory"),
        ("i64", _first + 1, _stack, f"atomic.rmw.{_what}", "memory"),
        ("i32", _first + 2, _stack, f"atomic.rmw8.{_what}_u atomic.rmw16.{_what}_u", "memory"),
        ("i64", _first + 4, _stack, f"atomic.rmw8.{_what}_u atomic.rmw16.{_what}_u atomic.rmw32.{_what}_u", "memory"),
    ]

_WIDTH = {"i32": 4, "i64": 8, "f32": 4, "f64": 8, "v128": 16, "memory": 4}


def uleb(value: int) -> bytes:
    """`value` >= 0 as unsigned LEB128.

    >>> uleb(624485).hex()
    'e58e26'
    """
    if value < 0x80:
        return bytes((value,))
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def sleb(value: int) -> bytes:
    """`value` as signed LEB128.

    >>> sleb(-123456).hex()
    'c0bb78'
    """
    encoded = bytearray()
    while not -0x40 <= value < 0x40:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value & 0x7F)
    return bytes(encoded)


def vector(items: Iterable[bytes]) -> bytes:
    """Encoded items, preceded by their number."""
    items = list(items)
    return uleb(len(items)) + b"".join(items)


def text(string: str) -> bytes:
    """A name: UTF-8, preceded by the number of its bytes."""
    encoded = string.encode()
    return uleb(len(encoded)) + encoded


def section(number: int, payload: bytes) -> bytes:
    """A section of a module, or a subsection of a custom section."""
    return bytes([number]) + uleb(len(payload)) + payload


def _natural_alignment(prefix: str, name: str) -> int:
    """Bytes touched by one access: load16_u 2, load8x8_s (eight lanes of one byte) 8, plain load the type's width."""
    found = re.search(r"(?:load|store|rmw|wait)(\d+)(x\d+)?", name)
    if found is None:
        return _WIDTH[prefix]
    return 8 if found[2] else int(found[1]) // 8


class Instructions(Mapping[str, Instruction]):
    """All instructions by name, each made when somebody looks: a module uses few of five hundred."""

    def __init__(self, *tables: tuple[list[_Row], bytes]) -> None:
        self._rows: dict[str, list[tuple[_Row, bytes]]] = {}
        for rows, lead in tables:
            for row in rows:
                self._rows.setdefault(row[0], []).append((row, lead))
        self._known: dict[str, Instruction] = {}

    def __getitem__(self, name: str) -> Instruction:
        found = self._known.get(name)
        if found is None:
            prefix, _, own = name.partition(".")
            rows = [(row, lead) for row, lead in self._rows.get(prefix, ()) if own in row[3].split() and own != "-"]
            if not rows:
                raise KeyError(name)
            found = self._known[name] = _instruction(*rows[0], own)
        return found

    def __iter__(self) -> Iterator[str]:
        for prefix, rows in self._rows.items():
            yield from (f"{prefix}.{name}" for row, _ in rows for name in row[3].split() if name != "-")

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _instruction(row: _Row, lead: bytes, name: str) -> Instruction:
    prefix, first, signature, names, immediates = row
    number = first + names.split().index(name)
    operands, _, result = signature.replace("T", prefix).partition("->")
    return Instruction(
        f"{prefix}.{name}",
        lead + (uleb(number) if lead else bytes([number])),
        tuple(operands.split()),
        result.strip() or "void",
        tuple(immediates.split()),
        _natural_alignment(prefix, name) if immediates.startswith("memory") else 0,
    )


INSTRUCTIONS: Mapping[str, Instruction] = Instructions(
    (_PLAIN, b""),
    (_SATURATING_AND_BULK, b"\xfc"),
    (_SIMD + _RELAXED_SIMD, b"\xfd"),
    (_ATOMIC, b"\xfe"),
)


def _lane_bytes(type_name: str, value: float) -> bytes:
    _, kind, bits, _ = VALUE_TYPES[type_name]
    try:
        if kind == "f":
            return struct.pack("<f" if bits == 32 else "<d", value)
        integer = operator.index(value)  # type: ignore[arg-type]
    except OverflowError:
        raise ValueError(f"{value!r} is too large for {type_name}; use math.inf") from None
    except (TypeError, struct.error):
        raise TypeError(f"{value!r} is no constant of type {type_name}") from None
    if not -(1 << bits - 1) <= integer < 1 << bits:
        raise ValueError(f"{integer} does not fit {type_name}")
    return (integer % (1 << bits)).to_bytes(bits // 8, "little")


def bit_pattern(type_name: str, payload: bytes) -> bytes:
    """The instruction that pushes the constant of these little-endian bytes."""
    lanes = VALUE_TYPES[type_name]
    if lanes.code == V128:
        return CONTROL["v128.const"] + payload
    if lanes.kind == "i":
        payload = sleb(int.from_bytes(payload, "little", signed=True))
    return CONTROL[f"{type_name}.const"] + payload


def constant(type_name: str, *values: float) -> bytes:
    """The instruction that pushes a constant; a vector takes one value for all its lanes, or one for each.

    Raises TypeError for what is no number of that kind, ValueError for what does not fit.

    >>> constant("i32", 0xFFFFFFFF).hex(), constant("f32", -0.0).hex()
    ('417f', '4300000080')
    """
    lanes = VALUE_TYPES[type_name]
    if not lanes.kind:
        raise TypeError(f"{type_name} has no constants; use i32x4.const, f32x4.const, ... or v128.bits")
    if len(values) == 1:
        values *= lanes.lanes
    if len(values) != lanes.lanes:
        raise ValueError(f"{type_name}.const takes 1 or {lanes.lanes} values, not {len(values)}")
    return bit_pattern(type_name, b"".join(_lane_bytes(type_name, value) for value in values))


@functools.lru_cache(4096)
def integer(type_name: str, value: int) -> bytes:
    """`constant` for what most constants are, remembered."""
    return constant(type_name, value)


def _memory(instruction: Instruction, offset: int = 0, align: int = 0) -> bytes:
    align = align or instruction.width
    if align.bit_count() != 1 or align > instruction.width:
        raise ValueError(f"{instruction.name}: align={align} is not a power of two up to {instruction.width}")
    if not 0 <= offset < 1 << 32:
        raise ValueError(f"{instruction.name}: offset={offset} is outside 0..4294967295")
    return uleb(align.bit_length() - 1) + uleb(offset)


def _lane(instruction: Instruction, lane: int) -> bytes:
    count = VALUE_TYPES[instruction.name.partition(".")[0]].lanes
    count = 16 // instruction.width if instruction.width else count
    if not 0 <= lane < count:
        raise ValueError(f"{instruction.name}: lane={lane} is outside 0..{count - 1}")
    return bytes([lane])


def _shuffle(instruction: Instruction, lanes: Sequence[int]) -> bytes:
    if len(lanes) != 16 or not all(0 <= lane < 32 for lane in lanes):
        raise ValueError(f"{instruction.name}: lanes={lanes} are not 16 numbers in 0..31")
    return bytes(lanes)


# Kind of immediate -> how it is encoded, the keywords that it needs, those that it may have.
_IMMEDIATES: dict[str, tuple[Callable[..., bytes], tuple[str, ...], tuple[str, ...]]] = {
    "memory": (_memory, (), ("offset", "align")),
    "lane": (_lane, ("lane",), ()),
    "lanes": (_shuffle, ("lanes",), ()),
    "index": (lambda instruction, index: uleb(index), ("index",), ()),
    "zero": (lambda instruction: b"\x00", (), ()),
}


def encode(instruction: Instruction, immediates: Mapping[str, Any]) -> bytes:
    """The instruction with its immediates, in bytes.

    >>> encode(INSTRUCTIONS["f32.load"], {"offset": 300}).hex()
    '2a02ac02'
    """
    code = instruction.code
    unused = dict(immediates)
    for kind in instruction.immediates:
        encoder, needed, optional = _IMMEDIATES[kind]
        if missing := [key for key in needed if key not in unused]:
            raise TypeError(f"{instruction.name} needs {missing[0]}=")
        code += encoder(instruction, **{key: unused.pop(key) for key in needed + optional if key in unused})
    if unused:
        raise TypeError(f"{instruction.name} has no immediate {next(iter(unused))!r}")
    return code
