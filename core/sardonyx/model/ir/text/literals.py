"""Tensors in the text form: `float32[2] {1.0, 2.0}`, or a hash where there are too many elements to print."""

from __future__ import annotations

import hashlib
import math
import re

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.errors import InvalidGraph
from sardonyx.model.ir.model import Tensor
from sardonyx.model.ir.text.scanner import IDENTIFIER, NUMBER, Scanner, quote

_HASH = re.compile(r"[0-9a-f]{8}")
_WORDS = {"true": "1", "false": "0"}
_NUMBERS = re.compile(r"[^{}\"#]*")


def format_elements(tensor: Tensor, limit: int | None) -> str:
    """The elements in braces: all of them, or the hash of their bytes where they are more than `limit`."""
    if limit is not None and tensor.size > limit:
        array = tensor.array()
        data = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
        return f"{{... {hashlib.blake2b(data, digest_size=4).hexdigest()}}}"
    flat = tensor.array().reshape(-1)
    if tensor.dtype is dtypes.string:
        words = [quote(each) if isinstance(each, str) else repr(each) for each in flat.tolist()]
    elif tensor.dtype.kind == "complex":
        words = [str(part) for part in flat.view(f"f{tensor.dtype.itemsize // 2}")]
    elif tensor.dtype is dtypes.bool_:
        words = [str(int(each)) for each in flat]
    else:
        words = [str(each) for each in flat]
    return f"{{{', '.join(words)}}}"


def parse_elements(scanner: Scanner, dtype: DType, shape: tuple[int, ...]) -> Tensor:
    """The tensor whose elements follow, in braces, or bare where it is one."""
    if scanner.at("{"):
        start = scanner.pos
        scanner.expect("{")
        if scanner.take("..."):
            scanner.match(_HASH) or scanner.fail("expected a hash")
            scanner.expect("}")
            return Tensor(dtype, shape, _left_out)
        flat = _strings(scanner) if dtype is dtypes.string else _numbers(scanner, dtype, None)
        scanner.expect("}")
    else:
        start = scanner.pos
        flat = _strings(scanner, 1) if dtype is dtypes.string else _numbers(scanner, dtype, NUMBER)
    if len(flat) != math.prod(shape):
        scanner.fail(f"{len(flat)} elements stand here, the shape {list(shape)} has {math.prod(shape)}", start)
    return Tensor.of(flat.reshape(shape), dtype)


def _left_out() -> np.ndarray:
    raise InvalidGraph(
        "the elements of this tensor were left out of the text; format_model(..., limit=None) prints all"
    )


def _strings(scanner: Scanner, count: int = -1) -> np.ndarray:
    texts: list[str | bytes] = []
    while len(texts) != count and not scanner.at("}"):
        text = scanner.string_or_bytes()
        if text is None:
            scanner.fail("expected a string")
        texts.append(text)
        if not scanner.take(","):
            break
    flat = np.empty(len(texts), object)
    flat[:] = texts
    return flat


def _numbers(scanner: Scanner, dtype: DType, one: re.Pattern[str] | None) -> np.ndarray:
    start = scanner.pos
    text = scanner.match(one or _NUMBERS) or (scanner.match(IDENTIFIER) if one else "") or ""
    words = [_WORDS.get(word.strip(), word) for word in text.split(",")] if text.strip() else []
    if words and not words[-1].strip():
        words.pop()
    floating = dtype.is_native and dtype.kind in ("float", "complex")
    try:
        if floating:
            parts = np.array([float(word) for word in words], np.float64)
            with np.errstate(over="ignore"):
                if dtype.kind == "complex":
                    return parts.astype(f"f{dtype.itemsize // 2}").view(dtype.storage)
                return parts.astype(dtype.storage)
        values = [int(word) for word in words]
    except ValueError as error:
        scanner.fail(f"these are no elements of {dtype}: {error}", start)
    low, high = _range(dtype)
    wrong = next((value for value in values if not low <= value <= high), None)
    if wrong is not None:
        scanner.fail(f"{wrong} is out of range for {dtype}; use {low}..{high}", start)
    return np.array(values, dtype.storage)


def _range(dtype: DType) -> tuple[int, int]:
    """The numbers that an element may be; small floats are written as their bits."""
    bits = 1 if dtype is dtypes.bool_ else dtype.bits
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.kind == "int" else (0, (1 << bits) - 1)
