"""Parameters that lie one behind the other."""

from __future__ import annotations

import numpy as np
import pytest

from sardonyx.common import dtypes
from sardonyx.model.ir import Tensor
from sardonyx.training import wholes
from sardonyx.training.wholes import length, wholes_of


def tensors(**sizes: int) -> list[Tensor]:
    return [Tensor.of(np.zeros(size, np.float32), dtypes.float32, name) for name, size in sizes.items()]


def test_parts_begin_at_multiples_of_256_bytes() -> None:
    assert [length(tensors(a=size)) for size in (1, 64, 65)] == [64, 64, 128]
    assert length(tensors(a=65, b=3)) == 192


def test_wholes_are_no_larger_than_what_a_gpu_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    given = tensors(a=60, b=64, c=1, d=900, e=2)
    assert wholes_of(given, "abcde") == {"whole0": given}
    monkeypatch.setattr(wholes, "LARGEST", 128)
    found = wholes_of(given, ["a", "whole1", "_whole"])
    assert {name: [tensor.name for tensor in group] for name, group in found.items()} == {
        "__whole0": ["a", "b"],
        "__whole1": ["c"],
        "__whole2": ["d"],
        "__whole3": ["e"],
    }
