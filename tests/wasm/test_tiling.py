"""The way that a convolution takes: that which measured fastest, as far as it was far from others."""

from __future__ import annotations

import pytest

from sardonyx.compiler.legalization.filtering import Filter
from sardonyx_wasm.device import blas
from sardonyx_wasm.legalization.tiling import Way, Window, fastest

THREE, FIVE = Window((3, 3), (1, 1), (1, 1)), Window((5, 1), (1, 1), (1, 1))
HALF = Window((3, 3), (2, 2), (1, 1))

pytestmark = pytest.mark.usefixtures("in_place")


def outputs(way: Way) -> tuple[int, ...]:
    return tuple(line.outputs for line in way.filters or ())


@pytest.mark.parametrize(
    ("target", "places", "channels", "made", "window", "expected"),
    [
        ("v8", (1, 28, 28), 128, 128, THREE, (4, 4)),
        ("v8", (1, 7, 7), 512, 512, THREE, (2, 2)),
        ("v8", (1, 4, 4), 128, 128, THREE, ()),
        ("v8", (1, 28, 28), 3, 64, THREE, ()),
        ("v8", (1, 1, 1), 64, 64, THREE, ()),
        ("v8", (8, 4, 4), 64, 64, THREE, (4, 4)),
        ("v8", (1, 28, 28), 64, 128, HALF, (4, 4)),
        ("v8", (1, 14, 14), 256, 256, HALF, (2, 2)),
        ("v8", (1, 7, 7), 512, 512, HALF, ()),
        ("v8", (1, 508, 1), 256, 512, FIVE, (4, 1)),
        ("v8", (1, 28, 28), 64, 64, Window((5, 5), (1, 1), (1, 1)), (2, 2)),
        ("v8", (1, 28, 28), 64, 64, Window((3, 3), (2, 2), (2, 2)), ()),
        ("wasmtime", (1, 56, 56), 64, 64, THREE, (4, 4)),
        ("wasmtime", (1, 14, 14), 256, 256, HALF, (2, 2)),
        ("wasmtime", (1, 508, 1), 256, 512, FIVE, (4, 1)),
        ("wasmtime", (1, 7500, 1), 128, 64, Window((3, 1), (1, 1), (4096, 1)), (2, 1)),
    ],
)
def test_tiles(
    target: str, places: tuple[int, int, int], channels: int, made: int, window: Window, expected: tuple[int, ...]
) -> None:
    way = fastest(target, places, channels, made, window, axis=0 if places[2] == 1 else 1)
    assert (way.beside, way.columns, outputs(way)) == (1, False, expected)


@pytest.mark.parametrize("target", ["v8", "wasmtime"])
def test_few_channels_are_made_for_neighbours_at_once(target: str) -> None:
    assert fastest(target, (1, 1, 21922), 1, 1, Window((1, 256), (1, 2), (1, 1))).beside > 4
    assert fastest(target, (1, 172, 264), 8, 1, Window((5, 5), (1, 1), (1, 1)), exact=True).beside > 2
    assert fastest(target, (1, 172, 264), 8, 32, Window((5, 5), (1, 1), (1, 3)), exact=True) == Way()
    assert fastest(target, (1, 172, 264), 8, 1, Window((5, 5), (1, 1), (2, 2)), exact=True) == Way()


def test_where_one_axis_has_no_filter_the_other_has() -> None:
    way = fastest("wasmtime", (1, 172, 264), 8, 8, Window((3, 39), (1, 1), (1, 1)))
    assert (way.beside, way.columns, outputs(way)) == (8, True, (6, 1))


@pytest.mark.parametrize("copies", [False, True])
def test_where_blas_copies_many_small_products_are_dear(copies: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "in_blocks", lambda: not copies)
    assert outputs(fastest("wasmtime", (1, 20, 20), 64, 128, HALF)) == (() if copies else (4, 4))
    assert outputs(fastest("wasmtime", (1, 20, 20), 64, 64, THREE)) == (4, 4)


def test_integers_stay_exact() -> None:
    assert fastest("v8", (1, 56, 56), 64, 64, THREE, exact=True) == Way()


def test_neighbours_see_more() -> None:
    window = Window((3, 5), (1, 2), (1, 1))
    assert window.beside(1, 4) == Window((3, 11), (1, 8), (1, 1))
    assert window.beside(0, 2) == Window((4, 5), (2, 2), (1, 1))


def test_points_are_limited() -> None:
    """For the errors' sake: two axes have up to 6 points each, one has 8."""
    way = fastest("wasmtime", (1, 512, 512), 256, 256, Window((7, 7), (1, 1), (1, 1)))
    assert way.filters is None or Filter() in way.filters
    way = fastest("wasmtime", (1, 512, 512), 256, 256, Window((5, 5), (1, 1), (1, 1)))
    assert all(line.points <= 6 for line in way.filters or ()) or Filter() in (way.filters or ())
