"""Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
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
        try:
            yield Chromium(browser.new_page())
        finally:
            browser.close()


class Chromium(Page):
    def __init__(self, driven: Driven) -> None:
        super().__init__()
        self.driven = driven
        driven.set_default_timeout(LIMIT)
        driven.on("console", lambda line: self.lines.append(f"{line.type}: {line.text}"))
        driven.on("pageerror", lambda error: self.lines.append(f"error: {error.message}"))
        self._session = driven.context.new_cdp_session(driven)

    def open(self, address: str) -> None:
        self.driven.goto(address)

    def settle(self, expression: str) -> Any:
        """Not by Playwright's own way, which needs eval, that a page's policy may forbid."""
        how = {"returnByValue": True, "awaitPromise": True, "userGesture": True}
        told = self._session.send("Runtime.evaluate", {"expression": expression, **how})
        if "exceptionDetails" in told:
            raise SyntaxError(told["exceptionDetails"]["exception"]["description"])
        return told["result"]["value"]
