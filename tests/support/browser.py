"""Pages in headless Chromium, served from this machine, whose workers run Pyodide.

python -m tests.support.browser script.py        runs a script there, and prints what it prints
"""

from __future__ import annotations

import gzip
import re
import shutil
import sys
import textwrap
import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.pyodide.assemble import RUNNER, assemble

from .browsers.chromium import ARGUMENTS
from .wheel import build_wheel

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".svg": "image/svg+xml",
    ".wasm": "application/wasm",
}
PACKED = {".sdx", ".whl", ".zip"}
"""What is compressed in itself."""
ISOLATED = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""What gives pages shared memory, and clocks of 5 us."""


class Site(ThreadingHTTPServer):
    """Files of `folders`, by the first part of an address, and `data`, which may change; `posted` comes back.

    `requests` are the paths that were asked for; `policy` is the Content-Security-Policy of every answer. What did not
    change since its ETag was given is not sent again. `rate` is how many bytes a second all answers share, 0 for no
    limit; `sent` counts those of each path. With `gzip` they are compressed for whoever accepts it, but for what is
    compressed in itself. With `ranges` parts of files are given to who asks for them. A connection breaks after the
    numbers of bytes that `cuts` has for a path, one connection after the other.
    """

    def __init__(self, folders: Mapping[str, Path]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folders = folders
        self.data: dict[str, bytes | Path] = {}
        self.posted: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.policy = ""
        self.rate = 0.0
        self.sent: Counter[str] = Counter()
        self.gzip = False
        self.ranges = False
        self.cuts: dict[str, list[int]] = {}
        self._packed: dict[tuple[int, int], bytes | None] = {}
        self._pacing = threading.Lock()
        self._free = 0.0
        self.address = f"http://127.0.0.1:{self.server_port}"

    def find(self, path: str) -> bytes | Path | None:
        """What lies at `/folder/name`.

        >>> with Site({"here": Path(__file__).parent}) as site:
        ...     site.find("/here/wheel.py").name, site.find("/here/no.py"), site.find("/here/../conftest.py")
        ('wheel.py', None, None)
        """
        folder, _, name = path.strip("/").partition("/")
        if folder == "data":
            return self.data.get(name)
        if folder not in self.folders or ".." in name.split("/"):
            return None
        file = self.folders[folder] / name
        return file if file.is_file() else None

    def pack(self) -> None:
        """Compress everything, so that the first who asks need not wait for it."""
        names = {f"data/{name}" for name in self.data}
        for folder, root in self.folders.items():
            names |= {f"{folder}/{file.relative_to(root)}" for file in root.rglob("*") if file.is_file()}
        for name in names:
            body = self.content(name)
            if body is not None:
                self.packed(name, body)

    def content(self, path: str) -> bytes | None:
        """Return the bytes at `/folder/name`."""
        found = self.find(path)
        return found.read_bytes() if isinstance(found, Path) else found

    def packed(self, path: str, body: bytes) -> bytes | None:
        """Return `body` as gzip has it; None where that is no smaller."""
        if Path(path).suffix in PACKED:
            return None
        key = zlib.crc32(body), len(body)
        if key not in self._packed:
            small = gzip.compress(body, mtime=0)
            self._packed[key] = small if len(small) < len(body) else None
        return self._packed[key]

    def wait(self, nbytes: int) -> None:
        """Return when it is time to send so many bytes more."""
        with self._pacing:
            start = max(self._free, time.monotonic())
            self._free = start + nbytes / self.rate
        time.sleep(max(0.0, start - time.monotonic()))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A page that is closed may leave its requests."""


