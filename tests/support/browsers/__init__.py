"""Pages in Chromium, Firefox and WebKit, by one small interface.

with open_page("firefox") as page:
    page.open("http://127.0.0.1:8000/")
    page.evaluate("async (a, b) => a + b", 1, 2)
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib import import_module

from .page import Page

__all__ = ["BROWSERS", "Page", "open_page"]

BROWSERS = ("chromium", "firefox", "webkit")


def open_page(browser: str) -> AbstractContextManager[Page]:
    """A page, empty, in a browser of its own, which has been nowhere yet; it ends afterwards."""
    opened: AbstractContextManager[Page] = import_module(f".{browser}", __name__).open_page()
    return opened
