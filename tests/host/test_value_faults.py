"""What people read about a value that is refused: no name of a Python type, no pattern."""

import enum
from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta

from nightjar.host.value_faults import fault_in_words


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    rate: Annotated[float, Meta(gt=0, le=1)] = 0.5


class Wanted(msgspec.Struct, forbid_unknown_fields=True):
    goal: Annotated[int, Meta(ge=1)] = 1
    name: Annotated[str, Meta(pattern="^[a-z]+$", description="small letters")] = "a"
    names: tuple[Annotated[str, Meta(pattern="^[a-z]+$", description="small letters")], ...] = ()
    other: Annotated[str, Meta(pattern="^[a-z]+$", description="small letters")] | None = None
    reason: Annotated[str, Meta(min_length=1, max_length=3)] = "a"
    pair: Annotated[tuple[int, ...], Meta(max_length=2)] = ()
    sure: bool = False
    colour: Colour = Colour.RED
    side: Literal["left", "right"] = "left"
    inner: Inner | None = None
    rates: dict[str, int] = {}
    colours: dict[str, Colour] = {}
    counts: dict[str, Annotated[int, Meta(ge=1)]] = {}
    fives: Annotated[int, Meta(multiple_of=5)] = 5
    two: tuple[int, int] = (1, 2)


class Required(msgspec.Struct):
    goal: int


@pytest.mark.parametrize(
    ("kind", "sent", "said"),
    [
        (Wanted, {"goal": "abc"}, "goal: expected a whole number, got 'abc'"),
        (Wanted, {"goal": 1.5}, "goal: expected a whole number, got 1.5"),
        (Wanted, {"goal": 0}, "goal: expected a whole number of at least 1, got 0"),
        (Wanted, {"goal": None}, "goal: expected a whole number, got nothing"),
        (Wanted, {"name": "A"}, "name: expected small letters, got 'A'"),
        (Wanted, {"other": "A\n"}, "other: expected small letters, got 'A\\n'"),
        (Wanted, {"names": ["a", "B"]}, "names[1]: expected small letters, got 'B'"),
        (Wanted, {"names": "secret"}, "names: expected a list, got text"),
        (Wanted, {"reason": ""}, "reason: expected at least 1 character, got none"),
        (Wanted, {"reason": "long"}, "reason: expected at most 3 characters, got 4"),
        (Wanted, {"pair": [1, 2, 3]}, "pair: expected at most 2 entries, got 3"),
        (Wanted, {"sure": "perhaps"}, "sure: expected true or false, got 'perhaps'"),
        (Wanted, {"colour": "green"}, "colour: expected one of red, blue, got 'green'"),
        (Wanted, {"side": "up"}, "side: expected one of left, right, got 'up'"),
        (Wanted, {"inner": {"rate": 2.0}}, "inner.rate: expected a number of at most 1, got 2.0"),
        (Wanted, {"inner": {"rte": 1.0}}, "inner.rte: there is no such field; did you mean 'rate'?"),
        (Wanted, {"inner": 1}, "inner: expected a table of values or nothing, got a whole number"),
        (Wanted, {"rates": {"a": "secret"}}, "rates[...]: expected a whole number, got text"),
        (Wanted, {"gaol": 1}, "gaol: there is no such field; did you mean 'goal'?"),
        (Wanted, {"goal": True}, "goal: expected a whole number, got true"),
        (Wanted, {"name": False}, "name: expected text, got false"),
        (Wanted, {"colours": {"red": "green"}}, "colours[...]: expected one of red, blue"),
        (Wanted, {"names": {"a": 1}}, "names: expected a list, got a table of values"),
        (Wanted, {"rates": {"a": True}}, "rates[...]: expected a whole number, got true or false"),
        (Wanted, {"counts": {"a": 0}}, "counts[...]: expected a whole number of at least 1"),
        (Wanted, {"fives": 7}, "fives: expected a whole number that's a multiple of 5, got 7"),
        (Wanted, {"two": [1, 2, 3]}, "two: expected a list of length 2, got 3"),
        (Wanted, [], "expected a table of values, got a list"),
        (Required, {}, "goal: it is missing, and there is no default for it"),
    ],
)
@pytest.mark.parametrize("strict", [True, False])
def test_a_fault_says_where_it_is_what_was_expected_and_what_came(kind, sent, said, strict):
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.convert(sent, kind, strict=strict)
    assert fault_in_words(raised.value, kind, sent) == said


def test_the_text_of_another_error_stays_but_for_its_backticks():
    assert fault_in_words(ValueError("no `date`"), Wanted, None) == "no 'date'"
    assert fault_in_words(ValueError("JSON is malformed: at byte 3"), Wanted, None) == "JSON is malformed: at byte 3"
