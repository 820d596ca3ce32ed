"""Says in words why msgspec refuses a value: where it is, what was expected, and what came.

msgspec names Python's types and prints patterns, which say little to who filled in a form. The description of a type's
``Meta`` is what people read instead of its pattern. Numbers, what should be one, choices and described texts are
repeated; any other text may be a secret.
"""

from __future__ import annotations

import difflib
import enum
import re
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

_WHERE = re.compile(r"^(?P<what>.*?)(?: - at `(?:key` in `)?\$(?P<path>[^`]*)`)?$", re.DOTALL)
_PART = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_EXPECTED = re.compile(r"^Expected `(?P<kinds>[^`]*)`(?P<rest>.*)$", re.DOTALL)
_BOUND = re.compile(r"^ (?P<how>>=|<=|>|<) (?P<bound>\S+)$")
_LENGTH = re.compile(r"^ of length (?P<how>>=|<=|==|>|<) (?P<bound>\d+)$")
_FIELD = re.compile(r"^Object (?P<how>missing required|contains unknown) field `(?P<name>[^`]*)`$", re.DOTALL)

_KINDS = {
    "array": "a list",
    "bool": "true or false",
    "datetime": "a time",
    "float": "a number",
    "int": "a whole number",
    "null": "nothing",
    "object": "a table of values",
    "str": "text",
}
_BOUNDS = {">=": "of at least", "<=": "of at most", ">": "above", "<": "below"}
_LENGTHS = {">=": "at least", ">": "more than", "<=": "at most", "<": "fewer than", "==": "exactly"}
_MOST_SHOWN, _MOST_NAMED = 80, 30
_QUOTE = "'"


class _Place(NamedTuple):
    """A place in a value: the type there, and what came; both None where they are not known."""

    kind: Any = None
    value: Any = None


def fault_in_words(error: Exception, kind: Any, value: object) -> str:
    """Why msgspec refused ``value`` as a ``kind``; of another error its text, with quotation marks for backticks.

    >>> small = typing.Annotated[str, msgspec.Meta(pattern="^[a-z]+$", description="small letters")]
    >>> fault_in_words(ValueError("Expected `str` matching regex '^[a-z]+$'"), small, "A name")
    "expected small letters, got 'A name'"
    >>> fault_in_words(ValueError("Expected `int` >= 1 - at `$.goal`"), dict[str, int], {"goal": 0})
    'goal: expected a whole number of at least 1, got 0'
    >>> fault_in_words(ValueError("Expected `int | null`, got `str` - at `$.goal`"), dict, {"goal": "abc"})
    "goal: expected a whole number or nothing, got 'abc'"
    >>> fault_in_words(ValueError("Expected `str` of length >= 1"), str, "")
    'expected at least 1 character, got none'
    """
    matched = _WHERE.match(str(error))
    what, path = (matched["what"], matched["path"] or "") if matched else (str(error), "")
    place = _at(path, kind, value)
    field = _FIELD.match(what)
    if field:
        named = f"{path}.{field['name']}".lstrip(".")
        return f"{named}: {_field_fault(field, place.kind)}"
    return f"{path.lstrip('.')}: {_fault(what, place)}" if path else _fault(what, place)


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """What a name that is not known may have meant, as the end of a message; empty if there are too many to say.

    >>> did_you_mean("gaol", ["goal", "minimum"]), did_you_mean("x", ["goal", "minimum"])
    ("; did you mean 'goal'?", '; expected one of goal, minimum')
    """
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; expected one of {', '.join(known)}" if 0 < len(known) <= _MOST_NAMED else ""


def fields_of(kind: Any) -> list[str]:
    """The names of a type's fields; empty if it has none."""
    return list(getattr(_struct_in(kind), "__struct_fields__", ()))


def _field_fault(field: re.Match[str], kind: Any) -> str:
    if field["how"] == "missing required":
        return "it is missing, and there is no default for it"
    return f"there is no such field{did_you_mean(field['name'], fields_of(kind))}"


