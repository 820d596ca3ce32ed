"""HTTP routes of enrolment, below ``/api/v1``: for devices with a claim or a certificate, and operators with a token.

They work only with ``transport = "tls"``: in plain text a claim could be read in transit.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec
from flask import abort, g, request
from flask_limiter import Limiter
from msgspec import Meta

from nightjar.coordinator.access import Role, TokenName
from nightjar.coordinator.config import BrokerKind
from nightjar.coordinator.enrolment.certificate_issuer import CertificateIssuer, Certified, Outcome, Waiting, new_claim
from nightjar.coordinator.enrolment.claims import ClaimMade, ClaimRefused, KeyState
from nightjar.coordinator.rounds.lease import MOST_LABELS, Label, joined
from nightjar.coordinator.tls.files import url_for_devices
from nightjar.coordinator.web import request_parsing
from nightjar.coordinator.web.admission import for_devices, open_to_all, problem
from nightjar.coordinator.web.answers import BODY, Api, answers
from nightjar.coordinator.web.documents import Changed, EmptyBody
from nightjar.coordinator.web.ports import WebPorts
from nightjar.wire.addresses import is_loopback
from nightjar.wire.enrolment import Enrolled, EnrolmentPending, EnrolmentWanted, ExpiredRenewalWanted, RenewalWanted
from nightjar.wire.errors import RemoteProtocolError

HOUR_S = 3600.0
ATTEMPTS_PER_MINUTE = 60
"""Rate limit per address; high, because a shelf of boards behind one router may start at once. It need not stop
guessing: a claim has 256 random bits."""
ASK_AGAIN_S = 30
_KEY = re.compile(r"[0-9a-f]{64}")
Prefix = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,39}$(?!\n)",
        description="1 to 40 letters, digits, '_', '.', '-', of which the first is a letter or digit",
    ),
]


class ClaimWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A claim to create: for one device by name, or for several whose names are made from a prefix and their key."""

    name: TokenName
    hours: Annotated[float, Meta(gt=0, le=24 * 90)] = 24.0
    device: Annotated[str, Meta(max_length=64)] = ""
    prefix: Prefix = "device"
    uses: Annotated[int, Meta(ge=1, le=100_000)] = 1
    approval: bool = False
    labels: Annotated[tuple[Label, ...], Meta(max_length=MOST_LABELS)] = ()


class ClaimView(msgspec.Struct, frozen=True):
    """A claim without its secret text."""

    name: str
    device: str
    prefix: str
    uses: int
    uses_left: int
    approval: bool
    labels: str
    created_s: float
    expires_s: float


class Claims(msgspec.Struct, frozen=True):
    """All claims."""

    items: list[ClaimView]


class CredentialView(msgspec.Struct, frozen=True):
    """A device's key and its state."""

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


def add_enrolment(api: Api, ports: WebPorts, limiter: Limiter) -> None:
    """Add the enrolment routes to the API; without TLS they answer 404."""
    _for_devices(api, ports, limiter)
    _for_operators(api, ports)


def _for_devices(api: Api, ports: WebPorts, limiter: Limiter) -> None:
    rules: dict[str, Any] = {"tags": ["enrolment of devices"]}

    @api.blueprint.post("/enrolment")
    @limiter.limit(f"{ATTEMPTS_PER_MINUTE}/minute")
    @api.spec.validate(resp=answers(Enrolled, 404, *BODY, waiting=True), **rules)
    @open_to_all
    def enrol(json: EnrolmentWanted) -> Any:
        """Issue a certificate for a claim and a key; 202 while the device waits for approval."""
        try:
            return _answer(_issuer(ports).enrol(json.claim, json.csr, _address()), ports)
        except RemoteProtocolError as error:
            abort(422, str(error))

    @api.blueprint.get("/enrolment/self")
    @api.spec.validate(resp=answers(Enrolled, 404, waiting=True), **rules)
    @for_devices
    def myself() -> Any:
        """The certificate that the device authenticated with, and when to renew it; the first use burns its claim."""
        certified = _issuer(ports).standing(g.serial)
        if certified is None:
            abort(403, "this certificate does not count any more")
        return _answer(certified, ports)

    @api.blueprint.post("/enrolment/self")
    @api.spec.validate(resp=answers(Enrolled, 404, *BODY, waiting=True), **rules)
    @for_devices
    def renew(json: RenewalWanted) -> Any:
        """Issue the device's next certificate, for a fresh key."""
        try:
            return _answer(_issuer(ports).renew(g.device, json.csr, _address()), ports)
        except RemoteProtocolError as error:
            abort(422, str(error))

    @api.blueprint.post("/enrolment/expired")
    @limiter.limit(f"{ATTEMPTS_PER_MINUTE}/minute")
    @api.spec.validate(resp=answers(Enrolled, 404, *BODY, waiting=True), **rules)
    @open_to_all
    def renew_expired(json: ExpiredRenewalWanted) -> Any:
        """Issue the next certificate to a device that proves the key of one that ended while it was off."""
        try:
            outcome = _issuer(ports).renew_expired(json.csr, json.certificate, json.proof, _address())
            return _answer(outcome, ports)
        except RemoteProtocolError as error:
            abort(422, str(error))


