"""Firefox, driven by WebDriver BiDi, which it speaks itself."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .page import Page

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

LIMIT = 300
"""Seconds that an answer may take."""
SETTINGS = {
    "dom.webgpu.enabled": True,
    "gfx.webgpu.ignore-blocklist": True,
    "remote.active-protocols": 1,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "app.update.disabledForTesting": True,
    "media.navigator.streams.fake": True,
    "media.navigator.permission.disabled": True,
}
"""WebGPU on a software driver, a microphone that is not there, and no questions."""


@contextmanager
def open_page() -> Iterator[Page]:
    from websockets.sync.client import connect

    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,
        _started(Path(profile)) as address,
        connect(f"{address}/session", max_size=None, compression=None) as connection,
    ):
        page = Firefox(connection)
        try:
            yield page
        finally:
            page.ask("browser.close")


@contextmanager
def _started(profile: Path) -> Iterator[str]:
    """The address of a browser that listens."""
    settings = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in SETTINGS.items()]
    (profile / "user.js").write_text("\n".join(settings))
    command = [shutil.which("firefox-esr") or "firefox", "--headless", "--no-remote", "--profile", str(profile)]
    log = profile / "log"
    with log.open("w") as said:
        process = subprocess.Popen([*command, "--remote-debugging-port", "0"], stderr=said, stdout=subprocess.DEVNULL)
    try:
        yield _listening(process, log)
        process.wait(30)
    finally:
        process.kill()
        process.wait(60)


def _listening(process: subprocess.Popen[bytes], log: Path) -> str:
    for _ in range(600):
        if found := re.search(r"listening on (ws://\S+)", log.read_text(errors="replace")):
            return found[1]
        try:
            process.wait(0.1)
            break
        except subprocess.TimeoutExpired:
            continue
    raise RuntimeError(f"Firefox does not start: {log.read_text(errors='replace')}")


class Firefox(Page):
    def __init__(self, connection: ClientConnection) -> None:
        super().__init__()
        self._connection = connection
        self._numbers = count()
        self.ask("session.new", capabilities={})
        self.ask("session.subscribe", events=["log.entryAdded"])
        self._context = self.ask("browsingContext.getTree")["contexts"][0]["context"]

    def open(self, address: str) -> None:
        self.ask("browsingContext.navigate", context=self._context, url=address, wait="complete")

    def settle(self, expression: str) -> Any:
        told = self.ask("script.evaluate", expression=expression, target={"context": self._context}, awaitPromise=True)
        if told["type"] == "exception":
            raise SyntaxError(told["exceptionDetails"]["text"])
        return told["result"]["value"]

    def ask(self, method: str, **given: Any) -> Any:
        """Return what the browser answers; what it tells meanwhile goes to `lines`."""
        number = next(self._numbers)
        self._connection.send(json.dumps({"id": number, "method": method, "params": given}))
        while True:
            told = json.loads(self._connection.recv(LIMIT))
            if told["type"] == "event":
                entry = told["params"]
                self.lines.append(f"{LEVELS.get(entry['level'], entry['level'])}: {entry['text']}")
            elif told["id"] == number:
                if told["type"] == "error":
                    raise RuntimeError(f"{method}: {told['message']}")
                return told["result"]


LEVELS = {"warn": "warning"}
