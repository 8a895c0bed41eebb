"""The plans of a graph whose sizes are open: one for all sizes, and more for those that it does not hold for.

After the general case, sizes of 0, 1 and more are tried, one by one and together, and what decides on elements of
inputs. A case has a plan of its own where no other plan holds for it, or where much of its code is another.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import reduce
from itertools import combinations, product
from operator import mul

import numpy as np

from sardonyx.common.record import field, record
from sardonyx.compiler.compile import Compiler, Force
from sardonyx.compiler.general import GeneralCase, Numbers, Relations
from sardonyx.compiler.open_sizes import OpenSizes
from sardonyx.errors import Fail, SardonyxError
from sardonyx.plans.acceptance import LARGEST, holds, intervals
from sardonyx.plans.plan import Launch, Plan, Read
from sardonyx.sizes.expression import evaluate
from sardonyx.sizes.polynomial import ONE, symbol
from sardonyx.sizes.relations import crossing
from sardonyx.sizes.sizecode import symbols_of

MOST_PLANS = 8
"""How many plans a graph has at most."""
MOST_POINTS = 81
"""How many combinations of sizes are looked at."""
READ = (0, 1, 7)
"""Numbers that elements of inputs may tell: the last one stands for all that are larger."""
FEW_GAPS = 2
"""Gaps between the sizes of a name that plans are made for."""
ANOTHER = 1 / 8
"""The part of the launches that run other code, beyond which a case has a plan of its own."""


@record
class Case:
    """A plan, and the numbers by name that it was made for."""

    plan: Plan
    numbers: Numbers


@record
class Cases:
    """The plans of a graph for open `sizes`.

    `typical` are numbers that are given by name, `relations` what is given of symbols, and then what is found;
    `values` are those of inputs whose elements count.
    """

    compiler: Compiler
    sizes: OpenSizes
    typical: Numbers = field(default_factory=dict)
    relations: Relations = field(default_factory=dict)
    values: Mapping[str, np.ndarray] = field(default_factory=dict)
    cases: list[Case] = field(default_factory=list)
    of_nothing: list[Case] = field(default_factory=list)
    """Cases whose outputs are all empty: they have what the others leave of `MOST_PLANS`."""
    refused: list[tuple[Numbers, SardonyxError]] = field(default_factory=list)
    """Cases that the graph makes no sense for, and why."""
    undecided: list[str] = field(default_factory=list)
    """What elements of inputs would decide, and why there is no plan for it."""

    def make(self) -> list[Plan]:
        """All plans, the most general one first. Raises SardonyxError where there is no size that works."""
        general = GeneralCase(self.compiler, self.sizes, self.typical, self.relations, self.values)
        self._begin(general)
        self._cover(general)
        self._specialize()
        self._stretch()
        self._add_empty()
        if not self.refusals():
            self.refused += [each for each in general.refused if self._accepted(each[0], {}) is None]
        return [case.plan for case in self.cases]

    def _begin(self, general: GeneralCase) -> None:
        """Have the plan of the general case: the first that holds for its own numbers, or the first one.

        What cannot be in a branch or a body shows in guards that contradict.
        """
        tried: list[tuple[Case, Relations]] = []
        for numbers, self.relations in general.find():
            tried.append((Case(self._compiled(numbers, {}), numbers), self.relations))
            if self._holds(tried[-1][0], numbers, {}):
                tried = tried[-1:]
                break
        case, self.relations = tried[0]
        self.cases.append(case)

    def refusals(self) -> list[str]:
        """Sizes that no plan is for, with what keeps them from having one, in words: none of them is 0."""
        lines: dict[str, str] = {}
        for numbers, error in self.refused:
            if all(numbers.values()):
                sizes = ", ".join(f"{name} = {numbers[name]}" for name in self._free())
                lines.setdefault(str(error), f"{sizes}: {error}")
        return [*lines.values(), *self.undecided]

    def _cover(self, general: GeneralCase) -> None:
        """Have plans for what the plans so far do not hold for."""
        count = 0
        while count < len(self.cases):
            count = len(self.cases)
            for numbers in self._points(1):
                self._add_new(numbers)
            for name in self._free():
                self._widen(name)
        for numbers in self._points(1, 0):
            self._add_new(numbers)
        for case in list(self.cases):
            self._flip(case, general)

    def _points(self, *few: int) -> list[Numbers]:
        """Combinations of more and few of each size, those first that differ least from the general case."""
        free = self._free()
        general = self.cases[0].numbers
        choices = [
            dict.fromkeys((general[name], max(general[name], 2), *(case.numbers[name] for case in self.cases), *few))
            for name in free
        ]
        found = sorted(
            product(*choices),
            key=lambda point: sum(number != general[name] for number, name in zip(point, free, strict=True)),
        )
        return [self._told(dict(zip(free, point, strict=True))) for point in found[:MOST_POINTS]]

    def _widen(self, name: str) -> None:
        """Have plans for sizes just beyond those that the plans so far take, and for those that a plan leaves out."""
        symbol_ = self.sizes.symbols[name]
        found = intervals([case.plan for case in self.cases], symbol_)
        lows, highs = [low - 1 for low, _ in found if low > 2], [high + 1 for _, high in found if 0 < high < LARGEST]
        unlike = [each for each, relation, truth in self.cases[0].plan.guards if (relation, truth) == ("==", False)]
        holes = [crossing(each, [symbol_]) for each in unlike if symbols_of(each) == {symbol_}]
        left_out = [hole for hole in holes if hole is not None][:FEW_GAPS]
        beyond = dict.fromkeys((*left_out, *lows[:1], *highs[:FEW_GAPS], *highs[-1:]))
        for number in beyond:
            self._add_new(self._told({each: self.cases[0].numbers[each] for each in self._free()} | {name: number}))

    def _flip(self, case: Case, general: GeneralCase) -> None:
        """Have plans for elements of inputs that decide otherwise than in this case, of equal sizes if need be."""
        read = {name for port in case.plan.inputs for name in port.symbols}
        read.update(name for step in case.plan.steps if isinstance(step, Read) for name in step.symbols)
        for expression, relation, _ in list(case.plan.guards):
            symbols = symbols_of(expression)
            if relation not in ("==", ">=") or len(symbols) > 1 or not symbols <= read:
                continue
            for number in READ:
                told = dict.fromkeys(symbols, number)
                if self._accepted(case.numbers, told) is None:
                    count = len(self.refused)
                    self._add(case.numbers, told)
                    if self.refused[count:]:
                        with suppress(SardonyxError):
                            numbers, relations, _ = general.settled(case.numbers, Force.RELATIONS, self.relations, told)
                            del self.refused[count:]
                            self._add(numbers, told, relations)
                    why = [f"elements of inputs that decide otherwise: {error}" for _, error in self.refused[count:]]
                    self.undecided += why if number < READ[-1] else []  # there may be no more than a few
                    del self.refused[count:]

    def _specialize(self) -> None:
        """Have plans for sizes of 1, alone and together, where much of the code is another, and no element decides."""
        decided = (symbols_of(guard[0]) - case.plan.symbols.keys() for case in self.cases for guard in case.plan.guards)
        if any(decided):
            return
        worth = [name for name in self._free() if self._special([name])]
        for number in range(2, len(worth) + 1):
            for names in combinations(worth, number):
                self._special(names)

    def _special(self, names: Sequence[str]) -> bool:
        """Whether sizes of 1 for these names have a plan of their own from now on."""
        ones = dict.fromkeys(names, 1)
        numbers = self._told({name: self.cases[0].numbers[name] for name in self._free()} | ones)
        general = self._accepted(numbers, {})
        if general is None or general.numbers == numbers or len(self.cases) == MOST_PLANS:
            return False
        plan = self._compiled(numbers, {})
        if _difference(plan, general.plan) <= ANOTHER:
            return False
        held = [point for point in self._points(1, 0) if self._accepted(point, {})]
        is_one = (reduce(mul, (symbol(self.sizes.symbols[name]) for name in names)) - ONE).json()
        others = [case.plan for case in self.cases if self._holds(case, numbers, {})]
        for other in others:
            other.guards.append([is_one, "==", False])
        plan.guards.append([is_one, "==", True])
        self.cases.append(Case(plan, numbers))
        if all(self._accepted(point, {}) for point in held):
            return True
        self.cases.pop()
        for other in others:
            other.guards.pop()
        return False

    def _stretch(self) -> None:
        """Have plans for sizes of 1 that are stretched to others, which are equal to them in the general case."""
        names = {symbol_: name for name, symbol_ in self.sizes.symbols.items()}
        for told, polynomial in list(self.relations.items()):
            if (symbol_ := str(polynomial)) not in names:
                continue
            others = {name: each for name, each in self.relations.items() if name != told}
            for one in (told, symbol_):
                numbers = {**self.cases[0].numbers, names[one]: 1}
                if self._accepted(numbers, {}) is None:
                    self._add(self.sizes.told(numbers, others), {}, others)

    def _free(self) -> list[str]:
        """The sizes that no relation tells."""
        open_ = [name for name, symbol_ in self.sizes.symbols.items() if symbol_ not in self.relations]
        return [name for name in open_ if name not in self.sizes.rooms]

    def _told(self, numbers: Numbers) -> Numbers:
        return self.sizes.told({**dict.fromkeys(self.sizes.names, 0), **numbers}, self.relations)

    def _accepted(self, numbers: Numbers, read: Numbers) -> Case | None:
        """The case whose plan holds for these numbers."""
        return next((case for case in self.cases if self._holds(case, numbers, read)), None)

    def _holds(self, case: Case, numbers: Numbers, read: Numbers) -> bool:
        return holds(case.plan, self.sizes.sized(numbers, self.values), read)

    def _symbols(self, numbers: Numbers) -> Numbers:
        return {symbol_: numbers[name] for name, symbol_ in self.sizes.symbols.items()}

    def _add_new(self, numbers: Numbers) -> None:
        """Have a plan for these numbers, if none holds for them and none has failed."""
        tried = [*(failed for failed, _ in self.refused), *(case.numbers for case in self.of_nothing)]
        if self._accepted(numbers, {}) is None and numbers not in tried:
            self._add(numbers, {})

    def _add(self, numbers: Numbers, read: Numbers, relations: Relations | None = None) -> None:
        """Have a plan for this case, if the graph makes sense there."""
        if len(self.cases) == MOST_PLANS:
            self.refused.append((numbers, Fail(f"{MOST_PLANS} plans are made for other sizes: tell some of them")))
            return
        try:
            case = Case(self._compiled(numbers, read, relations), numbers)
        except SardonyxError as error:
            self.refused.append((numbers, error))
        else:
            if self._holds(case, numbers, {}):
                (self.cases if all(numbers.values()) or self._gives(case) else self.of_nothing).append(case)

    def _add_empty(self) -> None:
        """Have the plans of nothing alone for which there is room."""
        for case in self.of_nothing[: MOST_PLANS - len(self.cases)]:
            if self._accepted(case.numbers, {}) is None:
                self.cases.append(case)

    def _gives(self, case: Case) -> bool:
        """Whether there is anything in an output."""
        known = self._symbols(case.numbers)
        shapes = [[size for size in port.shape if symbols_of(size) <= known.keys()] for port in case.plan.outputs]
        return any(all(evaluate(size, known) for size in shape) for shape in shapes)

    def _compiled(self, numbers: Numbers, hints: Numbers, relations: Relations | None = None) -> Plan:
        relations = self.relations if relations is None else relations
        feeds, arguments = self.sizes.feeds(numbers, self.values), self.sizes.arguments
        return self.compiler.compile(feeds, hints, arguments, relations=relations)


def _difference(plan: Plan, other: Plan) -> float:
    """The part of the launches of a plan that run what the other plan does not."""
    mine, others = _launched(plan), _launched(other)
    return (mine - others).total() / max(mine.total(), 1)


def _launched(plan: Plan) -> Counter[str]:
    codes = [json.dumps(code, sort_keys=True) for code in plan.codes]
    return Counter(codes[step.code] for step in plan.steps if isinstance(step, Launch))