def make_claim(ports: WebPorts, wanted: ClaimWanted, who: str) -> ClaimMade:
    """Create a claim in the caller's name; its secret text is shown only once.

    Raises:
        HTTPException: 404, without TLS; 422, if the fields contradict each other; 409, if a claim of that name exists
            or existed.
    """
    issuer = _issuer(ports)
    if wanted.device and (wanted.uses != 1 or request_parsing.device(wanted.device) == ports.config.broker.username):
        abort(422, "a claim with a device's name is for that one device, and not for the coordinator's own name")
    characters, claim = new_claim(
        wanted.name,
        ports.clock.now_s(),
        wanted.hours * HOUR_S,
        device=wanted.device,
        prefix=wanted.prefix,
        uses=wanted.uses,
        approval=wanted.approval,
        labels=joined(wanted.labels),
    )
    url, authorities = url_for_devices(ports.config), "".join(issuer.authorities())
    if not issuer.register.add_claim(claim, who):
        abort(409, f"there is or was a claim {wanted.name}; take another name")
    return ClaimMade(characters, url, authorities, claim.name, claim.expires_s, _owner_key(ports))


def _owner_key(ports: WebPorts) -> str:
    """The key of the devices' owner: the one that signed the first program; empty if none is signed."""
    with ports.repository.transaction() as view:
        signed = next(iter(view.signed_programs().values()), None)
    return "" if signed is None else signed.signatures[0].key


def end_claim(ports: WebPorts, name: str, who: str) -> None:
    """Revoke a claim at once; aborts with 404 if no claim has that name."""
    if not _issuer(ports).register.remove_claim(name, who, ports.clock.now_s()):
        abort(404, f"there is no claim {name[:64]}; 'enrol-token list' shows them")


def decide(ports: WebPorts, key: str, who: str, *, approved: bool) -> None:
    """Approve or refuse a waiting device; aborts with 404 if no such key is waiting."""
    if not _KEY.fullmatch(key):
        abort(404, "expected the sha256 of a key")
    if not _issuer(ports).register.decide(key, who, ports.clock.now_s(), approved=approved):
        abort(404, f"no key {key[:16]} is {KeyState.WAITING.value}")


def forget(ports: WebPorts, name: str, who: str) -> bool:
    """Revoke every certificate of a device; False if it has none left; aborts with 404 if it never had a key."""
    register, device = _issuer(ports).register, request_parsing.device(name)
    if not register.standing_of(device).keys:
        abort(
            404, f"no device {device} ever asked for a certificate; 'enrolment list' and 'device list' show the names"
        )
    return register.revoke(device, who, ports.clock.now_s())


def _for_operators(api: Api, ports: WebPorts) -> None:
    @api.look("/claims", Claims, 404, role=Role.OPERATOR)
    def claims() -> Claims:
        """List all claims, without their secret text."""
        held = _issuer(ports).register.claims()
        return Claims([ClaimView(**{f: getattr(each, f) for f in ClaimView.__struct_fields__}) for each in held])

    @api.change("/claims", 404, 409, role=Role.ADMIN, ok=ClaimMade, status=201)
    def create_claim(json: ClaimWanted) -> tuple[ClaimMade, int]:
        """Create a claim; its secret text is shown only once."""
        return make_claim(ports, json, g.caller.name), 201

    @api.remove("/claims/<name>", 404, role=Role.ADMIN)
    def revoke_claim(name: str) -> Changed:
        """Revoke a claim at once; devices that it enrolled stay enrolled."""
        end_claim(ports, name, g.caller.name)
        return Changed(changed=True)

    @api.look("/enrolments", Credentials, 404, role=Role.OPERATOR)
    def enrolments() -> Credentials:
        """List the newest keys, newest first."""
        held = _issuer(ports).register.credentials()
        return Credentials(
            [
                CredentialView(c.key, c.device, c.claim, c.standing.value, c.address, c.requested_s, c.expires_s)
                for c in held
            ]
        )

    @api.change("/enrolments/<key>/approve", 404, role=Role.ADMIN)
    def approve(key: str, json: EmptyBody) -> Changed:  # noqa: ARG001 - checked to be empty
        """Approve a waiting device."""
        decide(ports, key, g.caller.name, approved=True)
        return Changed(changed=True)

    @api.change("/enrolments/<key>/refuse", 404, role=Role.ADMIN)
    def refuse(key: str, json: EmptyBody) -> Changed:  # noqa: ARG001 - checked to be empty
        """Refuse a waiting device."""
        decide(ports, key, g.caller.name, approved=False)
        return Changed(changed=True)

    @api.change("/devices/<name>/forget", 404, role=Role.ADMIN)
    def forget_device(name: str, json: EmptyBody) -> Changed:  # noqa: ARG001 - checked to be empty
        """Revoke every certificate of a device for good; it can return only with a new claim."""
        return Changed(forget(ports, name, g.caller.name))


def _issuer(ports: WebPorts) -> CertificateIssuer:
    if ports.issuer is None:
        abort(404, "this coordinator speaks plain text, and enrols nobody; set transport = 'tls'")
    return ports.issuer


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
                broker_host=broker.device_host or ("" if beside_us else broker.host),
                broker_port=broker.port_for_devices,
                coordinator_key=_issuer(ports).coordinator_key,
                recovery_key=_issuer(ports).recovery_key,
                broker_websocket=broker.device_websocket,
            )
        case Waiting(device):
            return EnrolmentPending(device, ASK_AGAIN_S), 202
        case ClaimRefused(_, reason):
            return abort(problem(403, reason))


def _address() -> str:
    return str(request.remote_addr or "")[:64]
