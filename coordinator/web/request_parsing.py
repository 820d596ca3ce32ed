"""Checks what a URL, a query or a form holds: of the pages, and the path parameters of the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NoReturn, TypeVar

import msgspec
from flask import abort, request

from nightjar.coordinator.rounds.lease import Label
from nightjar.host.value_faults import fault_in_words
from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.identifiers import DeviceId, device_id

PAGE = 50
"""Rows of a list on one page."""

Asked = TypeVar("Asked")
Found = TypeVar("Found")
Labels = Annotated[
    str,
    msgspec.Meta(
        max_length=560,
        pattern=r"^[a-z0-9_. -]*\Z",
        description="labels of small letters, digits, '_', '.', '-', with spaces between them",
    ),
]
"""Labels in a form, separated by spaces."""
CONFIRMATION = "sure"
"""The tick in a form for what cannot be undone; other forms may have it, too."""


def query(wanted: type[Asked]) -> Asked:
    """The query of this request, without empty fields; aborts with 422 if it is not of the type."""
    return _checked({name: value for name, value in request.args.items() if value}, wanted)


def form(wanted: type[Asked], unless_sent: Mapping[str, str] | None = None) -> Asked:
    """The form of this request, with fields that count unless it has them; aborts with 422 if it is not of the type."""
    sent = {**(unless_sent or {}), **request.form.to_dict()}
    return _checked({name: value for name, value in sent.items() if name != CONFIRMATION}, wanted)


def confirmed() -> None:
    """Abort with 422 unless the form of this request has its tick."""
    if request.form.get(CONFIRMATION) != "yes":
        abort(422, "this cannot be undone: tick the box beside the button, and send it again")


def confirmed_form(wanted: type[Asked]) -> Asked:
    """The form of this request for what cannot be undone; aborts with 422 without its tick, or like ``form``."""
    asked = form(wanted)
    confirmed()
    return asked


def device(name: str) -> DeviceId:
    """The device id in a URL; aborts with 404 if it is not valid."""
    try:
        return device_id(name)
    except RemoteProtocolError as error:
        abort(404, str(error))


def label(text: str) -> str:
    """The label in a URL; aborts with 404 if it is not valid."""
    try:
        return msgspec.convert(text, Label)
    except msgspec.ValidationError:
        missing(f"label {text[:32]}")


def number(value: int, what: str) -> int:
    """The number in a URL; aborts with 404 if it is too large for the database."""
    if value >= 1 << 53:
        missing(f"{what} {value}")
    return value


def found(value: Found | None, what: str) -> Found:
    """What was looked for; aborts with 404 if it is None."""
    return missing(what) if value is None else value


def missing(what: str) -> NoReturn:
    """Abort with 404."""
    abort(404, f"there is no {what}")


def _checked(values: dict[str, str], wanted: type[Asked]) -> Asked:
    try:
        return msgspec.convert(values, wanted, strict=False)
    except msgspec.ValidationError as error:
        abort(422, fault_in_words(error, wanted, values))
