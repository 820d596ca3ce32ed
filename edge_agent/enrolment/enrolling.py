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
from nightjar.edge_agent.enrolment.identity import (
    CREDENTIAL,
    FOLDER,
    EnrolledIdentity,
    held_identity,
    keep,
    tls_context,
    trusting,
)
from nightjar.edge_agent.shell.http import reason_of
from nightjar.host.trusted_time import in_utc
from nightjar.wire.enrolment import (
    COORDINATOR_NAME,
    ROOT,
    Enrolled,
    EnrolmentWanted,
    ExpiredRenewalWanted,
    RenewalWanted,
    renewal_bytes,
)
from nightjar.wire.errors import ConfigError, NightjarError, RemoteProtocolError, UnavailableError

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
    claim = None if _is_missing(claim_path) else read_claim(claim_path)
    held = _still_valid(data_dir, claim)
    anew = held is None
    if held is None:
        held = refreshed(data_dir, _claimed(data_dir, claim or read_claim(claim_path)))
    return Enrolment(held, anew, () if claim is None else _wiped(claim, claim_path, also_wipe))


def _is_missing(path: Path) -> bool:
    """Whether there is no such file; what cannot be looked at, as on a damaged card, is there for whoever reads it."""
    try:
        return not path.exists()
    except OSError:
        return False


def _still_valid(data_dir: Path, claim: ClaimFile | None) -> EnrolledIdentity | None:
    """The identity, if the device need not use a claim: it is the claim's coordinator's, and that accepts it.

    A claim wins over an identity that is damaged, expired, revoked, of another coordinator, or of one that does not
    answer: a person has put it there.
    """
    try:
        held = held_identity(data_dir)
        if held is None or (claim is not None and _is_foreign(held, claim)):
            return None
        return refreshed(data_dir, held)
    except NightjarError:
        if claim is None:
            raise
        return None


