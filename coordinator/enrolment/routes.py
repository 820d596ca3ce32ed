"""The HTTP side of enrolment, below ``/api/v1``: devices with a claim or a certificate, and operators with a token.

Only there with ``transport = "tls"``; in plain text a claim could be read on its way.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec
from flask import Blueprint, abort, g, request
from flask_limiter import Limiter
from msgspec import Meta
from spectree import Response as Answers
from spectree import SpecTree

from coordinator.config import BrokerKind
from coordinator.enrolment.certificate_issuer import CertificateIssuer, Certified, Outcome, Waiting, new_claim
from coordinator.enrolment.claims import ClaimRefused, KeyState
from coordinator.enrolment.tls_files import url_for_devices
from coordinator.web.access import Role
from coordinator.web.admission import for_devices, needs, open_to_all, problem
from coordinator.web.documents import Changed, Nothing, Problem, TokenName
from coordinator.web.ports import WebPorts
from wire.addresses import is_loopback
from wire.enrolment import Enrolled, EnrolmentPending, EnrolmentWanted, RenewalWanted
from wire.errors import RemoteProtocolError
from wire.identifiers import DeviceId, device_id

HOUR_S = 3600.0
ATTEMPTS_PER_MINUTE = 60
"""Of one address: a shelf of boards behind one router starts at once; a claim has 256 random bits either way."""
ASK_AGAIN_S = 30
CLAIM_FIELDS = ("claim", "url", "authority")
"""What a card carries of :class:`ClaimMade`."""
_KEY = re.compile(r"[0-9a-f]{64}")


class ClaimWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A claim to be made: for one device by its name, or for several with names of a prefix and their key."""

    name: TokenName
    hours: Annotated[float, Meta(gt=0, le=24 * 90)] = 24.0
    device: Annotated[str, Meta(max_length=64)] = ""
    prefix: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,39}$(?!\n)")] = "device"
    uses: Annotated[int, Meta(ge=1, le=100_000)] = 1
    approval: bool = False


class ClaimMade(msgspec.Struct, frozen=True):
    """The only answer that ever holds a claim's characters, as the file that a card carries."""

    claim: str
    url: str
    authority: str
    name: str
    expires_s: float


class ClaimView(msgspec.Struct, frozen=True):
    """A claim without its characters."""

    name: str
    device: str
    prefix: str
    uses: int
    uses_left: int
    approval: bool
    created_s: float
    expires_s: float


class Claims(msgspec.Struct, frozen=True):
    """Every claim."""

    items: list[ClaimView]


class CredentialView(msgspec.Struct, frozen=True):
    """A key, and what became of it."""

    key: str
    device: str
    claim: str
    standing: str
    address: str
    requested_s: float
    expires_s: float


class Credentials(msgspec.Struct, frozen=True):
    """The newest keys, newest first."""

    items: list[CredentialView]


def add_enrolment(blueprint: Blueprint, spec: SpecTree, ports: WebPorts, limiter: Limiter) -> None:
    """Give the API its enrolment.

    Args:
        blueprint: of the API.
        spec: describes it.
        ports: of the service; without ``office`` these routes answer 404.
        limiter: of the application.
    """
    _for_devices(blueprint, spec, ports, limiter)
    _for_operators(blueprint, spec, ports)


