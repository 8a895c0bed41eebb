"""Pages with the page runtime, and packages that use it, in any browser; there is no Python in them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.pyodide.assemble import RUNNER
from tests.support.browser import Site
from tests.support.browsers import Page, open_page
from tests.web.ort_pages import ort_folders


class Visitor:
    """A page, and the site that it visits."""

    def __init__(self, page: Page, site: Site, name: str) -> None:
        self.page = page
        self.site = site
        self.name = name

    def call(self, script: str, message: Mapping[str, Any], limit: float) -> Any:
        """Return what a worker that runs `script`, an address, answers to `message`; RuntimeError where it fails."""
        self.page.open(f"{self.site.address}/support/page.html")
        self.page.wait("() => Boolean(globalThis.run)")
        answer = self.page.evaluate("(...given) => run(...given)", script, message, limit)
        if "result" not in answer:
            raise RuntimeError(answer.get("error") or f"no answer in {limit:g} s: {answer['late']}")
        return answer["result"]

    def ask(self, task: str, *given: Any) -> Any:
        """Return what a task of tasks.mjs gives in a page that was written for onnxruntime-web."""
        self.page.open(f"{self.site.address}/web/ort/page.html")
        self.page.wait("() => Boolean(globalThis.tasks)")
        return self.page.evaluate("(task, ...given) => tasks[task](...given)", task, *given)


@contextmanager
def open_visitor(browser: str) -> Iterator[Visitor]:
    with Site({"support": RUNNER.parent, **ort_folders("transformers", "vad")}) as site, open_page(browser) as page:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        try:
            yield Visitor(page, site, browser)
        finally:
            site.shutdown()
