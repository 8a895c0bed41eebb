"""Reads PNG files with zlib and NumPy alone, for machines without Pillow."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sardonyx.common import extras

SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""Samples per pixel by colour type: grey, RGB, palette, grey with alpha, RGB with alpha."""
GREY, PALETTE = 0, 3


def decode(data: bytes) -> NDArray[np.uint8]:
    """The pixels of a PNG, uint8 [height, width, channels]: grey, grey and alpha, RGB or RGBA (PNG, third edition).

    A palette becomes RGB, or RGBA where it has transparency; 16 bits keep the upper 8. Raises ValueError for what is
    no PNG, is damaged, is interlaced, or marks one colour as transparent.
    """
    try:
        return _decode(data)
    except KeyError as error:
        raise ValueError(f"the PNG is damaged: there is no {error}") from error
    except (zlib.error, IndexError) as error:
        raise ValueError(f"the PNG is damaged: {error}") from error


def _decode(data: bytes) -> NDArray[np.uint8]:
    chunks: dict[bytes, bytes] = {}
    for kind, content in _chunks(data):
        chunks[kind] = chunks.get(kind, b"") + content
    header = chunks[b"IHDR"].ljust(13, b"\0")
    width, height = (int.from_bytes(header[k : k + 4], "big") for k in (0, 4))
    depth, color, _, _, interlaced = header[8:13]
    if interlaced or (b"tRNS" in chunks and color != PALETTE):
        raise ValueError(
            f"interlaced PNGs, and those with a transparent colour, need Pillow: {extras.install('pillow')}"
        )
    bits = depth * CHANNELS[color]
    row = -(-width * bits // 8)
    size = height * (row + 1)
    raw = np.frombuffer(zlib.decompressobj().decompress(chunks[b"IDAT"], size + 1), np.uint8)  # to zlib's checksum
    if not width * height or raw.size != size:
        raise ValueError(f"the PNG is damaged: {raw.size} bytes of pixels, not {size}")
    raw = raw.reshape(height, row + 1)
    step = max(bits // 8, 1)
    lines = _unfilter(raw[:, 0], raw[:, 1:].reshape(height, row // step, step)).reshape(height, row)
    if depth == 16:
        lines = lines[:, ::2]
    elif depth < 8:
        digits = np.unpackbits(lines, axis=1).reshape(height, -1, depth)[:, :width]
        lines = np.packbits(digits, axis=2)[:, :, 0] >> np.uint8(8 - depth)
        if color == GREY:
            lines *= np.uint8(255 // (2**depth - 1))
    if color != PALETTE:
        return lines.reshape(height, width, CHANNELS[color])
    table = np.frombuffer(chunks[b"PLTE"], np.uint8).reshape(-1, 3)
    if b"tRNS" in chunks:
        alpha = np.frombuffer(chunks[b"tRNS"].ljust(len(table), b"\xff"), np.uint8)
        table = np.column_stack([table, alpha[: len(table)]])
    pixels: NDArray[np.uint8] = table[lines]
    return pixels


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    if not data.startswith(SIGNATURE):
        raise ValueError("this is no PNG")
    position = len(SIGNATURE)
    while position + 12 <= len(data):
        size = int.from_bytes(data[position : position + 4], "big")
        yield data[position + 4 : position + 8], data[position + 8 : position + 8 + size]
        position += size + 12


def _unfilter(kinds: NDArray[np.uint8], lines: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Undo the filters, one per row (section 9 of the standard); `lines` is [height, pixels, bytes].

    A byte depends on those to the left, above and above left, so one diagonal of the picture is done at a time.
    """
    if not kinds.any():
        return lines
    if kinds.max() > 4:
        raise ValueError(f"the PNG is damaged: there is no filter {kinds.max()}")
    height, width, step = lines.shape
    known = np.zeros((height + 1, width + 1, step), np.int16)
    for diagonal in range(height + width - 1):
        rows = np.arange(max(0, diagonal - width + 1), min(height, diagonal + 1))
        columns = diagonal - rows
        left, above, corner = known[rows + 1, columns], known[rows, columns + 1], known[rows, columns]
        base = left + above - corner
        to_left, to_above, to_corner = (abs(base - item) for item in (left, above, corner))
        nearest = np.where((to_left <= to_above) & (to_left <= to_corner), left, above)
        nearest = np.where((to_corner < to_left) & (to_corner < to_above), corner, nearest)
        guess = np.choose(kinds[rows, None], [0, left, above, (left + above) // 2, nearest])
        known[rows + 1, columns + 1] = (lines[rows, columns] + guess) & 255
    return known[1:, 1:].astype(np.uint8)
