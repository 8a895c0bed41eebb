"""Where a model's bytes come from: files mapped into memory, buffers, and the data files that a model names."""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Collection, Mapping
from typing import TypeAlias

from sardonyx.common.mapped import map_file
from sardonyx.errors import Fail, InvalidArgument, InvalidProtobuf, NoSuchFile

BytesLike: TypeAlias = bytes | memoryview | mmap.mmap

_PAGE = "a page of HTML, not an ONNX model; the download gave something else than the file"
STRANGERS: tuple[tuple[int, bytes, str], ...] = (
    (0, b"version https://git-lfs", "a Git LFS pointer, not the model itself; `git lfs pull` fetches the model"),
    (0, b"<!", _PAGE),
    (0, b"<html", _PAGE),
    (0, b"<?xml", "an XML file, not an ONNX model"),
    (0, b"<", "ONNX's text form; `sardonyx.model.ir.text.parse_model` reads it"),
    (0, b"{", "a JSON file, not an ONNX model"),
    (0, b"PK\x03\x04", "a ZIP archive (PyTorch saves those), not an ONNX model"),
    (0, b"\x1f\x8b", "a gzip archive; unpack it first"),
    (0, b"\x93NUMPY", "a NumPy array, not an ONNX model"),
    (0, b"\x89SDX", "a compiled bundle; InferenceSession and pages run it, but the model itself is needed here"),
    (0, b"\x89HDF", "an HDF5 file (Keras saves those), not an ONNX model"),
    (0, b"GGUF", "a GGUF file, not an ONNX model"),
    (0, b"\x80\x02", "a pickle (older PyTorch saves those), not an ONNX model"),
    (0, b"\x89PNG", "a picture, not an ONNX model"),
    (0, b"%PDF", "a PDF, not an ONNX model"),
    (8, b'{"', "a safetensors file, not an ONNX model"),
    (4, b"TFL3", "a TensorFlow Lite model, not an ONNX model"),
)


def refuse_strangers(data: BytesLike) -> None:
    """Raises InvalidProtobuf where there are no bytes, and where the first of them say that this is something else."""
    if not len(data):
        raise InvalidProtobuf("no bytes at all, so no ONNX model")
    start = bytes(data[:64])
    for offset, magic, what in STRANGERS:
        if start[offset:].lower().startswith(magic.lower()):
            raise InvalidProtobuf(f"this is {what}")


def stranger(data: BytesLike) -> str:
    """The end of an error message, for bytes that are no model: what they may be instead, or ""."""
    start = bytes(data[:256]).decode("utf-8-sig", "ignore")
    if start and all(letter.isprintable() or letter in "\t\r\n" for letter in start):
        return f"; it is a text that begins with {start[:40]!r}"
    return ""


def open_file(path: str | os.PathLike[str]) -> BytesLike:
    """The bytes of a file, mapped where the system can do that; NoSuchFile names the path."""
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):  # opening a pipe would wait
        raise NoSuchFile(f"{os.fspath(path)} is a pipe or a device, not a file; read it, and give its bytes")
    try:
        with open(path, "rb") as file:
            if sys.platform != "emscripten":  # there a mapping is a copy
                try:
                    return map_file(file, path)
                except (ValueError, OSError):  # an empty file, or one that cannot be mapped
                    pass
            return file.read()
    except FileNotFoundError:
        if "://" in str(path):
            raise NoSuchFile(f"{path} is an address: await InferenceSession.from_url({str(path)!r})") from None
        raise NoSuchFile(f"{os.fspath(path)} does not exist") from None
    except IsADirectoryError:
        raise NoSuchFile(f"{os.fspath(path)} is a folder; name the .onnx file in it") from None
    except (OSError, ValueError) as error:
        raise Fail(f"{os.fspath(path)} cannot be read: {error}") from error


class DataFiles:
    """The files beside a model that hold its external data: given in memory, or found in the model's folder.

    `opened` are those that were used so far, by location, and `model` the bytes of the model's own file. The data of
    tensors named in `replaced` are not looked for.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        files: Mapping[str, BytesLike] | None = None,
        replaced: Collection[str] = (),
    ) -> None:
        self._path = None if path is None else os.fspath(path)
        self.opened: dict[str, BytesLike] = dict(files or {})
        self.replaced = replaced
        self.model: BytesLike | None = None

    def view(self, location: str, offset: int, length: int) -> memoryview:
        """`length` bytes of a file; ValueError says which are missing, or why the file is out of bounds."""
        if location not in self.opened:
            self.opened[location] = open_file(self.find(location))
        view = memoryview(self.opened[location]).cast("B")
        if offset < 0 or offset + length > len(view):
            raise ValueError(
                f"bytes {offset} to {offset + length} of '{location}' are asked for, which has {len(view)} bytes"
            )
        return view[offset : offset + length]

    def find(self, location: str) -> str:
        """The path of a file in the model's folder; ValueError if it lies elsewhere, NoSuchFile if it is not there."""
        parts = [part for part in location.split("/") if part not in ("", ".")]
        outside = location.startswith("/") or ".." in parts or location[1:2] == ":" or "\\" in location
        if outside or not parts or "\0" in location:
            raise ValueError(f"external data must lie in the model's folder; '{location}' does not")
        if self._path is None:
            raise InvalidArgument(
                f"the model's data lies in '{location}'; read it by its path, or give folder= or files=, which a "
                "session has as session.model_external_initializers_file_folder_path"
            )
        folder = self._path if os.path.isdir(self._path) else os.path.dirname(self._path)
        path = os.path.join(folder, *parts)
        # Caches keep the files elsewhere under links, the model's own among them: its true folder is as good.
        homes = {os.path.realpath(folder), os.path.dirname(os.path.realpath(self._path))}
        real = os.path.realpath(path)
        if not any(os.path.commonpath((home, real)) == home for home in homes if self._same_drive(home, real)):
            raise ValueError(f"external data must lie in the model's folder; '{location}' is a link to {real}")
        if not os.path.isfile(real):
            fault = "is a folder, a pipe or a device, not a file" if os.path.exists(real) else "does not exist"
            raise NoSuchFile(f"the model's data file {path} {fault}")
        return real

    @staticmethod
    def _same_drive(one: str, other: str) -> bool:
        return os.path.splitdrive(one)[0] == os.path.splitdrive(other)[0]
