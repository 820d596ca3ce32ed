"""Deletes what a coordinator no longer needs: rows of the database in small transactions, and files without an owner.

:mod:`nightjar.coordinator.versions.retention` decides which versions keep their files; ``docs/operating.md`` lists the
rest. A kill at any place leaves only files that nothing refers to, which the next pass deletes. The caller says what
time it is, and must not ask while the clock is not trusted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import sqlalchemy as sa

from nightjar.coordinator.enrolment.claims import KeyState
from nightjar.coordinator.ports import BlobStore
from nightjar.coordinator.records.rounds import RoundSummary
from nightjar.coordinator.rounds.round import TERMINAL
from nightjar.coordinator.storage.blobs import FileBlobs, StoredBlob, disk
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.tables import (
    audit,
    chunks,
    claims,
    counted_cohorts,
    counters,
    credentials,
    devices,
    federated,
    report_frames,
    reports,
    round_summaries,
    rounds,
    secure_sums,
    tokens,
    upsert,
    versions,
)
from nightjar.coordinator.storage.view import DatabaseView
from nightjar.coordinator.tasks.task import OVER
from nightjar.coordinator.versions.releases import OUT
from nightjar.coordinator.versions.retention import DAY_S, IN_HAND, StoredVersion, kept_versions
from nightjar.coordinator.versions.retention_policy import RetentionPolicy
from nightjar.coordinator.versions.rollout import Stage
from nightjar.models.manifest import Manifest
from nightjar.wire.errors import IntegrityError, RemoteProtocolError

ROUNDS_KEPT, MOST_ROUNDS = 100, 10_000
"""The newest rounds are kept whatever their age, and no more than this whatever theirs: a demonstration has twenty
thousand a day."""
AUDIT_KEPT = 10_000
"""Newest entries of the audit log that are kept whatever their age; 3 MB."""
RELEASES_KEPT = 3
"""Newest releases of the agent whose bundles are kept although no device takes them any more."""
FRESH_S, ORPHANED_S = 600.0, 86_400.0
"""A file of a pruned version is deleted unless it was stored in the last ten minutes; any other file that nothing
refers to after a day, because what was just averaged waits for a database that is away."""
ROWS_AT_ONCE = 200
"""Rows of one transaction: it takes some milliseconds, and reports wait no longer."""

_SUMMARY = msgspec.json.Decoder(RoundSummary)
_LIVE = (KeyState.ISSUED.value, KeyState.ACTIVE.value)


class Pruned(msgspec.Struct, frozen=True):
    """What was deleted, or would be. An artifact counts only if no version that is kept has it, too."""

    versions: int = 0  # that lost their files
    artifacts: int = 0
    artifact_bytes: int = 0
    rounds: int = 0  # with their reports' rows
    version_rows: int = 0
    counted_cohorts: int = 0
    credentials: int = 0
    claims: int = 0
    tokens: int = 0
    audit: int = 0

    @property
    def anything(self) -> bool:
        """Whether there is anything."""
        return any(msgspec.structs.astuple(self))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What tasks, rounds and releases refer to: versions, rounds, and the hashes of artifacts."""

    in_use: frozenset[int]
    best: frozenset[int]
    rounds: frozenset[int]
    artifacts: frozenset[str]

    @classmethod
    def of(cls, view: DatabaseView) -> _Wanted:
        """Read it."""
        tasks, opened, releases = view.tasks(), view.open_rounds(), view.releases()
        sources = (record.settings.source.version for record in tasks if record.state.status not in OVER)
        named = (version for version in sources if version is not None)
        given = {seat.given.version for state in opened for seat in state.seats.values() if seat.given is not None}
        since = view.measured_since()
        best = (view.best_version(name, since) for name in view.tasks_of_versions())
        offered = [
            release
            for place, release in enumerate(reversed(releases))
            if place < RELEASES_KEPT or release.rollout.stage in {*OUT, Stage.CANDIDATE}
        ]
        bundles = {sha256 for release in offered for sha256 in release.bundles.values()}
        return cls(
            in_use=frozenset({*(state.base_version for state in opened), *given, *named}),
            best=frozenset(each.version for each in best if each is not None),
            rounds=frozenset(record.state.waiting for record in tasks),
            artifacts=frozenset({*view.release_files().values(), *bundles}),
        )


