"""What NumPy's kernels are compiled to is kept for later processes, and made anew where it is damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sardonyx.code.kernel import Kernel
from sardonyx.numpy_backend import codegen
from sardonyx.numpy_backend.makers import KEPT, makers
from sardonyx.providers.contract import Address


def kernel(number: int) -> Kernel:
    """x [6] -> number * x."""
    place = [0, [[0, 1]], []]
    nodes = (
        ["load", "float32", [], [0, place]],
        ["const", "float32", [], float(number)],
        ["mul", "float32", [0, 1], None],
    )
    return Kernel(f"times_{number}", ("float32",), ("float32",), 0, (6,), (), (), nodes, ([1, place, 2],))


def products(kernels: list[Kernel]) -> list[np.ndarray]:
    """What each kernel makes of 0 to 5."""
    results = []
    for make in makers(kernels):
        x, y = np.arange(6, dtype=np.float32), np.empty(6, np.float32)
        make([Address(each.view(np.uint8), 0, each.nbytes) for each in (x, y)], []).run()
        results.append(y)
    return results


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[Kernel]:
    """The kernels whose source was written."""
    found: list[Kernel] = []
    source = codegen.source

    def watched(kernel: Kernel) -> str:
        found.append(kernel)
        return source(kernel)

    monkeypatch.setattr(codegen, "source", watched)
    return found


def check(kernels: list[Kernel], numbers: range) -> None:
    for result, number in zip(products(kernels), numbers, strict=True):
        np.testing.assert_array_equal(result, np.arange(6, dtype=np.float32) * number, strict=True)


def test_many_kernels_are_written_once(own_cache: Path, written: list[Kernel]) -> None:
    numbers = range(1, KEPT + 1)
    kernels = [kernel(number) for number in numbers]
    for times in range(2):
        check([kernel(number) for number in numbers], numbers)
        assert written == kernels, times
    assert len([*own_cache.glob("*.entry")]) == 1
    check([kernel(number) for number in range(2, KEPT + 2)], range(2, KEPT + 2))
    assert len(written) == 2 * KEPT


def test_few_kernels_are_written_each_time(own_cache: Path, written: list[Kernel]) -> None:
    for times in range(1, 3):
        check([kernel(number) for number in range(KEPT - 1)], range(KEPT - 1))
        assert len(written) == times * (KEPT - 1)
    assert not own_cache.is_dir() or not [*own_cache.iterdir()]


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-7], lambda data: data[:40] + b"\xff" + data[41:], lambda data: b""]
)
def test_what_is_damaged_is_written_again(damage, own_cache: Path, written: list[Kernel]) -> None:
    numbers = range(3, KEPT + 3)
    check([kernel(number) for number in numbers], numbers)
    (entry,) = own_cache.glob("*.entry")
    entry.write_bytes(damage(entry.read_bytes()))
    check([kernel(number) for number in numbers], numbers)
    assert len(written) == 2 * KEPT


def test_nothing_is_kept_where_the_cache_is_off(monkeypatch: pytest.MonkeyPatch, written: list[Kernel]) -> None:
    monkeypatch.setenv("SARDONYX_CACHE", "0")
    for times in range(1, 3):
        check([kernel(number) for number in range(KEPT)], range(KEPT))
        assert len(written) == times * KEPT


def test_another_release_of_python_has_code_of_its_own(
    own_cache: Path, written: list[Kernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    check([kernel(number) for number in range(KEPT)], range(KEPT))
    monkeypatch.setattr("sys.version", "another")
    check([kernel(number) for number in range(KEPT)], range(KEPT))
    assert len(written) == 2 * KEPT
