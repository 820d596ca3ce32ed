"""JSON messages of enrolment over HTTP: a device's requests with a claim or its certificate, and the answers.

A device ignores unknown fields of an answer, so that a newer coordinator can add some. Claims and certificates are
validated elsewhere.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

ROOT = "/api/v1/enrolment"
"""Path for claims; ``/self`` below it is a device's own certificate, ``/expired`` renews one that ended."""

COORDINATOR_NAME, BROKER_NAME = "coordinator.nightjar.internal", "broker.nightjar.internal"
"""Names in the server certificates, in addition to the host names. A device asks only a server with the coordinator's
name whom to trust, so a copy of a broker's certificate on another machine cannot impersonate the coordinator."""

_Request = Annotated[str, Meta(max_length=4096)]


class EnrolmentWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Request for enrolment: a claim, and a PKCS #10 certificate request in PEM."""

    claim: Annotated[str, Meta(min_length=1, max_length=128)]
    csr: _Request


class RenewalWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Request for renewal: a PKCS #10 certificate request in PEM for a fresh key."""

    csr: _Request


class ExpiredRenewalWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Request for renewal after the certificate ended, when no connection can be made with it.

    ``certificate`` is the one that ended, in PEM; ``proof`` is the signature of its key over :func:`renewal_bytes`, in
    DER and hex.
    """

    csr: _Request
    certificate: _Request
    proof: Annotated[str, Meta(max_length=512, pattern=r"^[0-9a-f]*$(?!\n)", description="hexadecimal digits")]


def renewal_bytes(csr: str) -> bytes:
    """What the key of a certificate that ended signs to have a request for the next one granted.

    It names the new key, so whoever repeats the request gets a certificate that only the device can use.
    """
    return b"nightjar renewal after the end 1\n" + csr.encode()


class Enrolled(msgspec.Struct, frozen=True):
    """Answer to an enrolled device: its certificate and settings; times are seconds since 1970.

    ``broker_host`` is empty if it equals the coordinator's host. ``coordinator_key`` signs orders; it is not a key of a
    certificate. ``recovery_key`` may sign a new coordinator key; it is empty if there is none. ``broker_websocket``
    asks for MQTT over WebSocket.
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
    broker_websocket: bool = False


class EnrolmentPending(msgspec.Struct, frozen=True):
    """Answer while an operator has to admit the device; ask again after ``ask_again_s`` seconds."""

    device: str
    ask_again_s: int
