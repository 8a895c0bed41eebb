"""This package as a wheel again, made from the files that are imported here: those of a wheel, or of a checkout."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path

from sardonyx import demo, ops
from sardonyx.errors import NoSuchFile
from sardonyx.web import scripts
from sardonyx.web.bytecode import REST, recorded, zipped

PACKAGES = ("sardonyx", "sardonyx_wasm", "sardonyx_webgpu")
METADATA = ("METADATA", "WHEEL", "entry_points.txt", "licenses/LICENSE")
TAG = "py3-none-any"


def wheel(tag: str = TAG) -> tuple[str, bytes]:
    """The name and the bytes of the wheel; one with another tag has what modules without sources need.

    Raises NoSuchFile where pip knows of no sardonyx.
    """
    try:
        installed = distribution("sardonyx")
    except PackageNotFoundError:
        raise NoSuchFile("pip knows of no sardonyx here, so its wheel cannot be made; install it") from None
    stem = f"sardonyx-{installed.version}"
    files = dict(sorted(_sources()))
    texts = {name: installed.read_text(name) for name in METADATA}
    if tag != TAG:
        texts["WHEEL"] = (texts["WHEEL"] or "").replace(TAG, tag)
        files[REST] = b"{}"
        files[f"{ops.__name__.replace('.', '/')}/{ops.INDEX}"] = json.dumps(
            ops.families(), separators=(",", ":")
        ).encode()
    files |= {f"{stem}.dist-info/{name}": text.encode() for name, text in texts.items() if text}
    files[f"{stem}.dist-info/RECORD"] = b""
    return f"{stem}-{tag}.whl", zipped(recorded(files))


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
