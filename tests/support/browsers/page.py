"""What tests do with a page, whatever browser it is in."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from typing import Any

CALL = """(async () => {{
    try {{
        return JSON.stringify({{ result: (await ({function})(...{given})) ?? null }});
    }} catch (error) {{
        return JSON.stringify({{ error: error?.message || String(error) }});
    }}
}})()"""


class Page(ABC):
    """`lines` are what the console was told, `"warning: text"`, and errors that nobody caught."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    @abstractmethod
    def open(self, address: str) -> None:
        """Go to an address, and wait until it has loaded."""

    @abstractmethod
    def settle(self, expression: str) -> Any:
        """Return the text that an expression promises."""

    def evaluate(self, function: str, *given: Any) -> Any:
        """Return what a function of JavaScript gives for these arguments, both as JSON.

        Raises:
            RuntimeError: it threw, or its promise was broken; the message is the error's.
        """
        told = json.loads(self.settle(CALL.format(function=function, given=json.dumps(given))))
        if "error" in told:
            raise RuntimeError(told["error"])
        return told["result"]

    def wait(self, function: str, *given: Any, limit: float = 180) -> Any:
        """Return what a function gives as soon as that is true.

        Raises:
            TimeoutError: it was not within `limit` seconds.
        """
        end = time.monotonic() + limit
        while not (found := self.evaluate(function, *given)):
            if time.monotonic() > end:
                raise TimeoutError(f"{function} stayed false for {limit:g} s; the console: {self.lines}")
            time.sleep(0.05)
        return found
