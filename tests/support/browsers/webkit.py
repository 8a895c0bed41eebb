"""WebKitGTK, driven by WebDriver, on a screen that is not there."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.display import open_display

from .page import Page

MINI = next(Path("/usr/lib").glob("*/webkit2gtk-4.1/MiniBrowser"), None)
"""The browser that WebKitGTK brings."""
LIMIT = 300
"""Seconds that an answer may take."""
SETTLE = "const told = arguments[0]; ({expression}).then((text) => told([text, globalThis.lines?.splice(0) ?? []]));"
HEAR = """async () => {
    globalThis.lines = [];
    for (const level of ["debug", "log", "info", "warn", "error"]) {
        const { [level]: said } = console;
        console[level] = (...given) => {
            lines.push(`${level === "warn" ? "warning" : level}: ${given.join(" ")}`);
            said.call(console, ...given);
        };
    }
    addEventListener("error", ({ message }) => lines.push(`error: ${message}`));
    addEventListener("unhandledrejection", ({ reason }) => lines.push(`error: ${reason}`));
}"""
"""A driver does not tell what the console is told; so the page does, once it has loaded."""


@contextmanager
def open_page() -> Iterator[Page]:
    with open_display() as display, _started(display) as address:
        page = WebKit(address)
        try:
            yield page
        finally:
            page.ask("DELETE")


@contextmanager
def _started(display: str) -> Iterator[str]:
    """The address of a driver that listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    told = os.environ | {"DISPLAY": display, "GDK_BACKEND": "x11", "NO_AT_BRIDGE": "1"}
    command = [shutil.which("WebKitWebDriver") or "WebKitWebDriver", f"--port={port}"]
    process = subprocess.Popen(command, env=told, stdout=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


class WebKit(Page):
    def __init__(self, address: str) -> None:
        super().__init__()
        self._address = address
        options = {"binary": str(MINI), "args": ["--automation"]}
        wanted = {
            "browserName": "MiniBrowser",
            "webkitgtk:browserOptions": options,
            "timeouts": {"script": 1000 * LIMIT},
        }
        for _ in range(100):
            try:
                told = self.ask("POST", "/session", capabilities={"alwaysMatch": wanted})
                break
            except urllib.error.URLError:  # the driver does not listen yet
                time.sleep(0.1)
        self._address += f"/session/{told['sessionId']}"

    def open(self, address: str) -> None:
        self.ask("POST", "/url", url=address)
        self.evaluate(HEAR)

    def settle(self, expression: str) -> Any:
        script = SETTLE.format(expression=expression)
        text, lines = self.ask("POST", "/execute/async", script=script, args=[])
        self.lines += lines
        return text

    def ask(self, method: str, path: str = "", **given: Any) -> Any:
        """Return what the driver answers."""
        body = json.dumps(given).encode() if method == "POST" else None
        request = urllib.request.Request(self._address + path, body, method=method)
        try:
            with urllib.request.urlopen(request, timeout=LIMIT) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            with error:
                raise RuntimeError(json.load(error)["value"]["message"]) from None
