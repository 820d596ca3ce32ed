"""Claims and credentials in the database; each change also writes an audit entry.

Used by the web server and the command line; the driver never touches these tables. Each method is one transaction.
:mod:`nightjar.coordinator.enrolment.claims` decides whether a claim is accepted.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from msgspec import structs

from nightjar.coordinator.enrolment.claims import Admitted, Claim, ClaimRefused, Credential, KeyState, Verdict, redeem
from nightjar.coordinator.enrolment.standing import Standing
from nightjar.coordinator.rounds.lease import MOST_LABELS, Lease, joined
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.tables import audit, claims, credentials, devices, note
from nightjar.coordinator.tls.authority import requested_key
from nightjar.wire.identifiers import DeviceId

_LIVE = (KeyState.ISSUED.value, KeyState.ACTIVE.value)
# Every download runs this; SQLAlchemy takes longer to build a statement than to run it.
_SEEN = sa.select(
    credentials.c.device,
    credentials.c.standing,
    credentials.c.claim,
    sa.select(devices.c.blocked).where(devices.c.device == credentials.c.device).scalar_subquery(),
).where(credentials.c.serial == sa.bindparam("of"), credentials.c.standing.in_(_LIVE))
MOST_CERTIFICATES = 8
"""Valid certificates per device. A device renews after two thirds of a certificate's life, so it has two, and a few
more after a rotation of the authority or a power cut. Each is a row, and an entry in the revocation list after
``forget``."""
MOST_REFUSALS = 1000
"""Audit entries per refusal reason, because strangers can cause them; the oldest are deleted."""


class KeyPosition(NamedTuple):
    """A position in the list of keys, which is sorted by the time of their request."""

    requested_s: float
    key: str


class Register:
    """The register of claims and credentials."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._one_at_a_time = threading.Lock()  # SQLite transactions begin only at their first write

    # Claims

    def claims(self) -> list[Claim]:
        """All claims, sorted by name."""
        with self._database.connection() as tx:
            rows = tx.execute(sa.select(claims).order_by(claims.c.name)).mappings()
            return [Claim(**row) for row in rows]

    def add_claim(self, claim: Claim, who: str) -> bool:
        """Store a claim; False, without any change, if a claim of that name exists or existed."""
        with self._one_at_a_time, self._database.connection() as tx:
            taken = sa.select(claims.c.name).where(claims.c.name == claim.name)
            used = sa.select(credentials.c.claim).where(credentials.c.claim == claim.name).limit(1)
            if tx.scalar(taken) is not None or tx.scalar(used) is not None:
                return False
            tx.execute(sa.insert(claims).values(structs.asdict(claim)))
            note(tx, claim.created_s, who, "create-claim", claim.name, "none", f"{claim.uses} to let in")
            return True

    def remove_claim(self, name: str, who: str, now_s: float) -> bool:
        """Revoke a claim at once; False if no claim has that name. Devices that it enrolled stay enrolled."""
        with self._one_at_a_time, self._database.connection() as tx:
            held = _claim(tx, claims.c.name == name)
            if held is None:
                return False
            tx.execute(sa.delete(claims).where(claims.c.name == name))
            note(tx, now_s, who, "revoke-claim", name, f"{held.uses_left} to let in", "none")
            return True

    def redeem(self, claim_sha256: str, key: str, csr: str, address: str, now_s: float) -> Verdict:
        """Decide on a claim and a key, and store the verdict; refusals go to the audit log."""
        with self._one_at_a_time, self._database.connection() as tx:
            claim, held = _claim(tx, claims.c.sha256 == claim_sha256), _credential(tx, credentials.c.key == key)
            verdict = redeem(claim, held, key, now_s)
            # An operator wants a device that a claim names enrolled, even if it is known already.
            named = claim is not None and claim.device
            if isinstance(verdict, Admitted) and not named and _of_device(tx, verdict.device):
                verdict = ClaimRefused("device-known", f"there is a device {verdict.device} already; make another key")
            if isinstance(verdict, Admitted) and claim is not None:
                tx.execute(sa.update(claims).where(claims.c.name == claim.name).values(uses_left=claim.uses_left - 1))
                admitted = Credential(
                    key=key,
                    device=verdict.device,
                    claim=claim.name,
                    standing=verdict.standing,
                    csr=csr,
                    address=address,
                    requested_s=now_s,
                )
                _insert(tx, admitted)
                _label(tx, verdict.device, claim.labels)
                note(tx, now_s, f"claim {claim.name}", "enrol", verdict.device, "none", verdict.standing.value)
            if isinstance(verdict, ClaimRefused):
                who = address if claim is None else f"claim {claim.name}"
                note(tx, now_s, who, "refuse-claim", key[:16], verdict.code, f"from {address}")
                _forget_oldest(tx, sa.and_(audit.c.action == "refuse-claim", audit.c.before == verdict.code))
            return verdict

    # Credentials

    def waiting(self) -> int:
        """Number of keys that wait for approval."""
        query = sa.select(sa.func.count()).where(credentials.c.standing == KeyState.WAITING.value)
        with self._database.connection() as tx:
            return int(tx.scalar(query) or 0)

    def credentials(
        self, standings: Iterable[KeyState] = tuple(KeyState), limit: int = 1000, after: KeyPosition | None = None
    ) -> list[Credential]:
        """Credentials in the given states, newest first; with ``after``, only those that follow this position."""
        wanted = [standing.value for standing in standings]
        query = (
            sa.select(credentials)
            .where(credentials.c.standing.in_(wanted))
            .order_by(credentials.c.requested_s.desc(), credentials.c.key)
            .limit(limit)
        )
        if after is not None:
            same = sa.and_(credentials.c.requested_s == after.requested_s, credentials.c.key > after.key)
            query = query.where(sa.or_(credentials.c.requested_s < after.requested_s, same))
        with self._database.connection() as tx:
            return [_from_row(row) for row in tx.execute(query).mappings()]

    def credential(self, key: str) -> Credential | None:
        """The credential of a key; None if the key is unknown."""
        with self._database.connection() as tx:
            return _credential(tx, credentials.c.key == key)

    def by_serial(self, serial: str) -> Credential | None:
        """The live credential whose certificate has this serial number; None if there is none."""
        with self._database.connection() as tx:
            return _credential(tx, sa.and_(credentials.c.serial == serial, credentials.c.standing.in_(_LIVE)))

    def newest_of(self, serial: str) -> Credential | None:
        """The live credential whose certificate has this serial number, if its device has used no later one.

        None if there is none, or the device is blocked.
        """
        with self._database.connection() as tx:
            held = _credential(tx, sa.and_(credentials.c.serial == serial, credentials.c.standing.in_(_LIVE)))
            if held is None:
                return None
            later = sa.select(sa.func.count()).where(
                credentials.c.device == held.device,
                credentials.c.standing == KeyState.ACTIVE.value,
                credentials.c.expires_s > held.expires_s,
            )
            blocked = tx.scalar(sa.select(devices.c.blocked).where(devices.c.device == held.device))
            return None if blocked or tx.scalar(later) else held

    def renew(self, key: str, device: DeviceId, csr: str, address: str, now_s: float) -> Credential | ClaimRefused:
        """The credential of a device's new key; an unknown key is added, unless the device has too many certificates.

        If the key belongs to another device, that device's credential is returned unchanged: the caller must compare.
        """
        live = sa.and_(credentials.c.standing.in_(_LIVE), credentials.c.expires_s > now_s)
        counts = sa.or_(credentials.c.standing == KeyState.GRANTED.value, live)
        with self._one_at_a_time, self._database.connection() as tx:
            held = _credential(tx, credentials.c.key == key)
            if held is None:
                many = sa.select(sa.func.count()).where(credentials.c.device == device, counts)
                if int(tx.scalar(many) or 0) >= MOST_CERTIFICATES:
                    return ClaimRefused(
                        "too-many", f"{device} has {MOST_CERTIFICATES} certificates; wait until one ends"
                    )
                held = Credential(
                    key=key,
                    device=device,
                    claim="",
                    standing=KeyState.GRANTED,
                    csr=csr,
                    address=address,
                    requested_s=now_s,
                )
                _insert(tx, held)
                note(tx, now_s, device, "renew", device, "none", key[:16])
            return held

    def issue(self, key: str, certificate: str, serial: str, authority: str, expires_s: float) -> Credential:
        """Store a key's certificate, unless it has one already; the credential with its certificate."""
        with self._one_at_a_time, self._database.connection() as tx:
            _change(
                tx,
                sa.and_(credentials.c.key == key, credentials.c.standing == KeyState.GRANTED.value),
                standing=KeyState.ISSUED.value,
                certificate=certificate,
                serial=serial,
                authority=authority,
                expires_s=expires_s,
            )
            held = _credential(tx, credentials.c.key == key)
        if held is None:
            msg = f"the key {key[:16]} is gone"
            raise LookupError(msg)
        return held

    def enrolled_key(self, device: DeviceId) -> bytes | None:
        """The newest certified public key of a device, compressed; None if it has none."""
        live = sa.and_(credentials.c.device == device, credentials.c.standing.in_(_LIVE))
        newest = sa.select(credentials.c.csr).where(live).order_by(credentials.c.requested_s.desc()).limit(1)
        with self._database.connection() as tx:
            csr = tx.scalar(newest)
        return None if csr is None else requested_key(csr).public_bytes(Encoding.X962, PublicFormat.CompressedPoint)

    def seen(self, serial: str, now_s: float) -> DeviceId | None:
        """The device of a certificate that grants access now: issued, not revoked, and its device not blocked.

        The first use burns the claim. A certificate from a claim means that the device was enrolled anew, so the first
        use also revokes the device's other credentials.
        """
        with self._database.connection() as tx:
            row = tx.execute(_SEEN, {"of": serial}).first()
        if row is None or row[3]:
            return None
        device = DeviceId(row[0])
        if row[1] == KeyState.ISSUED.value:
            self._activate(serial, device, row[2], now_s)
        return device

    def expects(self, device: DeviceId) -> bool:
        """Whether a device has a key, or a claim names it."""
        with self._database.connection() as tx:
            named = tx.scalar(sa.select(claims.c.name).where(claims.c.device == device).limit(1))
            return named is not None or _of_device(tx, device)

    def standing_of(self, device: DeviceId) -> Standing:
        """A device's standing."""
        with self._database.connection() as tx:
            keys = tx.scalars(sa.select(credentials.c.standing).where(credentials.c.device == device).distinct())
            blocked = sa.select(devices.c.blocked).where(devices.c.device == device)
            return Standing(device, frozenset(KeyState(each) for each in keys), tx.scalar(blocked) or "")

    def standing_of_serial(self, serial: str) -> Standing:
        """The standing of the device that a certificate was issued to, whatever became of the certificate since."""
        with self._database.connection() as tx:
            device = tx.scalar(sa.select(credentials.c.device).where(credentials.c.serial == serial).limit(1))
        return Standing("") if device is None else self.standing_of(DeviceId(device))

    def _activate(self, serial: str, device: DeviceId, claim: str, now_s: float) -> None:
        with self._one_at_a_time, self._database.connection() as tx:
            if not _change(
                tx,
                sa.and_(credentials.c.serial == serial, credentials.c.standing == KeyState.ISSUED.value),
                standing=KeyState.ACTIVE.value,
            ):
                return
            if claim:  # a claim, not a renewal: an operator wanted this device enrolled again
                _change(
                    tx,
                    sa.and_(credentials.c.device == device, credentials.c.serial != serial),
                    standing=KeyState.REVOKED.value,
                )
            note(tx, now_s, device, "burn-claim" if claim else "renewed", claim or device, "issued", "active")

    def decide(self, key: str, who: str, now_s: float, *, approved: bool) -> bool:
        """Approve or refuse a waiting key; False if it is not waiting."""
        standing = KeyState.GRANTED if approved else KeyState.REVOKED
        with self._one_at_a_time, self._database.connection() as tx:
            waiting = sa.and_(credentials.c.key == key, credentials.c.standing == KeyState.WAITING.value)
            held = _credential(tx, waiting)
            if held is None or not _change(tx, waiting, standing=standing.value):
                return False
            action = "approve" if approved else "refuse"
            note(tx, now_s, who, action, held.device, KeyState.WAITING.value, standing.value)
            return True

    def revoke(self, device: DeviceId, who: str, now_s: float) -> bool:
        """Revoke all credentials of a device for good; False if it has none."""
        with self._one_at_a_time, self._database.connection() as tx:
            live = sa.and_(credentials.c.device == device, credentials.c.standing != KeyState.REVOKED.value)
            if not _change(tx, live, standing=KeyState.REVOKED.value):
                return False
            note(tx, now_s, who, "revoke", device, "enrolled", "revoked")
            return True

    def shut_out(self, now_s: float) -> dict[str, DeviceId]:
        """Unexpired certificates that must be refused, because they are revoked or their device is blocked.

        Returns:
            Serial number -> device.
        """
        blocked = sa.select(devices.c.device).where(devices.c.blocked != "")
        query = sa.select(credentials.c.serial, credentials.c.device).where(
            credentials.c.serial != "",
            credentials.c.expires_s > now_s,
            sa.or_(credentials.c.standing == KeyState.REVOKED.value, credentials.c.device.in_(blocked)),
        )
        with self._database.connection() as tx:
            return {row[0]: DeviceId(row[1]) for row in tx.execute(query)}

    def certificates(self, devices: Collection[str], now_s: float) -> dict[str, DeviceId]:
        """Unexpired certificates of some devices: serial number -> device."""
        if not devices:
            return {}
        query = sa.select(credentials.c.serial, credentials.c.device).where(
            credentials.c.serial != "", credentials.c.expires_s > now_s, credentials.c.device.in_(devices)
        )
        with self._database.connection() as tx:
            return {row[0]: DeviceId(row[1]) for row in tx.execute(query)}

    def expiring(self, now_s: float, within_s: float) -> int:
        """Number of devices whose last live certificate has ended or ends within some seconds: they did not renew it.

        A device counts until it is back, or until somebody forgets it.
        """
        last = sa.func.max(credentials.c.expires_s)
        ending = sa.select(credentials.c.device).where(credentials.c.standing.in_(_LIVE)).group_by(credentials.c.device)
        query = sa.select(sa.func.count()).select_from(ending.having(last < now_s + within_s).subquery())
        with self._database.connection() as tx:
            return int(tx.scalar(query) or 0)

    def revoked(self, names: Collection[DeviceId] | None = None) -> frozenset[DeviceId]:
        """The devices that had certificates and lost them for good; with ``names``, only of these."""
        held = sa.select(credentials.c.device).where(credentials.c.standing != KeyState.REVOKED.value)
        query = sa.select(credentials.c.device).where(credentials.c.device.not_in(held)).distinct()
        with self._database.connection() as tx:
            found = tx.scalars(query if names is None else query.where(credentials.c.device.in_(names)))
            return frozenset(DeviceId(each) for each in found)

    def signed_by(self, authority: str, now_s: float) -> list[DeviceId]:
        """Devices whose live certificates are all signed by one authority (given by its fingerprint), sorted."""
        live = sa.and_(credentials.c.standing.in_(_LIVE), credentials.c.expires_s > now_s)
        others = sa.select(credentials.c.device).where(live, credentials.c.authority != authority)
        query = (
            sa.select(credentials.c.device)
            .where(live, credentials.c.authority == authority, credentials.c.device.not_in(others))
            .distinct()
            .order_by(credentials.c.device)
        )
        with self._database.connection() as tx:
            return [DeviceId(row[0]) for row in tx.execute(query)]