def _fault(what: str, place: _Place) -> str:
    if what.startswith("Invalid enum value"):
        return f"expected one of {', '.join(_choices(place.kind))}{_got(place.value)}"
    expected = _EXPECTED.match(what)
    if expected is None:
        return what.replace("`", _QUOTE)
    kinds = " or ".join(_KINDS.get(each, each) for each in expected["kinds"].split(" | "))
    rest = expected["rest"]
    if bound := _BOUND.match(rest):
        number = bound["bound"].removesuffix(".0")
        return f"expected {kinds} {_BOUNDS[bound['how']]} {number}{_got(place.value)}"
    if length := _LENGTH.match(rest):
        return _length_fault(length, expected["kinds"], place.value)
    if rest.startswith(" matching regex "):
        described = _description(place.kind)
        if described:
            return f"expected {described}{_got(place.value)}"
        return f"expected text of the form {rest.removeprefix(' matching regex ')}"
    numeric = expected["kinds"].startswith(("int", "float", "bool"))
    got = _got(place.value) if numeric or isinstance(place.value, bool) else ""
    if rest.startswith(", got `"):
        came = rest.removeprefix(", got ").strip("`")
        return f"expected {kinds}{got or f', got {_KINDS.get(came, came)}'}"
    return f"expected {kinds}{rest.replace('`', _QUOTE)}{got}"


def _length_fault(length: re.Match[str], kind: str, value: object) -> str:
    unit, units = ("character", "characters") if kind == "str" else ("entry", "entries")
    many = int(length["bound"])
    came = len(value) if isinstance(value, str | Sequence | Mapping) else None
    got = "" if came is None else ", got none" if came == 0 else f", got {came}"
    return f"expected {_LENGTHS[length['how']]} {many} {unit if many == 1 else units}{got}"


def _got(value: object) -> str:
    """The end of a message: a value that may be repeated, in short; empty if it is not known, or no text or number."""
    match value:
        case str():
            return f", got {value[:_MOST_SHOWN]!r}"
        case bool():
            return f", got {str(value).lower()}"
        case int() | float():
            return f", got {str(value)[:_MOST_SHOWN]}"
        case _:
            return ""


def _at(path: str, kind: Any, value: object) -> _Place:
    place = _Place(kind, value)
    for name, index in _PART.findall(path):
        place = _inside(place, name, index)
    return place


def _inside(place: _Place, name: str, index: str) -> _Place:
    value = place.value
    if name:
        hints = typing.get_type_hints(struct, include_extras=True) if (struct := _struct_in(place.kind)) else {}
        return _Place(hints.get(name), value.get(name) if isinstance(value, Mapping) else None)
    item = next((each for each in map(_item_kind, _parts(place.kind)) if each is not None), None)
    known = index.isdecimal() and isinstance(value, list | tuple) and int(index) < len(value)
    return _Place(item, value[int(index)] if known else None)


def _parts(kind: Any) -> list[Any]:
    """A type without what annotates it; the parts of a union."""
    if typing.get_origin(kind) is typing.Annotated:
        return _parts(typing.get_args(kind)[0])
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return [part for each in typing.get_args(kind) for part in _parts(each)]
    return [kind]


def _struct_in(kind: Any) -> Any:
    return next((each for each in _parts(kind) if isinstance(each, type) and issubclass(each, msgspec.Struct)), None)


def _item_kind(kind: Any) -> Any:
    inner = typing.get_args(kind)
    if not inner:
        return None
    return inner[1] if typing.get_origin(kind) is dict else inner[0]


def _description(kind: Any) -> str:
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return next(filter(None, map(_description, typing.get_args(kind))), "")
    found = (each.description for each in getattr(kind, "__metadata__", ()) if isinstance(each, msgspec.Meta))
    return next(filter(None, found), "")


def _choices(kind: Any) -> list[str]:
    for each in _parts(kind):
        if isinstance(each, type) and issubclass(each, enum.Enum):
            return [str(member.value) for member in each]
        if typing.get_origin(each) is typing.Literal:
            return [str(choice) for choice in typing.get_args(each)]
    return ["another value"]
