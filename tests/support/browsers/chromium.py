"""Chromium, driven by Playwright."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .page import Page

if TYPE_CHECKING:
    from playwright.sync_api import Page as Driven

ARGUMENTS = (
    "--no-sandbox",
    "--enable-unsafe-webgpu",
    "--use-webgpu-adapter=swiftshader",
    "--enable-features=Vulkan",
    "--js-flags=--expose-gc",
)
"""For WebGPU on SwiftShader, and for tests of memory."""
LIMIT = 300_000
"""Milliseconds that a promise may take."""


@contextmanager
def open_page() -> Iterator[Page]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        running = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
        (process,) = (each["id"] for each in running if each["type"] == "browser")
        try:
            yield Chromium(browser.new_page(), process)
        finally:
            browser.close()


class Chromium(Page):
    def __init__(self, driven: Driven, process: int) -> None:
        super().__init__()
        self.driven = driven
        self._process = process
        driven.set_default_timeout(LIMIT)
        driven.on("console", lambda line: self.lines.append(f"{line.type}: {line.text}"))
        driven.on("pageerror", lambda error: self.lines.append(f"error: {error.message}"))
        self._session = driven.context.new_cdp_session(driven)

    def open(self, address: str) -> None:
        self.driven.goto(address)

    def settle(self, expression: str) -> Any:
        """Not by Playwright's own way, which needs eval, that a page's policy may forbid.

        A browser that does not answer in time is ended, since Playwright would wait for it.
        """
        how = {"returnByValue": True, "awaitPromise": True, "userGesture": True}
        late = threading.Event()

        def end() -> None:
            late.set()
            os.kill(self._process, signal.SIGKILL)

        timer = threading.Timer(LIMIT / 1000, end)
        timer.start()
        try:
            told = self._session.send("Runtime.evaluate", {"expression": expression, **how})
        except Exception as error:
            if late.is_set():
                raise TimeoutError(f"no answer in {LIMIT / 1000:g} s; the console: {self.lines}") from error
            raise
        finally:
            timer.cancel()
        if "exceptionDetails" in told:
            raise SyntaxError(told["exceptionDetails"]["exception"]["description"])
        return told["result"]["value"]
