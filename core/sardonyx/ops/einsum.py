"""Einstein summation."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sardonyx import primitives as p
from sardonyx.common.record import record
from sardonyx.ops.operator import Operator, sample
from sardonyx.primitives.array import Array
from sardonyx.sizes.symbolic import Size


@record(frozen=True)
class Term:
    """An operand whose axes have labels; the axes of an ellipsis are labelled by their distance from its end."""

    array: Array
    labels: tuple[str, ...]

    def size(self, label: str) -> Size:
        return self.array.shape[self.labels.index(label)]


class Einsum(Operator, since=12):
    """Sums of products of elements whose axes share labels: `bij,bjk->bik`; `...` stands for axes that broadcast."""

    equation: str

    def expand(self, *operands: Array) -> Array:
        text = self.equation.replace(" ", "")
        left, arrow, right = text.partition("->")
        names = left.split(",")
        if len(names) != len(operands):
            raise ValueError(f"equation {self.equation!r} names {len(names)} operands, but there are {len(operands)}")
        terms = [_term(array, name) for array, name in zip(operands, names, strict=True)]
        result = _labels(right if arrow else _implied_result(left), _ellipsis_rank(terms))
        terms = _without_stretched(terms)
        last = {label: k for k, term in enumerate(terms) for label in term.labels}
        total = _summed(terms[0], {*result, *(label for label in last if last[label] > 0)})
        for k, term in enumerate(terms[1:], 1):
            needed = {*result, *(label for label in last if last[label] > k)}
            total = _product(total, _summed(term, {*needed, *total.labels}), needed)
        absent = [label for label in result if label not in total.labels]
        if absent:
            raise ValueError(f"equation {self.equation!r} has {absent[0]!r} in its result, but in no operand")
        return p.transpose(total.array, [total.labels.index(label) for label in result])

    samples = [
        sample((3, 4), (4, 5), equation="ij,jk->ik"),
        sample((3, 4), (4, 5), equation="ij,jk"),
        sample((2, 3, 4), (2, 4, 5), equation="bij, bjk -> bik"),
        sample((2, 3, 4), (1, 4, 5), equation="...ij,...jk->...ik"),
        sample((2, 1, 3, 4), (5, 4, 2), equation="...ij,...jk"),
        sample((3, 3), equation="ii->i"),
        sample((3, 3), equation="ii"),
        sample((2, 3, 3), equation="...ii->...i"),
        sample((2, 3), equation="ij->ji"),
        sample((2, 3), equation="ij->j"),
        sample((2, 3), (3,), (2,), equation="ij,j,i->"),
        sample((2,), (3,), equation="i,j->ij"),
        sample((2, 3), (2, 3), equation="ij,ij->ij"),
        sample((), (3,), equation=",i->i"),
        sample((2, 3, 2), (2, 2), equation="iji,ik->jk"),
        sample((2, 3), (3, 4), (4, 5), equation="ab,bc,cd->ad"),
        sample((0, 3), (3, 2), equation="ij,jk->ik"),
    ]


def _labels(name: str, ellipsis_rank: int) -> tuple[str, ...]:
    before, dots, after = name.partition("...")
    middle = [f"...{k}" for k in range(ellipsis_rank, 0, -1)] if dots else []
    return (*before, *middle, *after)


def _term(array: Array, name: str) -> Term:
    """The operand with its labels; where a label occurs twice, the diagonal of its axes."""
    explicit = len(name.replace("...", ""))
    if explicit > array.rank or ("..." not in name and explicit != array.rank):
        raise ValueError(f"{name!r} does not label the axes of an operand of shape {p.show(array.shape)}")
    labels = list(_labels(name, array.rank - explicit))
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            array = _diagonal(array, first, second)
            del labels[second]
    return Term(array, tuple(labels))


def _diagonal(x: Array, first: int, second: int) -> Array:
    if not x.shape[first] == x.shape[second]:
        raise ValueError(f"axes {first} and {second} of {p.show(x.shape)} have one label, but two sizes")
    places = p.iota((x.shape[first],), 0)
    return p.gather(x, [places, places], [first, second], first)


def _ellipsis_rank(terms: Sequence[Term]) -> int:
    return max(sum(len(label) > 1 for label in term.labels) for term in terms)


def _implied_result(subscripts: str) -> str:
    """The axes of the ellipsis, then the labels that occur once, in alphabetical order."""
    return "..." + "".join(sorted(label for label in subscripts if label.isalpha() and subscripts.count(label) == 1))


def _without_stretched(terms: Sequence[Term]) -> list[Term]:
    """The operands without the axes of size 1 that other operands stretch."""
    result = []
    for term in terms:
        stretched = [label for label in term.labels if _is_stretched(term, label, terms)]
        axes = [term.labels.index(label) for label in stretched]
        labels = tuple(label for label in term.labels if label not in stretched)
        result.append(Term(p.squeeze(term.array, axes), labels))
    return result


def _is_stretched(term: Term, label: str, terms: Sequence[Term]) -> bool:
    size = term.size(label)
    for other in terms:
        if label not in other.labels or other.size(label) == size:
            continue
        if size == 1:
            return True
        if not other.size(label) == 1:
            raise ValueError(f"axes of sizes {size} and {other.size(label)} have one label, {label!r}")
    return False


def _summed(term: Term, needed: Collection[str]) -> Term:
    gone = [axis for axis, label in enumerate(term.labels) if label not in needed]
    return Term(p.sum_(term.array, gone), tuple(label for label in term.labels if label in needed))


def _product(a: Term, b: Term, needed: Collection[str]) -> Term:
    """The product of two operands, summed over the labels that both have and nothing asks for any more."""
    common = [label for label in a.labels if label in b.labels]
    batch = [label for label in common if label in needed]
    contract = [label for label in common if label not in needed]
    if not contract:
        return _elementwise_product(a, b)
    contracted, batched = (
        ([a.labels.index(label) for label in labels], [b.labels.index(label) for label in labels])
        for labels in (contract, batch)
    )
    free = [label for label in (*a.labels, *b.labels) if label not in common]
    return Term(p.dot_general(a.array, b.array, contracted, batched), (*batch, *free))


def _elementwise_product(a: Term, b: Term) -> Term:
    extra = [label for label in b.labels if label not in a.labels]
    labels = (*a.labels, *extra)
    left = p.reshape(a.array, (*a.array.shape, *[1] * len(extra)))
    order = sorted(b.labels, key=labels.index)
    right = p.transpose(b.array, [b.labels.index(label) for label in order])
    right = p.unsqueeze(right, [axis for axis, label in enumerate(labels) if label not in order])
    return Term(left * right, labels)
