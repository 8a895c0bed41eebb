"""Control flow whose way is known."""

from sardonyx.passes.control import if_of_constant
from tests.passes.checking import check

X = "float32[2] x"


def branches(condition: str) -> str:
    return f"""{condition} k = Exp(x) y = If(c) <
        then_branch = t () => (p) {{ float32 two = 2 h = Mul(k, two) p = Relu(h) }},
        else_branch = e () => (q) {{ q = Neg(x) }} >"""


def test_a_condition_that_is_constant_chooses_a_branch():
    check(if_of_constant, X, branches("bool c = 1"), "float32 two = 2 k = Exp(x) h = Mul(k, two) y = Relu(h)")
    check(if_of_constant, X, branches("bool[1] c = {0}"), "y = Neg(x)")


def test_a_condition_that_is_computed_stays():
    check(if_of_constant, X, branches("s = ReduceSum<keepdims = 0>(x) float32 z = 0 c = Less(s, z)"))


def test_a_condition_that_depends_on_sizes_is_folded_first():
    condition = "n = Size(x) int64 two = 2 c = Equal(n, two)"
    check(if_of_constant, X, branches(condition), "float32 two = 2 k = Exp(x) h = Mul(k, two) y = Relu(h)", only=False)


def test_branches_inside_a_branch_are_chosen_too():
    other = "else_branch = e () => (q) { q = Exp(x) }>"
    inner = "If(d) <then_branch = a () => (r) { r = Neg(x) }, else_branch = b () => (s) { s = Abs(x) }>"
    text = f"bool d = 0 y = If(c) <then_branch = t () => (p) {{ p = {inner} }}, {other}"
    check(if_of_constant, X, f"bool c = 1 {text}", "y = Abs(x)")
    check(if_of_constant, f"bool c, {X}", text, f"y = If(c) <then_branch = t () => (s) {{ s = Abs(x) }}, {other}")


def test_a_branch_may_give_back_what_is_outside():
    text = """bool c = 1 k = Exp(x)
              h = If(c) <then_branch = t () => (p) { p = Identity(k) }, else_branch = e () => (q) { q = Neg(x) }>
              y = Neg(h)"""
    check(if_of_constant, X, text, "k = Exp(x) p = Identity(k) y = Neg(p)")
