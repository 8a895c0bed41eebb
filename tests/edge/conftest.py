"""Boards to run on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.edge.userland import Board, board, wasmtime
from tests.support import require


@pytest.fixture(scope="session")
def armhf() -> Iterator[Board]:
    """A Raspberry Pi of 32 bits with the wheel and NumPy."""
    require("armhf")
    with board("armhf") as made:
        yield made


@pytest.fixture(scope="session")
def arm64() -> Iterator[Board]:
    """A Raspberry Pi of 64 bits with the wheel, NumPy and wasmtime."""
    require("arm64")
    with board("arm64") as made:
        made.install([wasmtime()])
        yield made


@pytest.fixture(scope="session")
def trixie() -> Iterator[Board]:
    """A Raspberry Pi of 32 bits with the wheel and a newer NumPy."""
    require("trixie")
    with board("trixie") as made:
        yield made
