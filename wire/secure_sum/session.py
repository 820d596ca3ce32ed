"""The name of a session: a hash of the orders that all its devices must have been given alike. Pure.

All keys, masks and signatures of a session depend on its name. Devices with other orders are therefore in another
session: the masks that they would have to cancel are not those of the first. Otherwise a coordinator could give all but
one device a clip norm, a learning rate, a plan or a model with which they give nothing to the sum, and read the update
of that one in it.

What each device is told for itself is not part of the name (:data:`EACH_ITS_OWN`): it changes when a device gives its
update, not what. The manifest's hash covers program, weights, vocabulary and bases. A field with its default is left
out of the hash, so that a device that does not know a later field names the session alike until the field is used.

Source: Pasquini, Francati and Ateniese 2022, "Eluding Secure Aggregation in Federated Learning via Model
Inconsistency", section 6.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
from msgspec.structs import fields, replace

from nightjar.wire.errors import LocalProtocolError
from nightjar.wire.messages import Assignment
from nightjar.wire.parameters import ParameterLayout
from nightjar.wire.secure_sum.order import terms_of
from nightjar.wire.secure_sum.terms import Terms

EACH_ITS_OWN: dict[str, Any] = {
    "attempt": 1,
    "report_deadline_s": 0.0,
    "number": 0,
    "signed_s": 0.0,
    "not_after_s": 0.0,
}
"""Fields of an assignment that differ between the devices of a sum, and what stands for them in the name."""


def session_of(assignment: Assignment, population: str) -> bytes:
    """The session's name that follows from a device's orders, (32,) bytes."""
    alike = _used(replace(assignment, **EACH_ITS_OWN))
    named = msgspec.msgpack.encode(["nightjar secure sum", population, alike], order="sorted")
    return hashlib.sha256(named).digest()


def terms_of_assignment(assignment: Assignment, layout: ParameterLayout, population: str) -> Terms:
    """The terms of the secure sum of an assignment, with the layout of its model.

    Raises:
        LocalProtocolError: the assignment asks for no sum.
        RemoteProtocolError: its terms contradict each other.
    """
    if assignment.secure_sum is None:
        msg = f"the assignment of round {assignment.round} asks for no secure sum"
        raise LocalProtocolError(msg)
    return terms_of(assignment.secure_sum, layout, assignment.minimum, session_of(assignment, population))


def _used(value: object) -> object:
    """A value without the fields of its structs that have their default."""
    if not isinstance(value, msgspec.Struct):
        return value
    given = {field.encode_name: (getattr(value, field.name), field.default) for field in fields(value)}
    return {name: _used(own) for name, (own, default) in given.items() if own != default}