def _for_devices(blueprint: Blueprint, spec: SpecTree, ports: WebPorts, limiter: Limiter) -> None:
    rules: dict[str, Any] = {"tags": ["enrolment of devices"]}

    @blueprint.post("/enrolment")
    @limiter.limit(f"{ATTEMPTS_PER_MINUTE}/minute")
    @spec.validate(resp=_answers(Enrolled, 404, 415, waiting=True), **rules)
    @open_to_all
    def enrol(json: EnrolmentWanted) -> Any:
        """A certificate for a claim and a key; 202 while a person has to let the device in."""
        try:
            return _answer(_office(ports).enrol(json.claim, json.csr, _address()), ports)
        except RemoteProtocolError as error:
            abort(422, str(error))

    @blueprint.get("/enrolment/self")
    @spec.validate(resp=_answers(Enrolled, 404, waiting=True), **rules)
    @for_devices
    def myself() -> Any:
        """The certificate that the device showed, and when to renew it; the first time burns its claim."""
        found = _office(ports).standing(g.serial)
        if found is None:
            abort(403, "this certificate does not count any more")
        return _answer(found, ports)

    @blueprint.post("/enrolment/self")
    @spec.validate(resp=_answers(Enrolled, 404, 415, waiting=True), **rules)
    @for_devices
    def renew(json: RenewalWanted) -> Any:
        """The next certificate, for a fresh key."""
        try:
            return _answer(_office(ports).renew(g.device, json.csr, _address()), ports)
        except RemoteProtocolError as error:
            abort(422, str(error))


def make_claim(ports: WebPorts, wanted: ClaimWanted, who: str) -> ClaimMade:
    """Make a claim in the caller's name; its text is shown this once.

    Raises:
        HTTPException: 404, in plain text; 422, if it cannot be like that; 409, if there is or was one of that name.
    """
    office = _office(ports)
    if wanted.device and (wanted.uses != 1 or _device(wanted.device) == ports.config.broker.username):
        abort(422, "a claim with a device's name is for that one device, and not for the coordinator's own name")
    characters, claim = new_claim(
        wanted.name,
        ports.clock.now_s(),
        wanted.hours * HOUR_S,
        device=wanted.device,
        prefix=wanted.prefix,
        uses=wanted.uses,
        approval=wanted.approval,
    )
    url, authorities = url_for_devices(ports.config), "".join(office.authorities())
    if not office.register.add_claim(claim, who):
        abort(409, f"there is or was a claim {wanted.name}; take another name")
    return ClaimMade(characters, url, authorities, claim.name, claim.expires_s)


def carried(made: ClaimMade) -> bytes:
    """The claim file: what a card carries."""
    return msgspec.json.encode({field: getattr(made, field) for field in CLAIM_FIELDS}) + b"\n"


def end_claim(ports: WebPorts, name: str, who: str) -> None:
    """Revoke a claim, at once.

    Raises:
        HTTPException: 404, if there is none of that name.
    """
    if not _office(ports).register.remove_claim(name, who, ports.clock.now_s()):
        abort(404, f"there is no claim {name[:64]}")


def decide(ports: WebPorts, key: str, who: str, *, approved: bool) -> None:
    """Let a waiting device in, or not.

    Raises:
        HTTPException: 404, if no such key waits.
    """
    if not _KEY.fullmatch(key):
        abort(404, "expected the sha256 of a key")
    if not _office(ports).register.decide(key, who, ports.clock.now_s(), approved=approved):
        abort(404, f"no key {key[:16]} is {KeyState.WAITING.value}")


def forget(ports: WebPorts, name: str, who: str) -> bool:
    """Revoke every certificate of a device; False if it has none.

    Raises:
        HTTPException: 404, in plain text, or if no device can have that name.
    """
    return _office(ports).register.revoke(_device(name), who, ports.clock.now_s())


