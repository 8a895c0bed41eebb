"""Records, compared with dataclasses, whose contract they have."""

import copy
import dataclasses
import inspect
import pickle

import pytest

from sardonyx.common import record as records
from sardonyx.common.record import FrozenError, field, record, replace


def both(**options):
    """The same class twice: a dataclass, and a record."""

    def made(decorate, field):
        class Shape:
            sizes: list[int] = field(default_factory=list)
            name: str = ""
            note: str = field(default="", compare=False, repr=False, kw_only=True)

        Shape.__qualname__ = "Shape"
        return decorate(**options)(Shape)

    return made(dataclasses.dataclass, dataclasses.field), made(record, field)


@record(frozen=True)
class Base:
    a: int
    b: int = 2


@record(frozen=True)
class Derived(Base):
    c: int = 3


@record
class Checked:
    value: int

    def __post_init__(self) -> None:
        self.twice = 2 * self.value


@pytest.mark.parametrize("options", [{}, {"frozen": True}, {"eq": False}, {"repr": False}])
def test_contract(options):
    theirs, ours = both(**options)
    assert str(inspect.signature(ours)).count(",") == str(inspect.signature(theirs)).count(",")
    for arguments in ((), ([1],), ([1], "a")):
        one, other = theirs(*arguments, note="x"), ours(*arguments, note="x")
        assert vars(one) == vars(other)
        assert (one == theirs(*arguments)) == (other == ours(*arguments))
        assert (one == theirs([9])) == (other == ours([9]))
        if options.get("repr", True):
            assert repr(one) == repr(other)
    assert (theirs.__hash__ is None) == (ours.__hash__ is None)
    assert theirs.__match_args__ == ours.__match_args__


@pytest.mark.parametrize("made", [0, 10])
@pytest.mark.parametrize(
    ("arguments", "named", "message"),
    [
        ((), {}, r"Own.__init__\(\) missing 1 required positional argument: 'a'"),
        ((1, 2, 3), {}, "takes from 2 to 3 positional arguments but 4 were given"),
        ((1,), {"a": 2}, "got multiple values for argument 'a'"),
        ((1,), {"d": 4}, "got an unexpected keyword argument 'd'"),
    ],
)
def test_arguments(made, arguments, named, message):
    @record(frozen=True)
    class Own:
        a: int
        b: int = 2

    Own.__qualname__ = "Own"
    for _ in range(made):
        assert (Own(1).a, Own(1, b=3).b, Own(b=5, a=4).a) == (1, 3, 4)
    with pytest.raises(TypeError, match=message):
        Own(*arguments, **named)


def test_defaults_are_made_anew():
    _, ours = both()
    ours().sizes.append(1)
    assert ours().sizes == []


def test_bases():
    assert Derived(1) == Derived(1, 2, 3) != Derived(1, 2, 4)
    assert Derived(1) != Base(1)
    assert hash(Derived(1)) == hash(Derived(1, 2, 3))
    assert [each.name for each in records.fields(Derived)] == ["a", "b", "c"]
    assert replace(Derived(1), b=5) == Derived(1, 5)


def test_frozen():
    value = Base(1)
    with pytest.raises(FrozenError, match="Base is frozen: 'a' cannot be set"):
        value.a = 2
    with pytest.raises(FrozenError, match="Base is frozen: 'a' cannot be deleted"):
        del value.a


def test_copies():
    for value in (Derived(1), Checked(2)):
        assert copy.copy(value) == copy.deepcopy(value) == pickle.loads(pickle.dumps(value)) == value


def test_after_init():
    assert Checked(4).twice == 8
    assert replace(Checked(4), value=5).twice == 10


def test_equality_by_identity_of_elements():
    nan = float("nan")
    assert Checked(nan) == Checked(nan)


def test_own_methods_stay():
    @record
    class Own:
        value: int

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

        def __repr__(self) -> str:
            return "own"

    assert (Own(1) == Own(2), hash(Own(1)), repr(Own(1))) == (True, 7, "own")


def test_slots():
    @record(eq=False, slots=True)
    class Slotted:
        value: int
        other: int = 3

    slotted = Slotted(1)
    assert (slotted.value, slotted.other) == (1, 3)
    with pytest.raises(AttributeError):
        slotted.further = 1
