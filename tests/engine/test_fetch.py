"""Models from the network, natively."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from sardonyx import InferenceSession
from sardonyx.api import download
from sardonyx.demo import assets
from sardonyx.errors import Fail, InvalidArgument

MODEL = (assets() / "digits.onnx").read_bytes()


class Server(ThreadingHTTPServer):
    """One file, `body`, under any path; `answers` are the codes that were given."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/models/digits.onnx?download=true"
        self.body = MODEL
        self.headers = {"ETag": '"one"'}
        self.code = 200
        self.missing = 0
        self.answers: list[int] = []


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        asked = (self.headers["If-None-Match"], self.headers["If-Modified-Since"])
        known = [value for value in asked if value and value in self.server.headers.values()]
        code = 304 if known and self.server.code == 200 else self.server.code
        body = self.server.body if code == 200 else b""
        self.server.answers.append(code)
        self.send_response(code)
        for name, value in {**self.server.headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[: len(body) - self.server.missing])

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing: tests are quiet."""


@pytest.fixture
def server(own_cache: Path) -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join(60)
        assert not thread.is_alive()


def fetched(url: str, progress: Any = None) -> bytes:
    found = asyncio.run(download.fetch(url, progress))
    return Path(found).read_bytes() if isinstance(found, str) else bytes(found)


def test_a_session(server: Server) -> None:
    told: list[tuple[int, int]] = []
    session = asyncio.run(
        InferenceSession.from_url(
            server.url, providers=["NumpyExecutionProvider"], progress=lambda *given: told.append(given)
        )
    )
    image = np.random.default_rng(0).random((2, 1, 28, 28), np.float32)
    (found,) = session.run(None, {"image": image})
    (wanted,) = onnxruntime.InferenceSession(MODEL).run(None, {"image": image})
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert told[-1] == (len(MODEL), len(MODEL))


@pytest.mark.parametrize("headers", [{"ETag": '"one"'}, {"Last-Modified": "Sat, 21 Nov 2026 00:00:00 GMT"}])
def test_what_did_not_change_is_not_sent_again(headers: dict[str, str], server: Server, own_cache: Path) -> None:
    server.headers = headers
    assert fetched(server.url) == fetched(server.url) == MODEL
    assert server.answers == [200, 304]
    server.body, server.headers = b"another", dict.fromkeys(headers, "another")
    assert fetched(server.url) == b"another"
    assert server.answers == [200, 304, 200]
    names = sorted(path.name.partition("-")[2] for path in (own_cache / "models").iterdir())
    assert names == ["digits.onnx", "digits.onnx.json"]


def test_without_validators_it_is_sent_again(server: Server) -> None:
    server.headers = {}
    assert fetched(server.url) == fetched(server.url) == MODEL
    assert server.answers == [200, 200]


def test_a_damaged_copy_is_replaced(server: Server, own_cache: Path) -> None:
    fetched(server.url)
    (copy,) = (own_cache / "models").glob("*.onnx")
    copy.write_bytes(MODEL[:-1] + b"?")
    assert fetched(server.url) == MODEL
    (told,) = (own_cache / "models").glob("*.json")
    told.write_text("{")
    assert fetched(server.url) == MODEL
    assert server.answers == [200, 200, 200]


def test_a_server_in_trouble(server: Server) -> None:
    fetched(server.url)
    server.code = 503
    assert fetched(server.url) == MODEL
    with pytest.raises(Fail, match=r"other.*: the server answers 503 Service Unavailable"):
        fetched(server.url.replace("digits", "other"))
    server.code = 404
    with pytest.raises(Fail, match="the server answers 404 Not Found"):
        fetched(server.url)
    server.shutdown()
    server.server_close()
    assert fetched(server.url) == MODEL
    with pytest.raises(Fail, match=r"other\.onnx\?download=true cannot be fetched: .*refused"):
        fetched(server.url.replace("digits", "other"))


def test_what_is_cut_off_is_not_kept(server: Server, own_cache: Path) -> None:
    server.missing = 5
    with pytest.raises(Fail, match=f"cut off: {len(MODEL) - 5:,} bytes came of {len(MODEL):,}"):
        fetched(server.url)
    assert list((own_cache / "models").iterdir()) == []


def test_without_a_cache(server: Server, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SARDONYX_CACHE", "0")
    assert fetched(server.url) == MODEL
    assert not own_cache.exists()
    monkeypatch.delenv("SARDONYX_CACHE")
    own_cache.parent.joinpath("sardonyx").write_text("a file")
    assert fetched(server.url) == MODEL


def test_only_so_much_is_kept(server: Server, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "ROOM", 2 * len(MODEL))
    for name in "abc":
        fetched(server.url.replace("digits", name))
    kept = {json.loads(path.read_bytes())["url"].rpartition("/")[2] for path in (own_cache / "models").glob("*.json")}
    assert kept == {"b.onnx?download=true", "c.onnx?download=true"}
    assert len(list((own_cache / "models").iterdir())) == 4


@pytest.mark.parametrize("url", ["model.onnx", "file:///etc/hostname", "ftp://127.0.0.1/x"])
def test_other_addresses(url: str) -> None:
    with pytest.raises(InvalidArgument, match="is no address of the web"):
        fetched(url)
