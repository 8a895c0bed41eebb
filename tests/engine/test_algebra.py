"""The algebra of sizes against brute force: what it says holds at every point of a small grid."""

from __future__ import annotations

import itertools
import json
import operator
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sardonyx.sizes.expression import evaluate
from sardonyx.sizes.functions import substitute
from sardonyx.sizes.guards import guard_text
from sardonyx.sizes.joining import joined
from sardonyx.sizes.polynomial import Ranges, constant, symbol, within
from sardonyx.sizes.sizecode import Fit, Values, compile_all, symbols_of
from sardonyx.sizes.symbolic import Dim, Guards, Size, hint, maximum, minimum, poly, product, same
from tests.engine.sizes import INDICES, OPERATORS, RANGES, SIZES, Expression, at, build, expressions, sums, values
from tests.support.node import run

careful = settings(derandomize=True, database=None, deadline=None, max_examples=200)
SIZE = ("s", "t", "?c")
INDEX = (*SIZE, "i", "j", "k")
POINTS = st.integers(0, SIZES["s"].size - 1)
RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


# ---- polynomials


@careful
@given(expressions(*SIZE))
def test_sizes_keep_their_values(expression: Expression) -> None:
    wanted, whole = values(expression, SIZES)
    found, _ = values(build(expression).json(), SIZES)
    np.testing.assert_array_equal(found[whole], wanted[whole])


