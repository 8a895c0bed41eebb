"""Which provider gets a node: the first that can do all of it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import pytest

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.compiler.partition import partition
from sardonyx.errors import NotImplemented
from sardonyx.primitives.trace import Trace
from sardonyx.providers import Provider
from sardonyx.sizes.symbolic import Guards


@dataclass
class Some(Provider):
    """A provider that can do these scalar functions."""

    name: str
    functions: Collection[str]

    def supports(self, primitive: str, inputs: Any, outputs: Any, params: Any) -> bool:
        return params["function"] in self.functions

    def device(self, options: Any) -> Any:
        raise NotImplementedError


def traced() -> Trace:
    """Two nodes of two equations each."""
    trace = Trace(Guards(), labels=["one", "other"])
    with trace:
        x = trace.input(dtypes.float32, (4,))
        trace.origin = 0
        y = p.cos(p.exp(x))
        trace.origin = 1
        p.exp(p.sin(y))
    return trace


@pytest.mark.parametrize(
    ("first", "expected"),
    [("exp cos sin", [0, 0]), ("exp cos", [0, 1]), ("exp sin", [1, 0]), ("cos", [1, 1]), ("exp", [1, 1])],
)
def test_a_node_goes_where_all_of_it_can_be_done(first: str, expected: list[int]) -> None:
    providers: Any = [Some("a", first.split()), Some("b", ["exp", "cos", "sin"])]
    assert partition(traced(), providers) == dict(enumerate(expected))
    assert partition(traced(), providers, {(0, 0), (0, 1)}) == {0: 1, 1: 1}


def test_what_nobody_can_do_is_named() -> None:
    providers: Any = [Some("a", ["exp", "cos"]), Some("b", ["sin"])]
    with pytest.raises(NotImplemented, match=r"other cannot run on a or b with types float32"):
        partition(traced(), providers)
