"""Fetching in a browser: into one buffer of Python's, with a copy in Cache Storage where the page has that."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias

from sardonyx.errors import Fail, InvalidArgument

Progress: TypeAlias = Callable[[int, int], object]
"""Hears how many bytes are there, of how many in all; 0 where the server does not say."""
NAME = "sardonyx models"


async def fetch(url: str, progress: Progress | None = None) -> memoryview:
    """The bytes at `url`, which may be relative to the page, in a worker to the worker's script.

    Raises Fail where the server does not give all of them, InvalidArgument for what is no address of the web.
    """
    import js
    from pyodide.ffi import JsException, to_js

    place = getattr(js, "location", None)  # Node has none
    address = _address(url, place)
    store = await _store()
    copy = await store.match(address.href) if store else None
    is_own = place is not None and address.origin == place.origin  # elsewhere these headers need permission
    conditions = _conditions(copy.headers) if copy and is_own else {}
    try:
        response = await js.fetch(address.href, headers=to_js(conditions, dict_converter=js.Object.fromEntries))
    except JsException as error:
        if copy:
            return await _read(copy, address.href, progress)
        other = "" if is_own else "; a file of another site comes only if that site allows it (CORS)"
        raise Fail(f"{address.href} cannot be fetched: {error.message}{other}") from None
    if copy and (response.status == 304 or _same(copy.headers, response.headers)):
        if response.body:
            response.body.cancel()
        return await _read(copy, address.href, progress)
    if not response.ok:
        raise Fail(f"{address.href}: the server answers {response.status} {response.statusText}")
    if not store:
        return await _read(response, address.href, progress)
    storing = store.put(address.href, response.clone())
    data = await _read(response, address.href, progress)
    with suppress(JsException):  # a disk that is full
        await storing
    return data


def _address(url: str, place: Any) -> Any:
    """The whole address; of a worker that was made of a blob, as PyScript's are, the site alone is known."""
    import js

    is_whole = url.startswith(("http://", "https://"))
    if place is None and not is_whole:
        raise InvalidArgument(f"{url} is no address of the web; InferenceSession(path) opens files")
    document = getattr(js, "document", None)
    base = document.baseURI if document else place.href if place else url
    if base.startswith("blob:"):
        base = place.origin
        if not is_whole and not url.startswith("/"):
            raise InvalidArgument(
                f"{url} is relative, and this worker has no address of its own; begin with https://, or with / for a "
                f"file of {base}"
            )
    return js.URL.new(url, base)


async def _store() -> Any:
    """Cache Storage for models, None in pages without."""
    import js
    from pyodide.ffi import JsException

    try:
        return await js.caches.open(NAME)
    except (AttributeError, JsException):
        return None


def _conditions(headers: Any) -> dict[str, str]:
    """What asks the server for nothing if it has nothing new."""
    names = {"etag": "If-None-Match", "last-modified": "If-Modified-Since"}
    return {name: headers.get(header) for header, name in names.items() if headers.get(header)}


def _same(old: Any, new: Any) -> bool:
    """Whether headers tell of the same contents."""
    if new.get("etag"):
        return bool(old.get("etag") == new.get("etag"))
    names = ("last-modified", "content-length")
    return all(new.get(name) and old.get(name) == new.get(name) for name in names)


async def _read(response: Any, url: str, progress: Progress | None) -> memoryview:
    """The bytes of a response, each of them copied once."""
    headers = response.headers
    total = 0 if headers.get("content-encoding") else int(headers.get("content-length") or 0)
    data, loaded = bytearray(total), 0
    reader = response.body.getReader()
    while not (piece := await reader.read()).done:
        size = piece.value.length
        if loaded + size > len(data):
            data.extend(bytes(max(loaded + size - len(data), len(data))))
        piece.value.assign_to(memoryview(data)[loaded : loaded + size])
        loaded += size
        if progress:
            progress(loaded, total)
    if loaded < total:
        raise Fail(f"{url} is cut off: {loaded:,} bytes came of {total:,}; fetch it anew")
    return memoryview(data)[:loaded]