@careful
@given(st.integers(-9, 9), st.integers(1, 5), st.integers(-9, 9), st.integers(1, 5))
def test_quotients_of_quotients_are_one(inner: int, first: int, outer: int, second: int) -> None:
    """So a size that two convolutions make is the one that an exporter writes in a shape."""
    size = Dim(symbol("s"))
    halved = ((size + inner) // first + outer) // second
    at_once = (size + (inner + outer * first)) // (first * second)
    wanted, _ = values(["floordiv", ["+", ["floordiv", ["+", "s", inner], first], outer], second], SIZES)
    np.testing.assert_array_equal(values(poly(halved).json(), SIZES)[0], wanted)
    assert same(halved, at_once)


@careful
@given(expressions(*INDEX))
@example(["mod", "i", "s"])
@example(["mod", "j", 3])
@example(["floordiv", "j", 3])
@example(["mod", ["+", "i", 1], "s"])
@example(["mod", ["+", 3, ["*", -1, "j"]], 3])
@example(["floordiv", ["+", -1, ["*", -1, "i"]], "s"])
@example(["mod", ["+", -1, ["*", -1, "i"]], "s"])
@example(["min", "j", 3])
@example(["max", "k", "t"])
def test_indices_keep_their_values(expression: Expression) -> None:
    wanted, whole = values(expression, INDICES)
    found, _ = values(build(expression, RANGES).json(), INDICES)
    np.testing.assert_array_equal(found[whole], wanted[whole])


@careful
@given(sums("j", "i"), st.integers(1, 24), st.integers(1, 4))
def test_what_is_smaller_than_its_divisor_vanishes(index: Expression, number: int, factor: int) -> None:
    """As long as bounds are known: an index below its size is its own remainder, and what is not is none."""
    divisor = constant(number) * symbol("s") if "i" in symbols_of(index) else constant(number)
    multiple = constant(factor) * divisor
    value, below = values(index, INDICES)[0], values(divisor.json(), INDICES)[0]
    fits = bool((value < below).all())
    inner = build(index, RANGES)
    if within(inner, divisor, RANGES):
        assert fits
        assert (inner + multiple).mod(divisor, RANGES) == inner
        assert (inner + multiple).floordiv(divisor, RANGES) == constant(factor)
    else:
        assert not fits or divisor.symbols()


@careful
@given(st.integers(1, 4), st.integers(2, 6), st.booleans())
def test_what_is_smaller_than_a_part_of_its_divisor_vanishes(factor: int, count: int, is_open: bool) -> None:
    """So a channel's group is told by the channel alone, not by the place within it."""
    part, below = (symbol("s").scaled(factor), "i") if is_open else (constant(4 * factor), "j")
    channel = symbol("j").scaled(3) if is_open else symbol("k")
    index, divisor = channel * part + symbol(below), part.scaled(count)
    group, rest = channel.floordiv(constant(count), RANGES), channel.mod(constant(count), RANGES)
    assert index.floordiv(divisor, RANGES) == group
    assert index.mod(divisor, RANGES) == rest * part + symbol(below)
    for function, wanted in (("floordiv", group), ("mod", rest * part + symbol(below))):
        expected, _ = values([function, index.json(), divisor.json()], INDICES)
        np.testing.assert_array_equal(values(wanted.json(), INDICES)[0], expected)


@careful
@given(expressions("s", "i", "j"), st.integers(1, 3), st.integers(-3, 0))
@example(["floordiv", ["+", ["*", -3, "i"], ["*", 2, ["*", "i", "s"]]], ["+", "s", -1]], 1, -1)
def test_that_an_axis_has_an_element_tells_of_sizes(expression: Expression, factor: int, below: int) -> None:
    extent = symbol("s").scaled(factor) + constant(below)
    ranges = Ranges({"i": (constant(0), extent - constant(1)), "j": (constant(0), constant(3))})
    ranges.walk(extent)
    points = [(s, i, j) for s in range(1, 6) for i in range(factor * s + below) for j in range(4)]
    grid = {name: np.array(column, np.int64) for name, column in zip("sij", zip(*points), strict=True)}
    wanted, whole = values(expression, grid)
    found, _ = values(build(expression, ranges).json(), grid)
    np.testing.assert_array_equal(found[whole], wanted[whole])


@pytest.mark.parametrize("size", ["s", ["+", "s", -1], ["floordiv", ["+", "s", 3], 4], ["+", -1, ["floordiv", "s", 4]]])
def test_rows_of_positions_that_are_shifted_take_no_quotients(size: Expression) -> None:
    """As Transformer-XL does: [q, 2q - 1] with a column more is [2q, q], which without a row is [q, 2q - 1] again."""
    q, one = build(size), constant(1)
    ranges = Ranges({name: (constant(0), q - one) for name in "ik"} | {"b": (constant(0), symbol("n") - one)})
    ranges.walk(q)
    i, k, b = (symbol(name) for name in "ikb")
    wide, rows = q.scaled(2) - one, q.scaled(2)
    flat = b * q * wide + i * wide + k
    row, column = flat.floordiv(q, ranges), flat.mod(q, ranges)
    batch, row = row.floordiv(wide, ranges), row.mod(wide, ranges)
    flat = joined(batch * rows * q + (row + one) * q + column)
    column, flat = flat.mod(rows, ranges), flat.floordiv(rows, ranges)
    assert (column, flat) == (q - i + k, b * q + i)
    assert (flat.mod(q, ranges), flat.floordiv(q, ranges)) == (i, b)


@careful
@given(sums("j"), st.integers(1, 24))
def test_whether_an_index_is_within_a_number_is_known(index: Expression, number: int) -> None:
    assert within(build(index), constant(number), RANGES) == bool((values(index, INDICES)[0] < number).all())


@careful
@given(expressions(*INDEX), expressions(*INDEX, most=3))
@example("j", 3)
@example("i", ["+", "s", -1])
@example(["+", "i", -1], "s")
@example("?c", "s")
def test_what_is_within_is_within(expression: Expression, bound: Expression) -> None:
    (index, whole), (limit, also) = values(expression, INDICES), values(bound, INDICES)
    if within(build(expression, RANGES), build(bound, RANGES), RANGES):
        assert (((index >= 0) & (index < limit)) | ~(whole & also)).all()


@careful
@given(expressions(*INDEX))
def test_bounds_hold(expression: Expression) -> None:
    value, whole = values(expression, INDICES)
    polynomial = build(expression, RANGES)
    for upper, holds in ((True, operator.le), (False, operator.ge)):
        limit = polynomial.bound(upper, RANGES)
        if limit is not None:
            assert limit.symbols().isdisjoint(RANGES)
            known, also = values(limit.json(), INDICES)
            assert (holds(value, known) | ~(whole & also)).all()
    if polynomial.is_nonnegative(RANGES):
        assert ((value >= 0) | ~whole).all()


@careful
@given(sums("i", "j", "k"), st.booleans())
def test_bounds_of_sums_are_the_nearest(expression: Expression, upper: bool) -> None:
    """For each size: what some index reaches."""
    limit = build(expression).bound(upper, RANGES)
    assert limit is not None
    value, known = values(expression, INDICES)[0], values(limit.json(), INDICES)[0]
    reached = {(s, t): k for s, t, k, v in zip(INDICES["s"], INDICES["t"], known, value) if k == v}
    assert set(reached) == set(zip(INDICES["s"], INDICES["t"]))


@careful
@given(expressions(*SIZE))
def test_what_is_never_negative(expression: Expression) -> None:
    value, whole = values(expression, SIZES)
    if build(expression).is_nonnegative():
        assert ((value >= 0) | ~whole).all()


@pytest.mark.parametrize("name", OPERATORS)
def test_signs_of_functions_are_known(name: str) -> None:
    for a, b in itertools.product(("s", "t", "?c"), repeat=2):
        value, whole = values([name, a, b], SIZES)
        if a != "?c" or b != "?c":
            assert build([name, a, b]).is_nonnegative() == bool((value[whole] >= 0).all()), (a, b)


@careful
@given(sums("s", "t"))
def test_sums_of_sizes_are_never_negative(expression: Expression) -> None:
    assert build(expression).is_nonnegative()
    assert not (build(expression).scaled(-1) - constant(1)).is_nonnegative()
    assert not (build(expression) + symbol("?c")).is_nonnegative()


@careful
@given(expressions(*SIZE), st.sampled_from([2, 4, 8, 12]))
def test_multiples_divide(expression: Expression, most: int) -> None:
    value, whole = values(expression, SIZES)
    divisor = build(expression).multiple_of(most)
    assert most % divisor == 0
    assert not (value[whole] % divisor).any()


@careful
@given(sums("s", "t"), st.sampled_from([2, 4, 8, 12]))
def test_multiples_of_sums_are_the_largest(expression: Expression, most: int) -> None:
    value, _ = values(expression, SIZES)
    assert build(expression).multiple_of(most) == np.gcd.reduce(np.append(value, most))


@careful
@given(expressions(*INDEX, most=6), expressions("s", "t", "j", most=3), expressions("t", "?c", most=3))
def test_substitution(expression: Expression, first: Expression, second: Expression) -> None:
    """Symbols are replaced at once, not one after the other."""
    (i, whole), (c, also) = values(first, INDICES), values(second, INDICES)
    wanted, defined = values(expression, {**INDICES, "i": i, "?c": c})
    ranges = Ranges({name: RANGES[name] for name in ("j", "k")})
    found = substitute(build(expression, ranges), {"i": build(first, ranges), "?c": build(second, ranges)}, ranges)
    valid = whole & also & defined & ((i >= 0) | ("i" not in symbols_of(expression)))  # a size is at least 0
    np.testing.assert_array_equal(values(found.json(), INDICES)[0][valid], wanted[valid])


@careful
@given(expressions(*INDEX, most=5), expressions("s", "t", most=2), expressions(*INDEX, most=3))
def test_quotient_and_remainder_join(whole: Expression, divisor: Expression, rest: Expression) -> None:
    x, n = build(whole), build(divisor)
    split = x.floordiv(n) * n + x.mod(n) + build(rest)
    value, defined = values(["+", ["*", ["floordiv", whole, divisor], divisor], ["mod", whole, divisor], rest], INDICES)
    found = joined(split)
    np.testing.assert_array_equal(values(found.json(), INDICES)[0][defined], value[defined])
    if whole == "i" and divisor == "t" and not symbols_of(rest):
        assert found == x + build(rest)


def test_quotient_and_remainder_of_a_symbol_join() -> None:
    i, t = symbol("i"), symbol("t")
    assert joined(i.floordiv(t) * t + i.mod(t)) == i
    assert joined(constant(3) * (i.floordiv(t) * t + i.mod(t)) + constant(1)) == constant(3) * i + constant(1)


@careful
@given(expressions("s", "t"))
def test_the_text_is_python(expression: Expression) -> None:
    value, whole = values(expression, SIZES)
    text = compile(str(build(expression)), "size", "eval")
    for point in np.flatnonzero(whole)[::7]:
        assert eval(text, {}, at(SIZES, point)) == value[point]


# ---- sizes that are compared


def sized(expression: Expression, symbols: dict[str, Dim]) -> Size:
    """The size of an expression, by Python's operators."""
    if not isinstance(expression, list):
        return symbols[expression] if isinstance(expression, str) else int(expression)
    name, first, *rest = expression
    found = sized(first, symbols)
    functions = {"+": operator.add, "*": operator.mul, "floordiv": operator.floordiv, "mod": operator.mod}
    for item in rest:
        found = ({"min": minimum, "max": maximum} | functions)[name](found, sized(item, symbols))
    return found


def holds(facts: Any) -> np.ndarray:
    """The points at which all guards say the same."""
    kept = np.ones(SIZES["s"].shape, bool)
    for polynomial, relation, truth in facts:
        value = values(polynomial.json(), SIZES)[0]
        kept &= ((value == 0) if relation == "==" else (value >= 0)) == truth
    return kept


def guards_at(point: int) -> tuple[Guards, dict[str, Dim]]:
    guards = Guards()
    return guards, {name: guards.symbol(name, number) for name, number in at(SIZES, point).items()}


@careful
@given(expressions(*SIZE, most=5), expressions(*SIZE, most=3), st.sampled_from(sorted(RELATIONS)), POINTS)
@example(["*", -1, "s"], 0, ">=", 0)
@example(0, ["+", "s", "t"], "<", 0)
def test_comparisons_say_the_truth_wherever_their_guards_hold(
    left: Expression, right: Expression, relation: str, point: int
) -> None:
    (a, whole), (b, also) = values(left, SIZES), values(right, SIZES)
    if not (whole & also)[point]:
        return
    guards, symbols = guards_at(point)
    with guards:
        found = RELATIONS[relation](sized(left, symbols), sized(right, symbols))
    kept = holds(guards)
    assert kept[point]
    assert found == RELATIONS[relation](a[point], b[point])
    assert (RELATIONS[relation](a, b)[kept & whole & also] == found).all()


@careful
@given(expressions(*SIZE, most=6), POINTS)
def test_numbers_of_sizes(expression: Expression, point: int) -> None:
    """A hint leaves no guard, `int` ties the size to its number, truth to whether it is 0."""
    value, whole = values(expression, SIZES)
    if not whole[point]:
        return
    for number, guarded in (
        (hint, lambda x: x == x),
        (int, lambda x: x == x[point]),
        (bool, lambda x: (x != 0) == (x[point] != 0)),
    ):
        guards, symbols = guards_at(point)
        with guards:
            found = number(sized(expression, symbols))  # type: ignore[operator]
        assert found == (bool(value[point]) if number is bool else value[point])
        kept = holds(guards)
        assert kept[point]
        assert guarded(value)[kept & whole].all()
        assert number is not hint or not guards.facts


@careful
@given(sums("s", "t"), sums("s", "t"), POINTS)
def test_what_the_algebra_proves_leaves_no_guard(expression: Expression, other: Expression, point: int) -> None:
    guards, symbols = guards_at(point)
    with guards:
        more = sized(expression, symbols)
        less = sized(other, symbols)
        total = more + less
        assert total >= more
        assert total + 1 > less
        assert total + 1 != less
        assert not total + 1 <= more
        assert not total < less
        assert same(total - less, more)
    assert not guards.facts


@careful
@given(st.lists(expressions(*SIZE, most=2), max_size=5), POINTS)
def test_products(factors: list[Expression], point: int) -> None:
    wanted, whole = values(["*", 1, *factors], SIZES)
    if not whole[point]:
        return
    guards, symbols = guards_at(point)
    with guards:
        found = product([sized(factor, symbols) for factor in factors])
    assert not guards.facts
    np.testing.assert_array_equal(values(poly(found).json(), SIZES)[0][whole], wanted[whole])


@pytest.mark.parametrize("other", [3, -2, "t"])
@pytest.mark.parametrize("name", ["sub", "add", "mul", "floordiv", "mod"])
@pytest.mark.parametrize("swapped", [False, True])
def test_operators_from_either_side(name: str, other: Any, swapped: bool) -> None:
    apply = getattr(operator, name)
    for point in range(SIZES["s"].size):
        guards, symbols = guards_at(point)
        a, b = symbols["s"], symbols.get(other, other)
        x, y = (number if isinstance(number, int) else hint_of(guards, number) for number in (a, b))
        left, right, m, n = (b, a, y, x) if swapped else (a, b, x, y)
        if n or name not in ("floordiv", "mod"):
            assert hint_of(guards, apply(left, right)) == apply(m, n)
            assert hint_of(guards, -a) == -x


def hint_of(guards: Guards, number: Size) -> int:
    with guards:
        return hint(number)


@careful
@given(expressions("s", "t", most=6), st.sampled_from(["==", ">="]), st.booleans())
@example(["+", -1, "s"], ">=", True)
@example(["+", 2, ["*", -3, "s"], "t"], ">=", False)
def test_guards_read_as_what_they_say(expression: Expression, relation: str, truth: bool) -> None:
    polynomial = build(expression)
    if polynomial.constant is not None:
        return
    value, whole = values(polynomial.json(), SIZES)
    text = guard_text(polynomial.json(), relation, truth)
    assert re.search(r"//|%|m..\(", text) or "-" not in text
    said = compile(text, "guard", "eval")
    for point in np.flatnonzero(whole)[::7]:
        assert eval(said, {}, at(SIZES, point)) == (
            (value[point] == 0 if relation == "==" else value[point] >= 0) == truth
        )


# ---- code for sizes

LISTS = st.lists(expressions(*SIZE), min_size=1, max_size=6)


@careful
@given(LISTS)
@example([["floordiv", ["+", -7, "s"], 2], ["mod", "?c", 3], ["mod", "?c", -3]])
@example([["floordiv", "s", "t"], ["mod", "s", "t"]])
def test_code_for_sizes(several: list[Expression]) -> None:
    """What is divided by 0 is 0; the first call walks through the expressions, later ones run code."""
    wanted = np.array([values(expression, SIZES)[0] for expression in several])
    evaluator = compile_all(several)
    for point in range(0, wanted.shape[1], 5):
        symbols = at(SIZES, point)
        assert list(evaluator(symbols)) == wanted[:, point].tolist()
        assert [evaluate(expression, symbols) for expression in several] == wanted[:, point].tolist()


@careful
@given(LISTS, st.lists(st.integers(0, 5), max_size=12))
def test_values_of_many_expressions(several: list[Expression], picked: list[int]) -> None:
    """Equal expressions, wherever they stand, have one value, and each has its own."""
    many = [*several, *(json.loads(json.dumps(several[k % len(several)])) for k in picked)]
    found = Values(many)
    for point in range(0, SIZES["s"].size, 5):
        distinct = found.distinct(at(SIZES, point))
        array = found.array(distinct)
        assert array is not None
        assert array.tolist() == [evaluate(expression, at(SIZES, point)) for expression in many]
        assert [distinct[place] for place in found.places] == array.tolist()
    assert len(distinct) == len({json.dumps(expression) for expression in many})


def test_values_of_more_than_64_bits() -> None:
    found = Values(["s", ["*", "s", "s"]])
    assert found.array(found.distinct({"s": 1 << 31})) is not None
    assert found.array(found.distinct({"s": 1 << 32})) is None


FITS = st.tuples(
    st.lists(st.lists(expressions("s", "t", most=3), max_size=3), max_size=3),
    st.lists(st.tuples(expressions("s", "t"), st.sampled_from(["==", ">="]), st.booleans()), max_size=3),
)


@careful
@given(FITS, st.lists(st.integers(0, 1), min_size=8, max_size=8))
def test_what_shapes_fit(fits: Any, wrong: list[int]) -> None:
    """Walked and compiled, it is what ports and all places of a symbol say; guards of other symbols are left out."""
    ports, guards = fits
    ports = [["s", 7, "t"], ["t", "s"], *ports]
    places = {"s": [[0, 0], [1, 1]], "t": [[0, 2], [1, 0], [1, 9]]}
    foreign = [["+", "s", "?c"], "==", True]
    walked, ran = ([Fit(ports, places, [*guards, foreign]) for _ in range(2)] for _ in range(2))
    for fit in ran:
        fit([()] * len(ports))
    for s, t in itertools.product(range(4), range(3)):
        symbols = {"s": s, "t": t}
        shapes = [tuple(int(evaluate(size, symbols)) for size in port) for port in ports]
        holds = all(RELATIONS[relation](evaluate(size, symbols), 0) == truth for size, relation, truth in guards)
        off = [(*shape, *[1] * more) for shape, more in zip(shapes, wrong, strict=False)] + shapes[len(wrong) :]
        for fit in (Fit(ports, places, guards), *ran):
            assert fit(shapes) == (symbols if holds else None)
            assert fit(off) == (symbols if holds and off == shapes else None)
            assert fit([(s, 7, t), (t, s + 1), *shapes[2:]]) is None
    assert walked


SCRIPT = """
const { broken, evaluate, isKnown, symbolsOf } = await load("sizes.js");
const { sizes, points, guards } = given;
return {
  values: points.map((point) => sizes.map((size) => evaluate(size, point))),
  symbols: sizes.map((size) => [...symbolsOf(size)].sort()),
  known: sizes.map((size) => isKnown(size, { s: 1 })),
  broken: points.map((point) => guards.map((guard) => Boolean(broken([guard], point)))),
};
"""


def test_sizes_in_a_page() -> None:
    """The page runtime gives what Python does, and finds the same guards broken."""
    several: list[Expression] = [1, "s", ["+", "s", -3, "?c"], ["*", 2, "s", "t"]]
    for name in OPERATORS:
        several += [[name, left, right] for left in ("s", "?c", -7, ["+", "s", -4]) for right in ("t", "?c", 3, -2)]
    guards = [
        [expression, relation, truth] for expression in several for relation in ("==", ">=") for truth in (True, False)
    ]
    points = list(range(0, SIZES["s"].size, 5))
    told = {"sizes": several, "points": [at(SIZES, point) for point in points], "guards": guards}
    found = run(SCRIPT, told)
    wanted = {json.dumps(expression): values(expression, SIZES)[0][points] for expression in several}
    assert found["values"] == np.array(list(wanted.values())).T.tolist()
    assert found["symbols"] == [sorted(symbols_of(expression)) for expression in several]
    assert found["known"] == [symbols_of(expression) <= {"s"} for expression in several]
    for expression, relation, truth in guards:
        value = wanted[json.dumps(expression)]
        said = ((value == 0) if relation == "==" else (value >= 0)) != truth
        assert [row.pop(0) for row in found["broken"]] == said.tolist()