@dataclass(frozen=True, slots=True)
class _Unneeded:
    """Artifacts that nobody needs, and incomplete files of writers that were killed, each with its bytes."""

    artifacts: list[StoredBlob]
    incomplete: dict[Path, int]

    def counts(self) -> dict[str, int]:
        """Both together, as fields of :class:`Pruned`."""
        sizes = [*(blob.size_bytes for blob in self.artifacts), *self.incomplete.values()]
        return {"artifacts": len(sizes), "artifact_bytes": sum(sizes)}


class Retention:
    """Finds and deletes what a coordinator no longer needs.

    Args:
        database: may be in use.
        artifacts: the store of artifacts.
        policy: what is kept.
        pause: called between transactions; returns true to end early, like ``threading.Event.wait``.
    """

    def __init__(
        self,
        database: Database,
        artifacts: FileBlobs,
        policy: RetentionPolicy,
        pause: Callable[[], object] = lambda: False,
    ) -> None:
        self._database, self._artifacts, self._policy, self._pause = database, artifacts, policy, pause
        self._parts = functools.lru_cache(maxsize=4096)(lambda manifest: frozenset(parts_of(manifest, artifacts)))

    def excess(self, now_s: float) -> Pruned:
        """What :meth:`prune` would delete.

        Raises:
            UnavailableError: the database or the store of artifacts does not work now.
            IntegrityError: the manifest of a version is missing or damaged.
        """
        wanted = self._wanted()
        with self._database.connection() as tx:
            doomed = self._doomed(tx, wanted, now_s)
            referred = self._referred(tx, wanted, without=doomed)
            old_rounds = self._old_rounds(tx, wanted, now_s)
        unneeded = self._unneeded(doomed, referred, now_s)
        with self._database.connection() as tx:
            many = {name: _count(tx, table, which) for name, table, which in self._old_rows(tx, now_s)}
        return Pruned(versions=len(doomed), rounds=len(old_rounds), **unneeded.counts(), **many)

    def prune(self, now_s: float) -> Pruned:
        """Delete it, in small transactions; returns what was deleted.

        Raises:
            UnavailableError: the database or the store of artifacts does not work now; what was deleted stays deleted.
            IntegrityError: the manifest of a version is missing or damaged, so no file is deleted.
        """
        wanted = self._wanted()
        with self._database.connection() as tx:
            doomed = self._doomed(tx, wanted, now_s)
            self._referred(tx, wanted, without={})  # fails if a manifest is damaged, before anything is deleted
            old_rounds = self._old_rounds(tx, wanted, now_s)
        given_up: dict[int, str] = {}
        for batch in _batches(sorted(doomed), ROWS_AT_ONCE):
            given_up |= {number: doomed[number] for number in self._give_up(batch, now_s)}
            if self._pause():
                break
        wanted = self._wanted()
        with self._database.connection() as tx:
            referred = self._referred(tx, wanted, without={})
        unneeded = self._unneeded(given_up, referred, now_s)
        for blob in unneeded.artifacts:
            self._artifacts.remove(blob.sha256)
        for path in unneeded.incomplete:
            with disk(path):
                path.unlink(missing_ok=True)
        gone = self._drop_rounds(old_rounds)
        many = {}
        with self._database.connection() as tx:
            old_rows = list(self._old_rows(tx, now_s))
        for name, table, which in old_rows:
            many[name] = self._drop_rows(table, which)
        return Pruned(versions=len(given_up), rounds=gone, **unneeded.counts(), **many)

    # Versions and their files

    def _wanted(self) -> _Wanted:
        with self._database.transaction() as view:
            return _Wanted.of(view)

    def _doomed(self, tx: sa.Connection, wanted: _Wanted, now_s: float) -> dict[int, str]:
        """The versions that lose their files, each with the hash of its manifest."""
        lately_s = now_s - DAY_S * self._policy.days
        columns = [versions.c[name] for name in ("version", "task", "stage", "created_s", "by_hand", "manifest")]
        rows = tx.execute(sa.select(*columns).where(versions.c.pruned_s.is_(None))).all()
        stored = [StoredVersion(row.version, row.task, Stage(row.stage), row.created_s, row.by_hand) for row in rows]
        kept = kept_versions(
            stored,
            self._policy,
            now_s,
            in_use=wanted.in_use,
            best=wanted.best,
            held={*tx.scalars(sa.select(devices.c.version).where(devices.c.last_seen_s >= lately_s).distinct())},
        )
        return {row.version: row.manifest for row in rows if row.version not in kept}

    def _give_up(self, numbers: Sequence[int], now_s: float) -> list[int]:
        """Mark versions as without files, but for those that came into use; returns which."""
        these = versions.c.version.in_(numbers)
        busy = versions.c.stage.in_([stage.value for stage in IN_HAND])
        idle = sa.and_(versions.c.pruned_s.is_(None), versions.c.by_hand.is_(sa.false()), sa.not_(busy))
        with self._database.connection() as tx:
            tx.execute(sa.update(versions).where(these, idle).values(pruned_s=now_s, hits=None, examples=None))
            return list(tx.scalars(sa.select(versions.c.version).where(these, versions.c.pruned_s == now_s)))

    def _referred(self, tx: sa.Connection, wanted: _Wanted, without: dict[int, str]) -> set[str]:
        """Hashes of all artifacts that something refers to."""
        rows = tx.execute(sa.select(versions.c.version, versions.c.manifest).where(versions.c.pruned_s.is_(None)))
        named = {manifest for number, manifest in rows if number not in without}
        return {*named, *wanted.artifacts, *(part for manifest in named for part in self._parts(manifest))}

    def _unneeded(self, given_up: dict[int, str], referred: set[str], now_s: float) -> _Unneeded:
        freed = list(self._freed(given_up, referred, now_s))
        return _Unneeded(freed, self._artifacts.abandoned(now_s, ORPHANED_S))

    def _freed(self, given_up: dict[int, str], referred: set[str], now_s: float) -> Iterator[StoredBlob]:
        """The artifacts that nothing refers to, of versions that were given up or old enough."""
        theirs = {*given_up.values()}
        for manifest in given_up.values():
            theirs |= self._parts_if_there(manifest)
        for blob in self._artifacts.listed():
            # A file from the future was stored while the clock was wrong.
            age_s = abs(now_s - blob.stored_s)
            if blob.sha256 not in referred and age_s >= (FRESH_S if blob.sha256 in theirs else ORPHANED_S):
                yield blob

    def _parts_if_there(self, manifest: str) -> frozenset[str]:
        try:
            return self._parts(manifest)
        except RemoteProtocolError:
            return frozenset()

    # Rows

    def _old_rounds(self, tx: sa.Connection, wanted: _Wanted, now_s: float) -> list[int]:
        """Numbers of ended rounds that are over for too long, in ascending order."""
        kept_s = DAY_S * self._policy.days
        many = int(tx.scalar(sa.select(sa.func.count()).select_from(rounds)) or 0)
        query = sa.select(rounds.c.number, rounds.c.phase, round_summaries.c.body)
        query = query.join_from(rounds, round_summaries, isouter=True).order_by(rounds.c.number)
        over, old = {phase.value for phase in TERMINAL}, []
        for place, row in enumerate(tx.execute(query.limit(max(0, many - ROUNDS_KEPT)))):
            if many - place <= MOST_ROUNDS and row.body is not None:
                closed_s = _SUMMARY.decode(row.body).closed_at_s or 0.0
                if abs(now_s - closed_s) < kept_s:  # one from the future was closed while the clock was wrong
                    break
            if row.phase in over and row.number not in wanted.rounds:
                old.append(row.number)
        return old

    def _drop_rounds(self, numbers: Sequence[int]) -> int:
        gone = 0
        for batch in _batches(numbers, ROWS_AT_ONCE // 10):
            with self._database.connection() as tx:
                for table in (chunks, report_frames, reports, secure_sums):
                    tx.execute(sa.delete(table).where(table.c.round.in_(batch)))
                tx.execute(sa.delete(round_summaries).where(round_summaries.c.number.in_(batch)))
                counted = sa.select(rounds.c.phase, sa.func.count()).where(rounds.c.number.in_(batch))
                pruned = [
                    {"name": f"rounds_pruned:{phase}", "value": many}
                    for phase, many in tx.execute(counted.group_by(rounds.c.phase))
                ]
                gone += tx.execute(sa.delete(rounds).where(rounds.c.number.in_(batch))).rowcount
                if pruned:
                    tx.execute(upsert(tx.dialect.name, counters), pruned)
            if self._pause():
                break
        return gone

    def _old_rows(self, tx: sa.Connection, now_s: float) -> Iterator[tuple[str, sa.Table, sa.ColumnElement[bool]]]:
        """Name, table and condition of rows that are too old."""
        before_s = now_s - DAY_S * self._policy.days
        newest = tx.scalar(sa.select(sa.func.max(versions.c.version))) or 0
        yield (
            "version_rows",
            versions,
            sa.and_(
                versions.c.pruned_s.is_not(None),
                versions.c.created_s < before_s,
                versions.c.version < newest,
                versions.c.version.not_in(sa.select(rounds.c.base_version)),
            ),
        )
        filed = sa.select(versions.c.version).where(versions.c.pruned_s.is_(None))  # others are no base any more
        yield "counted_cohorts", counted_cohorts, counted_cohorts.c.base_version.not_in(filed)
        later = credentials.alias()
        # A later key that was never used replaces none that was: its certificate may have got lost on the way, and then
        # the device renews late with the one that it has. Nor does one that is dated ahead, by a clock that was wrong.
        replaced = sa.exists().where(
            later.c.device == credentials.c.device,
            later.c.requested_s > credentials.c.requested_s,
            later.c.requested_s <= now_s,
            sa.or_(_was_used(later), sa.not_(_was_used(credentials))),
        )
        ended = sa.and_(credentials.c.expires_s > 0, credentials.c.expires_s < before_s)
        never = sa.and_(credentials.c.expires_s == 0, credentials.c.requested_s < before_s)
        # The newest key of a device that was used stays: whoever has it may renew late, or is told that it was revoked.
        yield "credentials", credentials, sa.and_(sa.or_(ended, never), replaced)
        yield "claims", claims, claims.c.expires_s < before_s
        yield "tokens", tokens, tokens.c.expires_s < before_s
        last = tx.scalar(sa.select(sa.func.max(audit.c.number))) or 0
        since_s = now_s - DAY_S * self._policy.audit_days
        # An entry from the future was made while the clock was wrong; it must not keep all that came after it.
        lately = audit.c.at_s.between(since_s, now_s)
        young = tx.scalar(sa.select(sa.func.min(audit.c.number)).where(lately)) or last
        yield "audit", audit, audit.c.number < min(young, last - AUDIT_KEPT + 1)

    def _drop_rows(self, table: sa.Table, which: sa.ColumnElement[bool]) -> int:
        gone, (key, *_) = 0, table.primary_key
        while True:
            with self._database.connection() as tx:
                found = list(tx.scalars(sa.select(key).where(which).order_by(key).limit(ROWS_AT_ONCE)))
            if not found:
                return gone
            with self._database.connection() as tx:
                if table is versions:
                    tx.execute(sa.delete(federated).where(federated.c.version.in_(found)))
                dropped = tx.execute(sa.delete(table).where(key.in_(found), which)).rowcount
            gone += dropped
            if not dropped or self._pause():
                return gone


def parts_of(manifest: str, artifacts: BlobStore) -> Iterator[str]:
    """Hashes of the artifacts that a manifest names.

    Raises:
        IntegrityError: the manifest is missing or damaged.
        UnavailableError: it cannot be read now.
    """
    try:
        held = Manifest.decode(artifacts.get(manifest))
    except IntegrityError as error:
        msg = f"no artifact is deleted, because a manifest is missing: {error}; restore a backup"
        raise IntegrityError(msg) from error
    parts = (held.program, held.weights, held.vocabulary, *held.for_keyboards, *(each.file for each in held.transfers))
    yield from (each.sha256 for each in parts)
    if held.bases is not None:
        yield held.bases.sha256


def _was_used(keys: sa.FromClause) -> sa.ColumnElement[bool]:
    """Whether a key has a certificate that a device used, or that was revoked."""
    return sa.and_(keys.c.serial != "", keys.c.standing.in_([KeyState.ACTIVE.value, KeyState.REVOKED.value]))


def _batches(numbers: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    return (numbers[start : start + size] for start in range(0, len(numbers), size))


def _count(tx: sa.Connection, table: sa.Table, which: sa.ColumnElement[bool]) -> int:
    return int(tx.scalar(sa.select(sa.func.count()).select_from(table).where(which)) or 0)
