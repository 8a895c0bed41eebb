"""Properties that are found once, by any number of threads, none of which keeps another instance's from being found."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sardonyx.common.cached import cached_property

ROOT = Path(__file__).parents[2]


class Slow:
    def __init__(self) -> None:
        self.both = threading.Barrier(2)

    @cached_property
    def found(self) -> object:
        self.both.wait(10)
        return object()


def test_two_instances_are_asked_at_once() -> None:
    one, other = Slow(), Slow()
    one.both = other.both  # each is found only while the other is
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda each: each.found, (one, other))
    assert first is one.found
    assert second is other.found


def test_two_threads_have_one_result() -> None:
    slow = Slow()
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: slow.found, range(2))
    assert first is second is slow.found


def test_what_fails_is_found_again() -> None:
    class Once:
        times = 0

        @cached_property
        def number(self) -> int:
            """A number."""
            self.times += 1
            return 6 // (self.times - 1)

    once = Once()
    with pytest.raises(ZeroDivisionError):
        _ = once.number
    assert once.number == once.number == 6
    assert Once.number.__doc__ == "A number."


def test_the_engine_has_no_others() -> None:
    folders = (ROOT / "core", ROOT / "wasm", ROOT / "webgpu_backend")
    files = [file for folder in folders for file in folder.rglob("*.py")]
    found = [file.name for file in files if re.search(r"from functools import .*cached_property", file.read_text())]
    assert len(files) > 300
    assert not found
