"""Enrols this device, or renews its certificate. An interrupted enrolment can be repeated with the same result.

1. The device makes a key, and stores it before anything is sent.
2. It sends the claim and a certificate request to the coordinator, whose certificate must be from the authority on the
   card.
3. It stores the certificate together with its key.
4. It connects with the certificate: the coordinator marks the claim as used, and the card may be wiped.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import urllib3
from msgspec.structs import replace

from nightjar.edge_agent.enrolment.claim import ClaimFile, read_claim, remove_claim_file, wipe_claim
from nightjar.edge_agent.enrolment.identity import EnrolledIdentity, held_identity, keep, tls_context, trusting
from nightjar.wire.enrolment import COORDINATOR_NAME, ROOT, Enrolled, EnrolmentWanted, RenewalWanted
from nightjar.wire.errors import ConfigError, RemoteProtocolError, UnavailableError

TIMEOUT_S = 30.0
MOST_ANSWER_BYTES = 64 * 1024
ONCE_MORE = urllib3.Retry(1, allowed_methods=None, redirect=False, status=False)
"""One retry after a broken connection: the request is idempotent, and the retry brings the coordinator's answer."""


class EnrolmentRefused(ConfigError):  # noqa: N818 - a person has to do something: that is what its base says
    """The coordinator does not let this device in; ``detail`` is the reason that it gave."""

    code = "refused"

    def __init__(self, message: str, detail: str) -> None:
        super().__init__(message)
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Enrolment:
    """Result of an enrolment.

    Attributes:
        anew: whether the device has just received its certificate.
        not_wiped: for each place where the used claim could not be wiped, an error text.
    """

    identity: EnrolledIdentity
    anew: bool
    not_wiped: tuple[str, ...] = ()


class _Problem(msgspec.Struct, frozen=True):
    detail: str = ""


def enrol(data_dir: Path, claim_path: Path, also_wipe: Sequence[Path] = ()) -> Enrolment:
    """Enrol with a claim, unless the device is already enrolled; then wipe the claim.

    The claim file is deleted at the end, and may be missing on a device that is enrolled; ``also_wipe`` are other files
    that contain the claim, such as user-data of cloud-init.

    Raises:
        EnrolmentRefused: the coordinator does not accept the claim; a new one is needed.
        ConfigError: a file cannot be used.
        RemoteProtocolError: the server that answers is not the claim's coordinator.
        UnavailableError: the coordinator cannot be reached, or an operator has to admit the device; try again later.
    """
    claim = read_claim(claim_path) if claim_path.exists() else None
    held = held_identity(data_dir)
    anew = False
    if held is not None:
        try:
            held = refreshed(data_dir, held)
        except EnrolmentRefused:
            if claim is None:
                raise
            held = None  # revoked or forgotten; the card has a claim for a fresh start
    if held is None:
        held, anew = _claimed(data_dir, claim or read_claim(claim_path)), True
        held = refreshed(data_dir, held)
    return Enrolment(held, anew, () if claim is None else _wiped(claim, claim_path, also_wipe))


def _wiped(claim: ClaimFile, claim_path: Path, also_wipe: Sequence[Path]) -> tuple[str, ...]:
    """Wipe a claim from all its files; return the errors. The device stays enrolled either way."""
    failed = []
    for path in also_wipe:
        try:
            wipe_claim(path, claim.claim)
        except ConfigError as error:
            failed.append(str(error))
    try:
        remove_claim_file(claim_path, claim.claim)
    except ConfigError as error:
        failed.append(str(error))
    return tuple(failed)


def refreshed(data_dir: Path, held: EnrolledIdentity) -> EnrolledIdentity:
    """Connect with our certificate, and store the coordinator's answer: authorities to trust, and when to renew.

    The keys that sign orders stay those from the enrolment: only their owner can name a new one
    (:mod:`nightjar.edge_agent.link.trust`).

    Raises:
        EnrolmentRefused: the certificate was revoked.
        UnavailableError: the coordinator cannot be reached.
    """
    answer = _ask(tls_context(data_dir, held), "GET", f"{held.coordinator_url}{ROOT}/self")
    identity = _with_keys_of(held, _identity(answer, held.coordinator_url))
    if identity != held:
        keep(data_dir, identity, None)
    return identity