class _Handler(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.server.requests.append(path)
        body = self.server.content(path)
        if body is None:
            return self._answer(404, b"")
        etag = f'"{zlib.crc32(body):08x}"'
        if self.headers["If-None-Match"] == etag:
            return self._answer(304, b"", etag)
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if wanted and self.server.ranges and self.headers.get("If-Range", etag) == etag:
            start = int(wanted[1])
            return self._answer(206, body[start:], etag, place=f"bytes {start}-{len(body) - 1}/{len(body)}")
        if self.server.gzip and "gzip" in self.headers.get("Accept-Encoding", ""):
            packed = self.server.packed(path, body)
            if packed is not None:
                return self._answer(200, packed, etag, encoding="gzip")
        return self._answer(200, body, etag)

    def do_POST(self) -> None:
        self.server.posted[self.path.strip("/")] = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(204, b"")

    def _answer(self, status: int, body: bytes, etag: str = "", encoding: str = "", place: str = "") -> None:
        self.send_response(status)
        if place:
            self.send_header("Content-Range", place)
        if encoding:
            self.send_header("Content-Encoding", encoding)
        if etag:
            self.send_header("ETag", etag)
        suffix = Path(self.path.partition("?")[0]).suffix
        self.send_header("Content-Type", TYPES.get(suffix, "application/octet-stream"))
        self.send_header("Content-Length", str(len(body)))
        if self.server.policy:
            self.send_header("Content-Security-Policy", self.server.policy)
        for name, value in ISOLATED.items():
            self.send_header(name, value)
        self.end_headers()
        if cuts := self.server.cuts.get(self.path.partition("?")[0]):
            body = body[: cuts.pop(0)]
            self.close_connection = True
        for piece in _pieces(body) if self.server.rate else [body]:
            if self.server.rate:
                self.server.wait(len(piece))
            self.server.sent[self.path.partition("?")[0]] += len(piece)
            self.wfile.write(piece)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing: tests are quiet."""


def _pieces(body: bytes) -> Iterator[bytes]:
    return (body[k : k + _PIECE] for k in range(0, len(body), _PIECE))


_PIECE = 1 << 14


class Chromium:
    """A browser and the site that its pages come from."""

    def __init__(self, browser: Browser, site: Site, wheel: str) -> None:
        self.site = site
        self.wheel = wheel
        self.version = browser.version
        self.browser = browser

    def call(self, script: str, message: Mapping[str, Any], limit: float) -> Any:
        """Return what a worker that runs `script`, an address, in a page of its own answers to `message`.

        Raises:
            TimeoutError: it took longer than `limit` seconds; the message says what it was doing.
            RuntimeError: it failed, or the page did, as one without memory does.
        """
        from playwright.sync_api import Error

        page = self.browser.new_page()
        try:
            page.goto(f"{self.site.address}/support/page.html")
            page.wait_for_function("globalThis.run")
            answer = page.evaluate("(given) => run(...given)", [script, {"wheel": self.wheel, **message}, limit])
        except Error as error:
            raise RuntimeError(f"the page failed: {error.message}") from None
        finally:
            page.close()
        if "late" in answer:
            raise TimeoutError(f"no answer in {limit:g} s: {answer['late']}")
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["result"]

    @contextmanager
    def visitor(self) -> Iterator[BrowserContext]:
        """A browser that has been nowhere yet; its pages share what they keep."""
        with self.browser.new_context(base_url=self.site.address) as context:
            yield context

    def run(
        self, code: str, files: Mapping[str, bytes] | None = None, *, timeout: float = 300, jspi: bool = True
    ) -> str:
        """Run `code` in Pyodide: see `run_in_browser`. Without `jspi`, as in browsers where Python cannot wait."""
        self.site.data.update(files or {})
        message = {"code": textwrap.dedent(code), "files": [*(files or {})], "jspi": jspi}
        return str(self.call("/support/script.mjs", message, timeout))


@contextmanager
def open_chromium(folders: Mapping[str, Path] | None = None) -> Iterator[Chromium]:
    """Start Chromium, and a site with Pyodide, this repository's wheel and `folders`; end both afterwards."""
    from playwright.sync_api import sync_playwright

    wheel = build_wheel()
    known = {"support": RUNNER.parent, "pyodide": assemble(), "wheel": wheel.parent}
    with Site({**known, **(folders or {})}) as site, sync_playwright() as playwright:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        try:
            yield Chromium(browser, site, wheel.name)
        finally:
            browser.close()
            site.shutdown()


def run_in_browser(code: str, files: Mapping[str, bytes] | None = None, *, timeout: float = 300) -> str:
    """Run `code` in Pyodide in Chromium, with NumPy and this repository's wheel, and return what it printed.

    Args:
        code: Python source, dedented before it runs; top-level `await` is allowed.
        files: names and contents of files to find in the current directory.
        timeout: seconds until the run is ended.

    Raises:
        TimeoutError: it took longer; the message holds the last line that it printed.
        RuntimeError: the code raised; the message is its traceback.
    """
    with open_chromium() as chromium:
        return chromium.run(code, files, timeout=timeout)


if __name__ == "__main__":
    print(run_in_browser(Path(sys.argv[1]).read_text()), end="")
