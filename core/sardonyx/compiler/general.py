"""The general case of a graph whose sizes are open: numbers for them, and what it forces.

Numbers are made up for open sizes, no two of them alike, so that what the graph forces of them shows: where it makes no
sense, the sizes that it last found to differ are equal from then on (`T = S + P`), and it is tried again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import suppress
from itertools import product

import numpy as np

from sardonyx.common.record import field, record
from sardonyx.compiler.compile import Compiler, Force, UnsettledError, relate
from sardonyx.compiler.open_sizes import OpenSizes
from sardonyx.errors import Fail, InvalidArgument, NotImplemented, SardonyxError
from sardonyx.plans.wording import renamed
from sardonyx.sizes.expression import to_text
from sardonyx.sizes.polynomial import Poly

STARTS = ((64, 32), (16, 8), (320, 64), (16000, 160), (4, 1))
"""What numbers are made up from: the first one, and what is added from one size to the next."""
ONES = (1, 0)
"""What is left when nothing else makes sense."""

Numbers = Mapping[str, int]
Relations = MutableMapping[str, Poly]


@record
class GeneralCase:
    """More than one of everything, or as much as the graph bears.

    `typical` are numbers that are given by name, `relations` what is given of symbols; `values` are those of inputs
    whose elements count. `refused` are the numbers that were tried first, and why not, where only few are left.
    """

    compiler: Compiler
    sizes: OpenSizes
    typical: Numbers
    relations: Relations
    values: Mapping[str, np.ndarray]
    refused: list[tuple[Numbers, SardonyxError]] = field(default_factory=list)

    def find(self) -> Iterator[tuple[Numbers, Relations]]:
        """Numbers by name with all relations that the graph forces: those first of which the least is forced.

        Those for which a picture has no patch, say, come last.
        Raises SardonyxError where no numbers make sense.
        """
        errors: list[SardonyxError] = []
        for is_first_alone in (True, False):
            makes_sense = False
            for each in self._found(is_first_alone, errors):
                makes_sense = True
                yield each
            if makes_sense or not self.sizes.first():
                break
        if makes_sense:
            return
        if not self.sizes.names:
            raise errors[0]
        made_up = ", ".join(self.sizes.names)
        raise Fail(
            f"{errors[0]}; no sizes that were made up for {made_up} make sense: say typical ones, as in --size"
            f" {self.sizes.names[0]}=?16"
        ) from errors[0]

    def _found(self, is_first_alone: bool, errors: list[SardonyxError]) -> Iterator[tuple[Numbers, Relations]]:
        """What of `find` has first axes of one, or as large as the others; `errors` grows."""
        refused: list[tuple[Numbers, SardonyxError]] = []
        empty: list[tuple[Numbers, Relations]] = []
        for force, start in (*product((Force.RELATIONS, Force.NUMBERS), STARTS), (Force.RELATIONS, ONES)):
            if start == ONES and empty:
                self.refused += refused
                yield from empty
            found: list[tuple[int, Numbers, Relations]] = []
            names = [name for name in self.sizes.names if name not in {*self.sizes.first(), *self.sizes.rooms}]
            for largest in [None, *(names if len(names) > 2 else ())]:
                made = self._made_up(start, largest, is_first_alone)
                try:
                    numbers, relations, is_empty = self.settled(made, force, self.relations)
                except (InvalidArgument, NotImplemented):  # at any size
                    raise
                except SardonyxError as error:
                    errors.append(error)
                    if start == STARTS[0] and largest is None:
                        refused = [(made, error)]
                else:
                    if is_empty and start != ONES:
                        empty = empty or [self._of_several(numbers, relations)]
                        continue
                    weight = sum(len(polynomial.symbols()) - 1 for polynomial in relations.values())
                    found.append((weight, numbers, relations))
            if found:
                if start in (STARTS[-1], ONES):
                    self.refused += refused
                _, numbers, relations = max(found, key=lambda each: each[0])
                yield self._of_several(numbers, relations)

    def _of_several(self, numbers: Numbers, relations: Relations) -> tuple[Numbers, Relations]:
        """These numbers and relations, or such with first axes of more than one, where the graph bears that."""
        more = dict(numbers)
        for number, name in enumerate(sorted(self.sizes.first() - {*self.typical})):
            more[name] = max(more[name], 2 + number)
        with suppress(SardonyxError):
            return self.settled(more, Force.RELATIONS, relations)[:2]
        return numbers, relations

    def _made_up(self, start: tuple[int, int], largest: str | None, is_first_alone: bool) -> dict[str, int]:
        """Numbers for all sizes, no two of them alike but the ones of first axes; one may be larger than all together.

        First axes are 1 if `is_first_alone`.
        """
        leading = self.sizes.first() if is_first_alone else set()
        number, step = start
        made = {}
        for name in self.sizes.names:
            made[name] = 1 if name in leading else number
            number += step * (name not in leading)
        if largest is not None:
            made[largest] = sum(made.values()) + step
        return made | dict(self.typical)

    def settled(
        self, made: Numbers, force: Force, known: Relations, read: Numbers | None = None
    ) -> tuple[Numbers, Relations, bool]:
        """These numbers, or those that follow where the graph forces some of them, with all relations.

        `read` are numbers that elements tell. The last result is whether something was left empty, that decided.
        """
        numbers, relations = dict(made), dict(known)
        progress = -1
        while True:
            told = self.sizes.told(numbers, relations)
            feeds = self.sizes.feeds(told, self.values)
            try:
                trace, _ = self.compiler.trace(
                    feeds, read or {}, self.sizes.arguments, relations=relations, force=force
                )
            except UnsettledError as error:
                if error.progress <= progress:
                    raise error.reason from None
                progress = error.progress
                self._relate(error, numbers, relations)
            else:
                trace.dissolve()
                return self.sizes.told(numbers, relations), relations, trace.guards.is_empty

    def _relate(self, error: UnsettledError, numbers: dict[str, int], relations: Relations) -> None:
        """Have a relation from now on, or other numbers, that agree with it and with those that are given."""
        names = {symbol_: name for name, symbol_ in self.sizes.symbols.items()}
        if isinstance(error.solved, dict):
            same = {names[symbol_]: number for symbol_, number in error.solved.items()}
            if same.keys() & {*self.typical, *(names[symbol_] for symbol_ in relations)}:
                raise error.reason
            numbers.update(same)
            return
        polynomial = error.solved.polynomial
        name = names[error.solved.symbol]
        relate(relations, error.solved)
        if name not in self.typical:
            return
        wanted, told = self.typical[name], self.sizes.told(numbers, relations)[name]
        for part in sorted(names[part] for part in polynomial.symbols()):
            if part in self.typical or numbers[part] + wanted - told < 0:
                continue
            moved = numbers | {part: numbers[part] + wanted - told}
            if self.sizes.told(moved, relations)[name] == wanted:
                numbers.update(moved)
                return
        if told != wanted:
            text = to_text(renamed(polynomial.json(), names))
            raise InvalidArgument(f"{name} is {text}, {told} here and not {wanted}: else {error.reason}") from error
