"""How launches are divided among threads: as the count has it, and evenly enough for four of them."""

from __future__ import annotations

import numpy as np
import pytest

from sardonyx.code.program import Program
from sardonyx_wasm import drivers
from sardonyx_wasm.abi import SCRATCH
from sardonyx_wasm.code import Code, signature
from sardonyx_wasm.device.allocation import Allocation
from sardonyx_wasm.device.words import Launch, Words
from sardonyx_wasm.generator import Generator
from sardonyx_wasm.hosts import host
from tests.benchmarks import ceilings
from tests.support import require
from tests.support.division import longest, ranges

require("wasm")


def taken(units: int, align: int, threads: int) -> list[range]:
    """The ranges that a module calls a code with, where one of so many threads finds the others asleep."""
    unit = Generator(host().features, host().target)
    source = Program("ends", (), ("int32",), 0, (), ())
    with unit.module.function("ends", signature(1, 0)) as f:
        f.store(f.buffer0 + f.begin * 4, f.end)  # where a range begins it leaves its end
    drivers.write(unit, [source], {}, lambda _: Code(f, units, align))
    run = host().load(unit.module).function("run")
    room, scratch = Allocation(host(), 4 * units + 4), Allocation(host(), SCRATCH * threads)
    ends = host().array(room.address, (units + 1,), np.int32)
    ends[:] = 0
    words = Words(host(), [Launch(0, [room.address], (), 0)], threads)
    words.use(scratch.address)
    words.begin()
    run(words.address, threads - 1, threads)
    begins = [int(begin) for begin in np.flatnonzero(ends)]
    return [range(begin, int(ends[begin])) for begin in begins]


@pytest.mark.parametrize("threads", [1, 2, 4, 24])
@pytest.mark.parametrize(("units", "align"), [(0, 1), (1, 1), (5, 1), (9, 1), (1000, 1), (40, 16), (1000, 16)])
def test_ranges_are_those_that_a_module_takes(units: int, align: int, threads: int) -> None:
    expected = ranges(units, align, threads)
    assert taken(units, align, threads) == expected
    assert [unit for some in expected for unit in some] == [*range(units)]


@pytest.mark.parametrize("units", range(1, 100))
@pytest.mark.parametrize("threads", [2, 3, 4, 16])
def test_no_thread_does_more_than_its_part(units: int, threads: int) -> None:
    costs = [len(some) for some in ranges(units, 1, threads)]
    assert longest(costs, threads) == -(-units // threads)


@pytest.mark.parametrize(
    "id",
    [
        pytest.param(id, marks=[] if id in ("light-squeezenet", "ppocr5-cls") else pytest.mark.slow)
        for id in ceilings.CONVOLUTIONAL
    ],
)
def test_four_threads_have_enough_to_do(id: str) -> None:
    plan, shapes = ceilings.planned(id)
    found = ceilings.launches(plan, shapes, 4)
    assert ceilings.speedup(found) >= 3.2, ceilings.limits(found, 4)[:5]
    alone = ceilings.launches(plan, shapes, 1)
    assert sum(one.alone for one in alone) == pytest.approx(sum(one.alone for one in found), rel=0.1)
