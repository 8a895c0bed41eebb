"""`sardonyx web --serve`: the folder, and bundles that are made when they are asked for."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
import urllib.request
from argparse import Namespace
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from urllib.error import HTTPError

import numpy as np
import pytest

from sardonyx import InferenceSession
from sardonyx.cli import main
from sardonyx.cli.serving import Server
from sardonyx.demo import assets
from tests.support import require
from tests.support.npm import package
from tests.web.pages import model_of

DIGITS = Path(str(assets() / "digits.onnx"))
STRINGS = "g (string[N] x) => (string[N] a, int64[N] b) { a, b = StringSplit (x) }"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    folder = tmp_path / "site"
    (folder / "models").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html>")
    (folder / "models" / "net.onnx").write_bytes(DIGITS.read_bytes())
    (tmp_path / "secret").write_text("")
    how = Namespace(port=0, compress=False, weights="float32")
    with Server(folder, how, ["wasm"], {}) as opened:
        threading.Thread(target=opened.serve_forever, daemon=True).start()
        yield opened
        opened.shutdown()


def fetched(server: Server, path: str) -> tuple[bytes, Message]:
    with urllib.request.urlopen(server.address + path, timeout=60) as response:
        return response.read(), response.headers


def status(server: Server, path: str) -> tuple[int, str]:
    with pytest.raises(HTTPError) as caught:
        fetched(server, path)
    with caught.value as error:
        return error.code, error.reason


def test_bundles_are_made_when_they_are_asked_for(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    model = server.folder / "models" / "net.onnx"
    data, _ = fetched(server, "models/net.onnx.sdx?1")
    image = {"image": np.full((1, 1, 28, 28), 0.5, np.float32)}
    wanted = InferenceSession(DIGITS).run(None, image)
    np.testing.assert_allclose(InferenceSession(data).run(None, image), wanted, atol=1e-6)
    assert capsys.readouterr().out.startswith("models/net.onnx: ")
    assert fetched(server, "models/net.onnx.sdx")[0] == data
    assert capsys.readouterr().out == ""
    os.utime(model, ns=(0, model.stat().st_mtime_ns + 1))
    assert fetched(server, "models/net.onnx.sdx")[0] == data
    assert "compiled in" in capsys.readouterr().out
    model.with_name("net.onnx.sdx").write_bytes(b"newer")
    os.utime(model, ns=(0, 0))
    assert fetched(server, "models/net.onnx.sdx")[0] == b"newer"


def test_pages_have_what_they_need(server: Server) -> None:
    page, headers = fetched(server, "")
    assert page == b"<!doctype html>"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert headers["Cross-Origin-Embedder-Policy"] == "require-corp"
    script, headers = fetched(server, "sardonyx/ort/index.js")
    assert b"onnxruntime-common" in script
    assert headers["Content-Type"] == "text/javascript"
    index = json.loads(fetched(server, "sardonyx.json")[0])
    assert index == {"bundles": {hashlib.sha256(DIGITS.read_bytes()).hexdigest(): "models/net.onnx.sdx"}}


def test_what_is_wrong_is_said(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    (server.folder / "strings.onnx").write_bytes(model_of(STRINGS))
    for _ in range(2):
        code, reason = status(server, "strings.onnx.sdx")
        assert code == 500
        assert "StringSplit" in reason
    assert capsys.readouterr().err.count("strings.onnx cannot be compiled: ") == 1
    assert status(server, "none.onnx.sdx")[0] == status(server, "%2e%2e/secret")[0] == 404
    assert main(["web", "--serve", str(server.folder / "none")]) == 1
    assert main(["web"]) == 1
    assert main(["web", "--serve", str(server.folder), "--port", str(server.server_port)]) == 1
    told = capsys.readouterr().err
    assert "there is no such folder" in told
    assert "name the folder" in told
    assert "take another one" in told


PAGE = """<!doctype html><script type="importmap">
{ "imports": { "onnxruntime-common": "/common/dist/esm/index.js", "onnxruntime-web": "/sardonyx/ort/index.js" } }
</script>"""
RUN = """async (address) => {
  const { InferenceSession, Tensor } = await import("onnxruntime-web");
  const answer = async (address) => {
    const session = await InferenceSession.create(address);
    const image = new Tensor("float32", new Float32Array(784).fill(0.5), [1, 1, 28, 28]);
    return [...(await session.run({ image })).probabilities.data];
  };
  const refusal = await answer("/strings.onnx").catch(({ message }) => message);
  return [await answer("/models/net.onnx"), refusal, crossOriginIsolated];
}"""


@pytest.mark.slow
def test_a_page_finds_bundles(server: Server) -> None:
    require("browser")
    from playwright.sync_api import sync_playwright

    shutil.copytree(package("onnxruntime-common"), server.folder / "common")
    (server.folder / "index.html").write_text(PAGE)
    (server.folder / "strings.onnx").write_bytes(model_of(STRINGS))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(server.address)
        answer, refusal, is_isolated = page.evaluate(RUN)
        browser.close()
    (wanted,) = InferenceSession(DIGITS).run(None, {"image": np.full((1, 1, 28, 28), 0.5, np.float32)})
    np.testing.assert_allclose(answer, wanted[0], atol=1e-6)
    assert refusal.startswith("/strings.onnx.sdx: the server answers 500")
    assert "StringSplit" in refusal
    assert is_isolated
