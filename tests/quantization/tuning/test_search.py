"""The search: what it keeps meets, and little more than that is kept."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sardonyx.quantization.tuning.search import kept_nodes

NODES = tuple(f"n{k}" for k in range(20))


@given(st.sets(st.sampled_from(NODES[:-1]), min_size=1), st.permutations(NODES))
def test_what_is_kept_meets(needed: set[str], order: list[str]) -> None:
    tried = []

    def meets(kept: tuple[str, ...]) -> bool:
        tried.append(kept)
        return needed <= set(kept)

    found = kept_nodes(order, meets)
    place = max(map(order.index, needed))
    if place == len(order) - 1:
        assert found is None
        return
    assert found is not None
    assert found in tried
    assert needed <= set(found)
    assert len(found) <= place + 1
    assert list(found) == sorted(found, key=order.index)
    assert len(tried) <= 2 * len(order).bit_length() + 8


@given(st.sets(st.sampled_from(NODES[:-1]), min_size=1), st.permutations(NODES))
def test_with_patience_nothing_is_kept_in_vain(needed: set[str], order: list[str]) -> None:
    found = kept_nodes(order, lambda kept: needed <= set(kept), most_back=100)
    assert found is None or set(found) == needed


def test_a_single_node_cannot_be_kept() -> None:
    assert kept_nodes(["only"], lambda kept: True) is None