def _for_operators(blueprint: Blueprint, spec: SpecTree, ports: WebPorts) -> None:
    rules: dict[str, Any] = {"security": {"token": []}, "tags": ["enrolment"]}

    @blueprint.get("/claims")
    @spec.validate(resp=_answers(Claims, 404), **rules)
    @needs(Role.OPERATOR)
    def claims() -> Claims:
        """Every claim, without its characters."""
        held = _office(ports).register.claims()
        return Claims([ClaimView(**{f: getattr(each, f) for f in ClaimView.__struct_fields__}) for each in held])

    @blueprint.post("/claims")
    @spec.validate(resp=_answers(ClaimMade, 404, 409, 415, status=201), **rules)
    @needs(Role.ADMIN)
    def create_claim(json: ClaimWanted) -> tuple[ClaimMade, int]:
        """Make a claim; its characters are told once."""
        return make_claim(ports, json, g.caller.name), 201

    @blueprint.delete("/claims/<name>")
    @spec.validate(resp=_answers(Changed, 404), **rules)
    @needs(Role.ADMIN)
    def revoke_claim(name: str) -> Changed:
        """Revoke a claim, at once; who came in by it stays in."""
        end_claim(ports, name, g.caller.name)
        return Changed(changed=True)

    @blueprint.get("/enrolments")
    @spec.validate(resp=_answers(Credentials, 404), **rules)
    @needs(Role.OPERATOR)
    def enrolments() -> Credentials:
        """The newest keys, newest first."""
        held = _office(ports).register.credentials()
        return Credentials(
            [
                CredentialView(c.key, c.device, c.claim, c.standing.value, c.address, c.requested_s, c.expires_s)
                for c in held
            ]
        )

    @blueprint.post("/enrolments/<key>/approve")
    @spec.validate(resp=_answers(Changed, 404, 415), **rules)
    @needs(Role.ADMIN)
    def approve(key: str, json: Nothing) -> Changed:  # noqa: ARG001 - checked to be empty
        """Let a waiting device in."""
        decide(ports, key, g.caller.name, approved=True)
        return Changed(changed=True)

    @blueprint.post("/enrolments/<key>/refuse")
    @spec.validate(resp=_answers(Changed, 404, 415), **rules)
    @needs(Role.ADMIN)
    def refuse(key: str, json: Nothing) -> Changed:  # noqa: ARG001 - checked to be empty
        """Do not let a waiting device in."""
        decide(ports, key, g.caller.name, approved=False)
        return Changed(changed=True)

    @blueprint.post("/devices/<name>/forget")
    @spec.validate(resp=_answers(Changed, 404, 415), **rules)
    @needs(Role.ADMIN)
    def forget_device(name: str, json: Nothing) -> Changed:  # noqa: ARG001 - checked to be empty
        """Revoke every certificate of a device, for good; it comes back with a new claim only."""
        return Changed(forget(ports, name, g.caller.name))


def _answers(ok: type, *codes: int, status: int = 200, waiting: bool = False) -> Answers:
    described: dict[str, Any] = {f"HTTP_{code}": Problem for code in (401, 403, 422, 429, 503, *codes)}
    if waiting:
        described["HTTP_202"] = EnrolmentPending
    return Answers(**{f"HTTP_{status}": ok}, **described)


def _office(ports: WebPorts) -> CertificateIssuer:
    if ports.office is None:
        abort(404, "this coordinator speaks plain text, and enrols nobody; set transport = 'tls'")
    return ports.office


def _answer(outcome: Outcome, ports: WebPorts) -> Any:
    match outcome:
        case Certified():
            broker = ports.config.broker
            beside_us = broker.kind is not BrokerKind.EXTERNAL or is_loopback(broker.host)
            return Enrolled(
                device=outcome.device,
                population=ports.config.population,
                certificate=outcome.certificate,
                expires_s=outcome.expires_s,
                renew_s=outcome.renew_s,
                authorities=list(outcome.authorities),
                broker_host="" if beside_us else broker.host,
                broker_port=broker.device_port or broker.port,
                coordinator_key=_office(ports).coordinator_key,
                recovery_key=_office(ports).recovery_key,
            )
        case Waiting(device):
            return EnrolmentPending(device, ASK_AGAIN_S), 202
        case ClaimRefused(_, reason):
            return abort(problem(403, reason))


def _address() -> str:
    return str(request.remote_addr or "")[:64]


def _device(name: str) -> DeviceId:
    try:
        return device_id(name)
    except RemoteProtocolError as error:
        abort(404, str(error))
