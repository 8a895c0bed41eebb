"""The engine's side of compiling in a page what is to be trained there: apart, since most pages load no more of it."""

from __future__ import annotations

from typing import Any

from sardonyx.training.bundling import training_bundle
from sardonyx.web.page import delivered


def compile(model: Any, targets: Any, sizes: Any, files: Any, training: Any) -> Any:
    """As `page.compile`; `training` is an object of `train`, `loss`, `optimizer` and `classes`."""
    told = {"train": "all", **training.to_py()}
    return delivered(model, files, lambda source: training_bundle(source, targets.to_py(), **told, sizes=sizes.to_py()))
