"""Models from the network: natively into a file, in a browser into memory. What did not change is not sent again.

Copies stay in the folder `models` of the cache (`sardonyx.common.cache`), in a browser in Cache Storage, with the ETag
or the date by which the server tells whether they are still right. Where the server cannot be reached, they count as
right.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

from sardonyx.api import browser_fetch
from sardonyx.api.browser_fetch import Progress
from sardonyx.common import cache, sources
from sardonyx.common.atomic import replacing
from sardonyx.errors import Fail, InvalidArgument
from sardonyx.version import __version__

ROOM = 16 << 30
"""Bytes of all copies together; the least recently used go."""
PATIENCE = 60.0
"""Seconds without a byte after which a server is given up."""
_PIECE = 1 << 20


async def fetch(url: str, progress: Progress | None = None) -> str | memoryview:
    """The path of a file with what lies at `url`, or its bytes where there is no disk for it.

    Raises Fail where the server does not give all of it, InvalidArgument for what is no address of the web.
    """
    if sources.IN_MEMORY:
        return await browser_fetch.fetch(url, progress)
    if not url.startswith(("http://", "https://")):
        raise InvalidArgument(f"{url} is no address of the web; InferenceSession(path) opens files")
    loop = asyncio.get_running_loop()

    def tell(loaded: int, total: int) -> None:
        if progress:
            loop.call_soon_threadsafe(progress, loaded, total)

    return await asyncio.to_thread(_fetch, url, tell)


def _fetch(url: str, progress: Progress) -> str | memoryview:
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    copy = _Copy.of(url)
    state = copy.state() if copy else {}
    request = Request(url, headers={"User-Agent": f"sardonyx/{__version__}", **_conditions(state)})
    try:
        with urlopen(request, timeout=PATIENCE) as response:
            told = {name: response.headers.get(name, "") for name in ("ETag", "Last-Modified")}
            return copy.write(response, url, told, progress) if copy else _bytes(response, url, progress)
    except HTTPError as error:
        error.close()
        if copy and state and (error.code == 304 or error.code >= 500):
            return copy.used()
        raise Fail(f"{url}: the server answers {error.code} {error.reason}") from None
    except OSError as error:
        if copy and state:
            return copy.used()
        reason = error.reason if isinstance(error, URLError) else error
        raise Fail(f"{url} cannot be fetched: {reason}") from error


def _conditions(state: dict[str, Any]) -> dict[str, str]:
    """What asks the server for nothing if it has nothing new."""
    names = {"ETag": "If-None-Match", "Last-Modified": "If-Modified-Since"}
    return {name: state[header] for header, name in names.items() if state.get(header)}


def _bytes(response: Any, url: str, progress: Progress) -> memoryview:
    data = bytearray()
    _receive(response, url, progress, data.extend)
    return memoryview(data)


def _receive(response: Any, url: str, progress: Progress, take: Callable[[bytes], object]) -> None:
    total, loaded = int(response.headers.get("Content-Length") or 0), 0
    while piece := response.read(_PIECE):
        take(piece)
        loaded += len(piece)
        progress(loaded, total)
    if loaded < total:
        raise Fail(f"{url} is cut off: {loaded:,} bytes came of {total:,}; fetch it anew")


class _Copy:
    """The file that holds what came from an address, and one beside it that tells of it."""

    def __init__(self, folder: Path, url: str) -> None:
        stem = re.sub(r"[^\w.-]", "_", url.partition("?")[0].rstrip("/").rpartition("/")[2])[-80:]
        self.path = folder / f"{hashlib.sha256(url.encode()).hexdigest()[:16]}-{stem}"
        self._told = self.path.with_name(f"{self.path.name}.json")

    @classmethod
    def of(cls, url: str) -> _Copy | None:
        """The place for an address, None where there is no folder to write to."""
        home = cache.directory()
        try:
            if home is None:
                return None
            folder = Path(home, "models")
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            return None
        return cls(folder, url)

    def state(self) -> dict[str, Any]:
        """What was told of the file, if it is whole."""
        try:
            told: dict[str, Any] = json.loads(self._told.read_bytes())
            with self.path.open("rb") as file:
                return told if hashlib.file_digest(file, "sha256").hexdigest() == told["sha256"] else {}
        except (OSError, ValueError, KeyError):
            return {}

    def used(self) -> str:
        """The path, noting that somebody wanted it."""
        with suppress(OSError):
            os.utime(self._told)
        return str(self.path)

    def write(self, response: Any, url: str, told: dict[str, str], progress: Progress) -> str:
        """Replace the file when all has come, and give its path."""
        digest = hashlib.sha256()
        with replacing(self.path, private=True) as file:
            _receive(response, url, progress, partial(_take, file, digest.update))
        self._told.write_text(json.dumps({"url": url, "sha256": digest.hexdigest(), **told}))
        self._make_room()
        return str(self.path)

    def _make_room(self) -> None:
        """Remove the copies that were not used for longest."""
        room = ROOM
        for told in sorted(self.path.parent.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True):
            copy = told.with_suffix("")
            with suppress(OSError):
                room -= copy.stat().st_size
                if room < 0 and copy != self.path:
                    copy.unlink()
                    told.unlink()


def _take(output: IO[bytes], update: Callable[[bytes], object], piece: bytes) -> None:
    output.write(piece)
    update(piece)