def refusal(data_dir: Path) -> str:
    """Why the coordinator refuses this device's certificate, in its words; empty if it accepts it. Changes nothing.

    Raises:
        ConfigError: the device is not enrolled, or its certificate cannot be used.
        UnavailableError: the coordinator cannot be reached.
    """
    held = _enrolled(data_dir)
    try:
        _ask(tls_context(data_dir, held), "GET", f"{held.coordinator_url}{ROOT}/self")
    except EnrolmentRefused as error:
        return error.detail
    return ""


def renewed(data_dir: Path, now_s: float | None) -> bool:
    """Renew the certificate if it is due; return whether anything changed. ``now_s`` is None if no time is trusted.

    Raises:
        ConfigError: the device is not enrolled.
        EnrolmentRefused: the certificate was revoked.
        UnavailableError: the coordinator cannot be reached.
    """
    from nightjar.edge_agent.enrolment.keys import forget_next_key, next_key

    before = _enrolled(data_dir)
    held = refreshed(data_dir, before)
    if now_s is None or now_s < held.renew_s:
        return held != before
    key, csr = next_key(data_dir)
    url = f"{held.coordinator_url}{ROOT}/self"
    try:
        answer = _ask(tls_context(data_dir, held), "POST", url, RenewalWanted(csr))
    except EnrolmentRefused:
        forget_next_key(data_dir)
        raise
    identity = _with_keys_of(held, _identity(answer, held.coordinator_url))
    keep(data_dir, identity, key + answer.certificate.encode())
    refreshed(data_dir, identity)  # the first use of the new certificate makes it the current one
    return True


def _claimed(data_dir: Path, claim: ClaimFile) -> EnrolledIdentity:
    from nightjar.edge_agent.enrolment.keys import forget_next_key, next_key

    key, csr = next_key(data_dir)
    try:
        answer = _ask(trusting([claim.authority]), "POST", f"{claim.url}{ROOT}", EnrolmentWanted(claim.claim, csr))
    except EnrolmentRefused:
        forget_next_key(data_dir)
        raise
    identity = _identity(answer, claim.url)
    keep(data_dir, identity, key + answer.certificate.encode())
    return identity


def _enrolled(data_dir: Path) -> EnrolledIdentity:
    identity = held_identity(data_dir)
    if identity is None:
        msg = "this device is not enrolled: nightjar-agent enrol"
        raise ConfigError(msg)
    return identity


def _with_keys_of(held: EnrolledIdentity, said: EnrolledIdentity) -> EnrolledIdentity:
    return replace(said, coordinator_key=held.coordinator_key, recovery_key=held.recovery_key)


def _identity(answer: Enrolled, url: str) -> EnrolledIdentity:
    told = msgspec.to_builtins(answer)  # its fields have the names of ours
    told |= {"coordinator_url": url, "broker_host": answer.broker_host or urlsplit(url).hostname or ""}
    return msgspec.convert(told, EnrolledIdentity)


def _ask(
    context: ssl.SSLContext, method: str, url: str, body: EnrolmentWanted | RenewalWanted | None = None
) -> Enrolled:
    with urllib3.PoolManager(ssl_context=context, assert_hostname=COORDINATOR_NAME) as pool:
        try:
            answer = pool.request(
                method,
                url,
                json=None if body is None else msgspec.to_builtins(body),
                timeout=TIMEOUT_S,
                retries=ONCE_MORE,
                redirect=False,
                preload_content=False,
            )
            status, data = answer.status, answer.read(MOST_ANSWER_BYTES)
            answer.close()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            msg = f"the coordinator at {url} does not answer: {error}"
            raise UnavailableError(msg) from error
    if status == 202:
        msg = "the coordinator has this device's key; a person there has to let it in ('enrolment approve')"
        raise UnavailableError(msg)
    if status in {400, 401, 403, 404, 415, 422}:
        detail = _detail(data)
        msg = f"the coordinator at {url} refused ({status}): {detail}"
        raise EnrolmentRefused(msg, detail)
    if status != 200:
        msg = f"the coordinator at {url} answered {status}: {_detail(data)}"
        raise UnavailableError(msg)
    try:
        return msgspec.json.decode(data, type=Enrolled)
    except msgspec.MsgspecError as error:
        msg = f"expected a document about our certificate, got something else: {error}"
        raise RemoteProtocolError(msg, code="enrolment") from error


def _detail(data: bytes) -> str:
    try:
        return msgspec.json.decode(data, type=_Problem).detail[:400]
    except msgspec.MsgspecError:
        return data[:100].decode(errors="replace")
