"""Enrolment over HTTP: what a device asks with a claim or with its certificate, and what it is answered; in JSON.

Fields of an answer that a device does not know are ignored, so that a newer coordinator can add some. What a claim and
a certificate are worth is decided elsewhere.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

ROOT = "/api/v1/enrolment"
"""Where a claim is sent; ``/self`` below it is a device's own certificate."""

COORDINATOR_NAME, BROKER_NAME = "coordinator.nightjar.internal", "broker.nightjar.internal"
"""In the certificates of servers, beside their own names: a device asks nobody but a coordinator whom to trust, so the
copy of a broker's certificate on another machine cannot answer in its place."""

_Request = Annotated[str, Meta(max_length=4096)]


class EnrolmentWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A claim, and a PKCS #10 request in PEM."""

    claim: Annotated[str, Meta(min_length=1, max_length=128)]
    csr: _Request


class RenewalWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A PKCS #10 request in PEM, of a fresh key."""

    csr: _Request


class Enrolled(msgspec.Struct, frozen=True):
    """What a device needs from now on; times are seconds since 1970.

    ``broker_host`` is empty where it is the coordinator's. ``coordinator_key`` signs orders, which is another key than
    those of certificates; ``recovery_key`` may name another one, and is empty if there is none.
    """

    device: str
    population: str
    certificate: str
    expires_s: float
    renew_s: float
    authorities: list[str]
    broker_host: str
    broker_port: int
    coordinator_key: str
    recovery_key: str = ""


class EnrolmentPending(msgspec.Struct, frozen=True):
    """A person has to let the device in; ask again after so many seconds."""

    device: str
    ask_again_s: int
