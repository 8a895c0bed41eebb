"""The arena's order is valid for any sizes, not only those it was made with."""

from __future__ import annotations

from time import process_time

from hypothesis import given, settings
from hypothesis import strategies as st

from sardonyx.plans.layout import Lifetime, aligned, beneath

LIVES = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6), st.integers(0, 4000)), max_size=24)


@given(LIVES, st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_overlapping_lifetimes_never_share_bytes(lives: list[tuple[int, int, int]], random: object) -> None:
    lifetimes = [Lifetime(first, first + length, nbytes) for first, length, nbytes in lives]
    below = beneath(lifetimes)
    for sizes in ([life.nbytes for life in lifetimes], [random.randrange(9000) for _ in lifetimes]):  # type: ignore[attr-defined]
        offsets: dict[int, int] = {}

        def offset(k: int, sizes: list[int] = sizes, offsets: dict[int, int] = offsets) -> int:
            if k not in offsets:
                offsets[k] = max((offset(j) + aligned(sizes[j]) for j in below[k]), default=0)
            return offsets[k]

        for a in range(len(lives)):
            for b in range(a):
                if lifetimes[a].first <= lifetimes[b].last and lifetimes[b].first <= lifetimes[a].last:
                    low, high = sorted((a, b), key=lambda k: (offset(k), sizes[k]))
                    assert offset(low) + sizes[low] <= offset(high) or sizes[low] == 0


def test_memory_is_used_again() -> None:
    chain = [Lifetime(k, k + 1, 1000) for k in range(10)]
    offsets: list[int] = []
    below = beneath(chain)
    for k in range(10):
        assert len(below[k]) <= 2, k
    starts = {k: 0 if not below[k] else 1024 for k in range(10)}
    offsets = sorted(set(starts.values()))
    assert offsets == [0, 1024]


def test_many_buffers_that_live_at_once() -> None:
    """As the operands of a sum of thousands: what their number squared would take is minutes."""
    lives = [Lifetime(-1, 1, 64 * (k % 5)) for k in range(12_000)]
    start = process_time()
    below = beneath(lives)
    assert process_time() - start < 15
    assert sorted(map(len, below))[:2] == [0, 1]
    assert sum(map(len, below)) == len(lives) - 1
