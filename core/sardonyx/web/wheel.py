"""This package as a wheel again, made from the files that are imported here: those of a wheel, or of a checkout."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from sardonyx import demo
from sardonyx.errors import NoSuchFile
from sardonyx.web import scripts

PACKAGES = ("sardonyx", "sardonyx_wasm", "sardonyx_webgpu")
METADATA = ("METADATA", "WHEEL", "entry_points.txt", "licenses/LICENSE")
EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of all files: the same files make the same bytes."""


def wheel() -> tuple[str, bytes]:
    """The name and the bytes of the wheel. Raises NoSuchFile where pip knows of no sardonyx."""
    try:
        installed = distribution("sardonyx")
    except PackageNotFoundError:
        raise NoSuchFile("pip knows of no sardonyx here, so its wheel cannot be made; install it") from None
    stem = f"sardonyx-{installed.version}"
    files = dict(sorted(_sources()))
    texts = ((name, installed.read_text(name)) for name in METADATA)
    files |= {f"{stem}.dist-info/{name}": text.encode() for name, text in texts if text}
    record = f"{stem}.dist-info/RECORD"
    lines = [f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in files.items()]
    files[record] = "".join((*lines, f"{record},,\n")).encode()
    return f"{stem}-py3-none-any.whl", _zipped(files)


def _sources() -> Iterator[tuple[str, bytes]]:
    for package in PACKAGES:
        spec = find_spec(package)
        for folder in spec.submodule_search_locations or () if spec else ():
            yield from _below(Path(folder), package)
    yield "sardonyx/demo/digits.onnx", (demo.assets() / demo.MODEL).read_bytes()
    yield from _below(demo.assets() / "images", "sardonyx/demo/images")
    yield from _below(scripts(), "sardonyx/web/scripts")


def _below(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    for item in folder.iterdir():
        path = f"{name}/{item.name}"
        if item.is_file():
            if not item.name.endswith(".md"):  # nor does the wheel that is built have prose
                yield path, item.read_bytes()
        elif item.name != "__pycache__" and not item.name.startswith("."):
            yield from _below(item, path)


def _digest(data: bytes) -> str:
    return urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _zipped(files: dict[str, bytes]) -> bytes:
    output = BytesIO()
    with ZipFile(output, "w", ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in files.items():
            info = ZipInfo(name, EPOCH)
            info.compress_type, info.external_attr = ZIP_DEFLATED, 0o644 << 16
            archive.writestr(info, data)
    return output.getvalue()
