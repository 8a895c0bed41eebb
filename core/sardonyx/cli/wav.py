"""Sound: WAV files as arrays, laid out as an input wants them, and back."""

from __future__ import annotations

import io
import struct
import wave
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sardonyx.common.dtypes import DType
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir.types import DimLike

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
MOST_CHANNELS = 16
"""An axis that is longer holds time."""


def decode(data: bytes) -> tuple[NDArray[np.float32], int]:
    """The samples of a WAV file, [frame, channel] in -1..1, and its rate; ValueError for what is none.

    PCM of 8, 16, 24 and 32 bits, and floats: the standard library's `wave` has no floats.
    """
    chunks = _chunks(data)
    if not {b"fmt ", b"data"} <= chunks.keys() or len(chunks[b"fmt "]) < 16:
        raise ValueError("this is no WAV file")
    form, channels, rate, _, _, bits = struct.unpack("<HHIIHH", chunks[b"fmt "][:16])
    if form == EXTENSIBLE and len(chunks[b"fmt "]) >= 26:
        form = int.from_bytes(chunks[b"fmt "][24:26], "little")
    size = bits // 8
    if (form, bits) not in {(PCM, 8), (PCM, 16), (PCM, 24), (PCM, 32), (FLOAT, 32), (FLOAT, 64)} or not channels:
        raise ValueError(f"WAV of format {form} with {bits} bits is not read; save it as 16-bit PCM")
    content = chunks[b"data"]
    content = content[: len(content) // (size * channels) * size * channels]
    if form == FLOAT:
        samples = np.frombuffer(content, f"<f{size}").astype(np.float32)
    elif bits == 8:
        samples = ((np.frombuffer(content, np.uint8) - 128.0) / 128).astype(np.float32)
    else:
        raw = np.frombuffer(content, np.uint8).reshape(-1, size)
        wide = np.zeros((len(raw), 4), np.uint8)
        wide[:, 4 - size :] = raw
        samples = (wide.view("<i4")[:, 0] / 2.0**31).astype(np.float32)
    return samples.reshape(-1, channels), rate


def _chunks(data: bytes) -> dict[bytes, bytes]:
    """The chunks of a RIFF file; the last one may be cut off, as streams leave it."""
    chunks: dict[bytes, bytes] = {}
    position = 12 if data[:4] == b"RIFF" and data[8:12] == b"WAVE" else len(data)
    while position + 8 <= len(data):
        name, size = data[position : position + 4], int.from_bytes(data[position + 4 : position + 8], "little")
        chunks.setdefault(name, data[position + 8 : position + 8 + size])
        position += 8 + size + size % 2
    return chunks


def encode(samples: np.ndarray, rate: int) -> bytes:
    """A WAV file of 16 bits from samples [frame, channel]: floats in -1..1, or int16."""
    if samples.dtype != np.int16:
        samples = np.rint(np.clip(np.nan_to_num(samples.astype(np.float64)), -1, 1) * 32767).astype(np.int16)
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setnchannels(samples.shape[1])
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.astype("<i2").tobytes())
    return stream.getvalue()


def as_input(
    samples: NDArray[np.float32], name: str, dtype: DType, shape: Sequence[DimLike], notes: list[str]
) -> np.ndarray:
    """Samples as an input [N], [C, N], [N, C] or one of these in a batch; they are mixed to one channel for others.

    An input of a fixed length gets silence at the end, or the beginning of the sound; `notes` says so.
    """
    if not 1 <= len(shape) <= 3 or not (dtype.is_float or dtype.name in ("int16", "int32")):
        raise InvalidArgument(
            f"input {name!r} is not shaped like sound ([N], [C, N], [N, C], batched); give a .npy file"
        )
    inner = list(shape)[-2:] if len(shape) > 1 else [1, *shape]
    last = len(shape) > 1 and isinstance(inner[1], int) and inner[1] <= MOST_CHANNELS  # [N, C]
    channels, length = inner if not last else inner[::-1]
    if len(shape) == 3 and shape[0] not in (1, None) and not isinstance(shape[0], str):
        raise InvalidArgument(f"input {name!r} wants {shape[0]} sounds at once; give a .npy file")
    if not isinstance(channels, int) or channels != samples.shape[1]:
        samples = samples.mean(axis=1, keepdims=True)
        samples = samples.repeat(channels if isinstance(channels, int) else 1, axis=1)
    if isinstance(length, int) and length != len(samples):
        what = "followed by silence" if length > len(samples) else "cut off"
        notes.append(f"{name}: the sound has {len(samples):,} samples, and is {what} to {length:,}")
        samples = np.pad(samples[:length], ((0, max(length - len(samples), 0)), (0, 0)))
    if dtype.is_int:
        samples = np.clip(samples * 32768.0, -32768, 32767)
    ordered = samples if last else samples.T
    return np.ascontiguousarray(
        ordered.reshape([1] * (len(shape) - 2) + list(ordered.shape)) if len(shape) > 1 else ordered[0]
    ).astype(dtype.storage)


def of_output(name: str, array: np.ndarray) -> np.ndarray:
    """An output as samples [frame, channel]."""
    inner = array.reshape([size for axis, size in enumerate(array.shape) if size != 1 or axis >= array.ndim - 1])
    if inner.ndim == 1 or array.size == 1:
        return inner.reshape(-1, 1)
    if inner.ndim != 2 or min(inner.shape) > MOST_CHANNELS or array.dtype.kind not in "fi":
        raise InvalidArgument(f"output {name!r} {list(array.shape)} is not shaped like sound; write a .npy file")
    return inner if inner.shape[1] <= MOST_CHANNELS else inner.T