def _claim(tx: sa.Connection, condition: sa.ColumnElement[bool]) -> Claim | None:
    row = tx.execute(sa.select(claims).where(condition)).mappings().first()
    return None if row is None else Claim(**row)


def _credential(tx: sa.Connection, condition: sa.ColumnElement[bool]) -> Credential | None:
    row = tx.execute(sa.select(credentials).where(condition)).mappings().first()
    return None if row is None else _from_row(row)


def _of_device(tx: sa.Connection, device: DeviceId) -> bool:
    return tx.scalar(sa.select(credentials.c.key).where(credentials.c.device == device).limit(1)) is not None


def _insert(tx: sa.Connection, credential: Credential) -> None:
    values = structs.asdict(credential)
    values["standing"] = credential.standing.value
    tx.execute(sa.insert(credentials).values(values))


def _label(tx: sa.Connection, device: DeviceId, labels: str) -> None:
    """Give a device the labels of its claim. Nothing else writes its row: it has no certificate to connect with yet."""
    if not labels:
        return
    found = tx.scalar(sa.select(devices.c.labels).where(devices.c.device == device))
    if found is None:
        new = structs.asdict(Lease(device=device, labels=labels))
        tx.execute(sa.insert(devices).values(**{**new, "presence": new["presence"].value}))
    else:
        both = joined([*found.split(), *labels.split()][:MOST_LABELS])
        tx.execute(sa.update(devices).where(devices.c.device == device).values(labels=both))


def _change(tx: sa.Connection, condition: sa.ColumnElement[bool], **values: object) -> bool:
    return tx.execute(sa.update(credentials).where(condition).values(**values)).rowcount > 0


def _from_row(row: Mapping[Any, Any]) -> Credential:
    return Credential(**{**row, "standing": KeyState(row["standing"])})


def _forget_oldest(tx: sa.Connection, which: sa.ColumnElement[bool]) -> None:
    newest = sa.select(audit.c.number).where(which).order_by(audit.c.number.desc())
    last = tx.scalar(newest.offset(MOST_REFUSALS).limit(1))
    if last is not None:
        tx.execute(sa.delete(audit).where(which, audit.c.number <= last))