def _is_foreign(held: EnrolledIdentity, claim: ClaimFile) -> bool:
    ours = {"".join(each.split()) for each in held.authorities}
    return claim.url.rstrip("/") != held.coordinator_url or "".join(claim.authority.split()) not in ours


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
    (:mod:`nightjar.edge_agent.link.trust`). That of the device's owner comes with a claim and is never asked for.

    Raises:
        EnrolmentRefused: the certificate was revoked.
        UnavailableError: the coordinator cannot be reached.
    """
    answer = _ask(tls_context(data_dir, held), "GET", f"{held.coordinator_url}{ROOT}/self")
    identity = _with_keys_of(held, _identity(answer, held.coordinator_url))
    if identity != held:
        keep(data_dir, identity, None)
    return identity


def refusal(data_dir: Path, now_s: float | None = None) -> str:
    """Why the coordinator refuses this device's certificate, in its words; empty if it accepts it. Changes nothing.

    ``now_s`` is None if no time is trusted.

    Raises:
        ConfigError: the device is not enrolled, or its certificate cannot be used.
        UnavailableError: the coordinator cannot be reached.
    """
    held = _enrolled(data_dir)
    try:
        _ask(tls_context(data_dir, held), "GET", f"{held.coordinator_url}{ROOT}/self")
    except EnrolmentRefused as error:
        return error.detail
    except UnavailableError as error:
        if not has_ended(held, now_s, error):
            raise
        return f"{ended(held)}; it asks for the next one, and else needs a new claim (nightjar-agent enrol)"
    return ""


def has_ended(held: EnrolledIdentity, now_s: float | None, error: Exception | None = None) -> bool:
    """Whether our certificate ended: by a trusted clock, or because a server said so."""
    return (now_s is not None and now_s >= held.expires_s) or "certificate expired" in _all_of(error).lower()


def ended(held: EnrolledIdentity) -> str:
    """Words for a certificate that ended."""
    return f"the certificate of this device ended on {in_utc(held.expires_s)}"


def _all_of(error: BaseException | None) -> str:
    """The texts of an error and of what caused it."""
    texts: list[str] = []
    while error is not None and len(texts) < 8:
        texts.append(f"{error} {error!r}")
        error = error.__cause__ or error.__context__
    return " ".join(texts).replace("_", " ")


def renewed(data_dir: Path, now_s: float | None) -> bool:
    """Renew the certificate if it is due; return whether anything changed. ``now_s`` is None if no time is trusted.

    Raises:
        ConfigError: the device is not enrolled.
        EnrolmentRefused: the certificate was revoked.
        UnavailableError: the coordinator cannot be reached.
    """
    from nightjar.edge_agent.enrolment.keys import forget_next_key, next_key

    before = _enrolled(data_dir)
    try:
        held = refreshed(data_dir, before)
    except UnavailableError as error:
        cut_off = now_s is None and "RemoteDisconnected" in _all_of(error)  # the server's clock may know more than ours
        if not (cut_off or has_ended(before, now_s, error)):
            raise
        _renew_expired(data_dir, before)
        return True
    at_once = held.renew_s <= 0  # the authority changes: no clock is needed to know that
    if not at_once and (now_s is None or now_s < held.renew_s):
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


def _renew_expired(data_dir: Path, held: EnrolledIdentity) -> None:
    """Have a certificate renewed that ended while the device was off, by a proof that we have its key."""
    from nightjar.edge_agent.enrolment.keys import next_key, signed_with

    credential = (data_dir / FOLDER / CREDENTIAL).read_bytes()
    key, csr = next_key(data_dir)
    certificate = credential[credential.index(b"-----BEGIN CERTIFICATE") :].decode()
    wanted = ExpiredRenewalWanted(csr, certificate, signed_with(credential, renewal_bytes(csr)))
    try:
        answer = _ask(trusting(held.authorities), "POST", f"{held.coordinator_url}{ROOT}/expired", wanted)
    except EnrolmentRefused as error:
        msg = f"{ended(held)}, and the coordinator does not renew it: {error.detail}; enrol with a new claim"
        raise EnrolmentRefused(msg, error.detail) from error
    identity = _with_keys_of(held, _identity(answer, held.coordinator_url))
    keep(data_dir, identity, key + answer.certificate.encode())
    refreshed(data_dir, identity)


def _claimed(data_dir: Path, claim: ClaimFile) -> EnrolledIdentity:
    from nightjar.edge_agent.enrolment.keys import forget_next_key, next_key

    key, csr = next_key(data_dir)
    try:
        answer = _ask(trusting([claim.authority]), "POST", f"{claim.url}{ROOT}", EnrolmentWanted(claim.claim, csr))
    except EnrolmentRefused:
        forget_next_key(data_dir)
        raise
    identity = replace(_identity(answer, claim.url), owner_key=claim.owner_key)
    keep(data_dir, identity, key + answer.certificate.encode())
    return identity


def _enrolled(data_dir: Path) -> EnrolledIdentity:
    identity = held_identity(data_dir)
    if identity is None:
        msg = "this device is not enrolled: nightjar-agent enrol"
        raise ConfigError(msg)
    return identity


def _with_keys_of(held: EnrolledIdentity, said: EnrolledIdentity) -> EnrolledIdentity:
    return replace(said, coordinator_key=held.coordinator_key, recovery_key=held.recovery_key, owner_key=held.owner_key)


def _identity(answer: Enrolled, url: str) -> EnrolledIdentity:
    told = msgspec.to_builtins(answer)  # its fields have the names of ours
    told |= {"coordinator_url": url, "broker_host": answer.broker_host or urlsplit(url).hostname or ""}
    return msgspec.convert(told, EnrolledIdentity)


_Wanted = EnrolmentWanted | RenewalWanted | ExpiredRenewalWanted


def _ask(context: ssl.SSLContext, method: str, url: str, body: _Wanted | None = None) -> Enrolled:
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
            msg = f"the coordinator at {url} does not answer: {reason_of(error)}"
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
