"""A folder served to pages while they are developed: models are compiled when a page asks for their bundles.

`net.onnx.sdx` is made of `net.onnx` the first time, and again after the model has changed; it lies in a temporary
folder. A bundle in the folder that is newer than its model is served as it is. The index of all models,
`sardonyx.json`, and the page runtime, `sardonyx/`, are there even if the folder has none.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import threading
import time
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sardonyx.cli.site import ENDING, INDEX, bundle_parts
from sardonyx.common.units import nbytes
from sardonyx.errors import Fail, SardonyxError
from sardonyx.web.linking import served

HEADERS = {
    # these three let pages have shared memory, and so threads
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
TYPES = {
    ".css": "text/css",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript",
    ".json": "application/json",
    ".mjs": "text/javascript",
    ".onnx": "application/octet-stream",
    ".sdx": "application/octet-stream",
    ".svg": "image/svg+xml",
    ".wasm": "application/wasm",
}
"""The system's own table may be wrong, and browsers refuse modules of that type."""
MODEL = ".onnx"


class Server(ThreadingHTTPServer):
    """Serves a folder on this machine, at `address`; `args` are those of the command."""

    def __init__(self, folder: Path, args: argparse.Namespace, targets: list[str], sizes: dict[str, str]) -> None:
        self._scratch = tempfile.TemporaryDirectory()
        try:
            super().__init__(("127.0.0.1", args.port), _Handler)
        except OSError as error:
            raise Fail(f"--port {args.port}: {error.strerror}; take another one, 0 for any that is free") from error
        self.folder = folder.resolve()
        self.address = f"http://127.0.0.1:{self.server_port}/"
        self.made: dict[Path, tuple[int, Path | SardonyxError]] = {}
        self._how = targets, sizes, args
        self._alone = threading.Lock()
        for path, script in served().items():
            own = Path(self._scratch.name) / "sardonyx" / path
            own.parent.mkdir(parents=True, exist_ok=True)
            own.write_bytes(script)

    def server_close(self) -> None:
        super().server_close()
        self._scratch.cleanup()

    def find(self, path: str) -> Path:
        """The file at a path, which may not be there; a bundle is made if need be.

        Raises SardonyxError where a model cannot be compiled.
        """
        file = self.folder / path
        if not file.resolve().is_relative_to(self.folder):
            return self.folder / "outside"
        if path == INDEX and not file.is_file():
            return self._index()
        if path.endswith(MODEL + ENDING):
            return self._bundle(file)
        own = Path(self._scratch.name) / path
        return own if path.startswith("sardonyx/") and not file.exists() and own.is_file() else file

    def _bundle(self, file: Path) -> Path:
        model = file.with_name(file.name.removesuffix(ENDING))
        if not model.is_file() or (file.is_file() and file.stat().st_mtime_ns >= model.stat().st_mtime_ns):
            return file
        with self._alone:
            changed = model.stat().st_mtime_ns
            before, made = self.made.get(model, (0, None))
            if made is None or before != changed:
                made = self._compiled(model)
                self.made[model] = changed, made
        if isinstance(made, SardonyxError):
            raise made
        return made

    def _compiled(self, model: Path) -> Path | SardonyxError:
        name = model.relative_to(self.folder).as_posix()
        start = time.monotonic()
        target = Path(self._scratch.name) / f"{len(self.made)}{ENDING}"
        try:
            with target.open("wb") as file:
                file.writelines(bundle_parts(model, *self._how))
        except SardonyxError as error:
            print(f"{name} cannot be compiled: {error}", file=sys.stderr, flush=True)
            return error
        print(f"{name}: {nbytes(target.stat().st_size)}, compiled in {time.monotonic() - start:.1f} s", flush=True)
        return target

    def _index(self) -> Path:
        bundles = {}
        for model in sorted(self.folder.rglob(f"*{MODEL}")):
            with model.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            bundles[digest] = model.relative_to(self.folder).as_posix() + ENDING
        index = Path(self._scratch.name) / INDEX
        index.write_text(json.dumps({"bundles": bundles}))
        return index


class _Handler(SimpleHTTPRequestHandler):
    server: Server
    extensions_map = TYPES

    def __init__(self, request: object, address: object, server: Server) -> None:
        super().__init__(request, address, server, directory=str(server.folder))  # type: ignore[arg-type]

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path).strip("/")
        try:
            self.found = str(self.server.find(path))
        except SardonyxError as error:
            self.send_error(500, " ".join(str(error).split()).encode("ascii", "replace").decode())
        else:
            super().do_GET()

    def translate_path(self, path: str) -> str:
        return self.found + "/" * path.split("?")[0].endswith("/")

    def end_headers(self) -> None:
        for name, value in HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing: what was compiled is printed."""
