"""What the engine can read, for pages to ask before they load it: `sardonyx/known.json`."""

from __future__ import annotations

from typing import Any

from sardonyx import ops
from sardonyx.model.serde.source import STRANGERS
from sardonyx.passes.upgrade import NEWEST


def known() -> dict[str, Any]:
    """What a page's engine knows: `operators`, names by domain; `newest`, operator sets; `strangers`, other formats.

    A stranger is `[offset, start, words]`: a file with these letters (of ISO 8859-1, their case not counting) at this
    offset is no model, but what the words say. Operators that other packages registered are not in a page.

    >>> "Conv" in known()["operators"]["ai.onnx"], known()["newest"]["ai.onnx.ml"]
    (True, 5)
    """
    operators: dict[str, list[str]] = {}
    for (domain, name), operator in sorted(ops.load().items()):
        if operator.__module__.startswith(f"{ops.__name__}."):
            operators.setdefault(domain or "ai.onnx", []).append(name)
    return {
        "operators": operators,
        "newest": {domain or "ai.onnx": version for domain, version in NEWEST.items()},
        "strangers": [[offset, start.decode("latin-1"), words] for offset, start, words in STRANGERS],
    }
