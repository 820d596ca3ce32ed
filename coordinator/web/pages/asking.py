"""What a page was asked for: its query and its form, checked by types like the documents of the API."""

from __future__ import annotations

from typing import NoReturn, TypeVar

import msgspec
from flask import abort, request

from wire.errors import RemoteProtocolError
from wire.identifiers import DeviceId, device_id

PAGE = 50
"""Rows of a list; more follow on the next page."""

Asked = TypeVar("Asked")


def query(wanted: type[Asked]) -> Asked:
    """The query of this request; an empty field is one that was not given.

    Raises:
        HTTPException: 422, if it cannot be that.
    """
    return _checked({name: value for name, value in request.args.items() if value}, wanted)


def form(wanted: type[Asked]) -> Asked:
    """The form that was sent.

    Raises:
        HTTPException: 422, if it cannot be that.
    """
    return _checked(request.form.to_dict(), wanted)


def device(name: str) -> DeviceId:
    """The device of an address.

    Raises:
        HTTPException: 404, if no device can have that name.
    """
    try:
        return device_id(name)
    except RemoteProtocolError as error:
        abort(404, str(error))


def number(value: int, what: str) -> int:
    """The number of an address, which a database can hold.

    Raises:
        HTTPException: 404, if it is too large.
    """
    if value >= 1 << 53:
        missing(f"{what} {value}")
    return value


def missing(what: str) -> NoReturn:
    """Say that there is no such thing.

    Raises:
        HTTPException: 404.
    """
    abort(404, f"there is no {what}")


def _checked(values: dict[str, str], wanted: type[Asked]) -> Asked:
    try:
        return msgspec.convert(values, wanted, strict=False)
    except msgspec.ValidationError as error:
        abort(422, str(error).replace("`", "'"))
