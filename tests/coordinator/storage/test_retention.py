"""What is deleted of a coordinator's data, and what never is."""

import contextlib
import os
import re
import resource

import boto3
import msgspec
import pytest
import sqlalchemy as sa
from moto.server import ThreadedMotoServer

from nightjar.coordinator.records.versions import VersionRecord
from nightjar.coordinator.rounds.lease import Lease
from nightjar.coordinator.rounds.round import AbandonCause, Phase, open_round
from nightjar.coordinator.storage import retention as storing
from nightjar.coordinator.storage.artifacts import S3Blobs, SharedBlobs, open_artifacts
from nightjar.coordinator.storage.blobs import WRITING
from nightjar.coordinator.storage.pruner import Pruner
from nightjar.coordinator.storage.reserve import RESERVE_BYTES
from nightjar.coordinator.storage.retention import Retention
from nightjar.coordinator.storage.tables import audit, claims, credentials, note, reports, rounds
from nightjar.coordinator.versions.retention_policy import RetentionPolicy
from nightjar.coordinator.versions.rollout import Rollout, Stage
from nightjar.models.manifest import Artifact, Manifest
from nightjar.wire.errors import IntegrityError, UnavailableError
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.parameters import ParameterLayout, ParameterSpec
from tests.coordinator.storage.records import RULES, stored

DAY_S = 86_400.0
VERSIONS = 40
POLICY = RetentionPolicy(days=30, versions=10)


@pytest.fixture
def artifacts(tmp_path, database):
    """Files, or with PostgreSQL its table."""
    return open_artifacts(tmp_path / "artifacts", "", database)


def weights_of(number):
    return bytes([number]) * 40


def add_version(tx, artifacts, number, stage=Stage.SUPERSEDED, created_s=0.0, **changes):
    program, vocabulary, weights = (artifacts.put(data) for data in (b"program", b"words", weights_of(number)))
    manifest = Manifest(
        version=number,
        configuration="tiny",
        program=Artifact(program, 7),
        weights=Artifact(weights, 40),
        vocabulary=Artifact(vocabulary, 5),
        layout=ParameterLayout((ParameterSpec("w", (2, 5)),)),
        batch_rows=1,
        task_type="numbers",
        inputs=(1,),
        minimum_agent_version="0.1.0",
    )
    record = VersionRecord(
        version=number,
        task="keyboard",
        manifest=artifacts.put(manifest.encode()),
        created_s=created_s,
        rollout=Rollout(stage=stage),
        **changes,
    )
    tx.add_version(record)
    return record


def ended(number, base, closed_s):
    opened = open_round(number, base, RULES, 7, closed_s)
    return msgspec.structs.replace(
        opened, phase=Phase.ABANDONED, closed_at_s=closed_s, cause=AbandonCause.RESTORED, reason="too few"
    )


@pytest.fixture
def year(database, artifacts):
    """Forty versions, each with the round that was held on it a day after the one before; the last one is current."""
    with database.transaction() as tx:
        for number in range(VERSIONS):
            stage = Stage.CURRENT if number == VERSIONS - 1 else Stage.SUPERSEDED
            add_version(tx, artifacts, number, stage, DAY_S * number)
        for number in range(1, VERSIONS):
            tx.save_round(ended(number, number - 1, DAY_S * number))
            tx.add_report(stored(DeviceId("a"), number), b"frame")
    return database


def here(artifacts):
    return {blob.sha256 for blob in artifacts.listed()}


def has_weights(artifacts, number):
    try:
        return artifacts.get(Artifact.of(weights_of(number)).sha256) == weights_of(number)
    except IntegrityError:
        return False


# As if all files had been stored long before.
LATER_S = 4e9


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch):
    monkeypatch.setattr(storing, "ROUNDS_KEPT", 10)


def test_versions_lose_their_files_but_for_those_that_are_needed(year, artifacts):
    with year.transaction() as tx:
        tx.save_version(msgspec.structs.replace(tx.version(5), by_hand=True))
        tx.save_lease(Lease(device=DeviceId("lately"), version=9, last_seen_s=LATER_S - 29 * DAY_S))
        tx.save_lease(Lease(device=DeviceId("gone"), version=10, last_seen_s=LATER_S - 31 * DAY_S))
    found = Retention(year, artifacts, POLICY).excess(LATER_S)
    done = Retention(year, artifacts, POLICY).prune(LATER_S)
    assert (found.versions, found.artifacts, found.rounds) == (done.versions, done.artifacts, done.rounds)
    assert done.versions == VERSIONS - 12
    assert {number for number in range(VERSIONS) if has_weights(artifacts, number)} == {5, 9, *range(30, 40)}
    assert len(here(artifacts)) == 2 + 2 * 12, "program and vocabulary are shared"
    assert not Retention(year, artifacts, POLICY).prune(LATER_S).anything


def test_old_rounds_go_with_their_reports_and_are_still_counted(year, artifacts):
    with year.transaction() as view:
        before = view.rounds_in(Phase.ABANDONED)
    assert Retention(year, artifacts, POLICY).prune(LATER_S).rounds == 29
    with year.transaction() as view:
        assert view.rounds_in(Phase.ABANDONED) == before, "a counter of /metrics never falls"
        assert view.last_round_number() == VERSIONS - 1
        assert view.round(29) is None
        assert view.round(30) is not None
    with year.connection() as tx:
        assert tx.scalar(sa.select(sa.func.min(reports.c.round))) == 30


def test_young_rounds_stay_and_so_do_the_rows_of_their_versions(year, artifacts):
    done = Retention(year, artifacts, POLICY).prune(DAY_S * VERSIONS)
    assert done.rounds == 10
    with year.transaction() as view:
        assert view.version(5) is None
        kept = view.version(15)
        assert kept.pruned_s == DAY_S * VERSIONS, "its round is kept, so its row is"
    assert not has_weights(artifacts, 15)


def test_an_open_round_keeps_its_version_and_itself(year, artifacts):
    with year.transaction() as tx:
        tx.save_round(open_round(VERSIONS, 3, RULES, 7, 0.0))
    Retention(year, artifacts, POLICY).prune(LATER_S)
    assert has_weights(artifacts, 3)
    with year.transaction() as view:
        assert view.round(VERSIONS) is not None


def test_a_version_that_comes_into_use_meanwhile_keeps_its_files(year, artifacts):
    retention = Retention(year, artifacts, POLICY)
    with year.transaction() as tx:
        promoted = tx.version(7)
        tx.save_version(msgspec.structs.replace(promoted, rollout=Rollout(stage=Stage.CURRENT)))
    assert retention._give_up([6, 7], LATER_S) == [6]


def test_a_version_that_was_pruned_meanwhile_cannot_be_promoted(year, artifacts):
    with year.transaction() as tx:
        held = tx.version(7)
    Retention(year, artifacts, POLICY).prune(LATER_S)
    with pytest.raises(UnavailableError, match="deleted just now"), year.transaction() as tx:
        tx.save_version(held)


def test_a_file_that_was_just_stored_stays_whoever_refers_to_it(year, artifacts, monkeypatch):
    name = artifacts.put(b"averaged, and its version waits for the database")
    now_s = next(blob.stored_s for blob in artifacts.listed() if blob.sha256 == name)
    Retention(year, artifacts, POLICY).prune(now_s + 3600)
    assert name in here(artifacts)
    Retention(year, artifacts, POLICY).prune(now_s + 2 * DAY_S)
    assert name not in here(artifacts)


def test_what_killed_writers_left_goes_after_a_day_and_is_shown_before(year, artifacts):
    """Proven before: a kill in the middle of averaging left a file as long as the weights, for ever."""
    Retention(year, artifacts, POLICY).prune(LATER_S)
    left = artifacts.path(next(iter(here(artifacts)))).with_name(f"{WRITING}x")
    left.write_bytes(bytes(1000))
    written_s = left.stat().st_mtime
    assert not Retention(year, artifacts, POLICY).excess(written_s + 3600).artifacts
    shown, done = (getattr(Retention(year, artifacts, POLICY), do)(LATER_S) for do in ("excess", "prune"))
    assert (shown.artifacts, shown.artifact_bytes) == (done.artifacts, done.artifact_bytes) == (1, 1000)
    assert not left.exists()


def test_without_a_version_s_manifest_no_file_is_deleted(year, artifacts):
    with year.transaction() as view:
        artifacts.remove(view.version(VERSIONS - 1).manifest)
    before = here(artifacts)
    with pytest.raises(IntegrityError, match="restore a backup"):
        Retention(year, artifacts, POLICY).prune(LATER_S)
    assert here(artifacts) == before


def test_expired_credentials_go_but_the_newest_of_each_device(year, artifacts):
    def credential(key, device, requested_s, expires_s):
        texts = dict.fromkeys(["claim", "csr", "certificate", "authority", "address"], "")
        return {
            **texts,
            "key": key,
            "device": device,
            "standing": "revoked",
            "serial": key,
            "requested_s": requested_s,
            "expires_s": expires_s,
        }

    with year.connection() as tx:
        tx.execute(
            sa.insert(credentials),
            [
                credential("old", "pi", 0.0, DAY_S),
                credential("newer", "pi", DAY_S, 2 * DAY_S),
                credential("only", "drawer", 0.0, DAY_S),
                credential("waiting", "pi", LATER_S, 0.0),
            ],
        )
        named = {"name": "kitchen", "sha256": "0" * 64, "device": "", "prefix": "", "uses": 1, "uses_left": 1}
        tx.execute(sa.insert(claims), [{**named, "approval": False, "created_s": 0.0, "expires_s": DAY_S}])
    done = Retention(year, artifacts, POLICY).prune(LATER_S)
    assert (done.credentials, done.claims) == (2, 1)
    with year.connection() as tx:
        assert {*tx.scalars(sa.select(credentials.c.key))} == {"only", "waiting"}


def test_the_certificate_that_a_device_last_used_stays_though_a_later_one_never_reached_it(year, artifacts):
    """Proven before: a power cut in the middle of a renewal, then a drawer for 120 days, and a person had to visit."""
    texts = dict.fromkeys(["claim", "csr", "certificate", "authority", "address"], "")
    rows = [
        ("used before", "active", "1", 0.0, DAY_S),
        ("used last", "active", "2", DAY_S, 2 * DAY_S),
        ("never arrived", "issued", "3", 2 * DAY_S, 3 * DAY_S),
        ("never signed", "granted", "", 3 * DAY_S, 0.0),
        ("dated ahead", "active", "4", LATER_S + 7000 * DAY_S, LATER_S + 7090 * DAY_S),
    ]
    with year.connection() as tx:
        for key, standing, serial, requested_s, expires_s in rows:
            times = {"requested_s": requested_s, "expires_s": expires_s}
            named = {"key": key, "device": "pi", "standing": standing, "serial": serial}
            tx.execute(sa.insert(credentials).values({**texts, **named, **times}))
    Retention(year, artifacts, POLICY).prune(LATER_S)
    with year.connection() as tx:
        assert {*tx.scalars(sa.select(credentials.c.key))} == {"used last", "never signed", "dated ahead"}


def test_an_entry_from_a_clock_that_was_ahead_does_not_keep_the_audit_log_for_years(year, artifacts, monkeypatch):
    monkeypatch.setattr(storing, "AUDIT_KEPT", 10)
    with year.connection() as tx:
        for at_s in [LATER_S + 7000 * DAY_S, *range(300)]:
            note(tx, float(at_s), "ada", "pause-task", "keyboard", "", "")
    assert Retention(year, artifacts, POLICY).prune(LATER_S).audit == 291


def test_the_newest_entries_of_the_audit_log_stay_whatever_their_age(year, artifacts, monkeypatch):
    monkeypatch.setattr(storing, "AUDIT_KEPT", 10)
    with year.connection() as tx:
        for at_s in range(300):
            note(tx, float(at_s), "ada", "pause-task", "keyboard", "", "")
    assert Retention(year, artifacts, POLICY).prune(LATER_S).audit == 290
    with year.connection() as tx:
        assert tx.scalar(sa.select(sa.func.min(audit.c.at_s))) == 290.0


def test_no_more_than_so_many_rounds_are_kept_whatever_their_age(year, artifacts, monkeypatch):
    monkeypatch.setattr(storing, "MOST_ROUNDS", 20)
    Retention(year, artifacts, POLICY).prune(DAY_S * VERSIONS)
    with year.connection() as tx:
        assert tx.scalar(sa.select(sa.func.count()).select_from(rounds)) == 20


def test_nothing_is_deleted_while_the_clock_is_not_trusted(year, artifacts, tmp_path):
    before = here(artifacts)
    assert Pruner(year, artifacts, POLICY, tmp_path, lambda: None).turn() is None
    assert here(artifacts) == before


def test_the_disk_is_measured_also_when_nothing_can_be_deleted(year, artifacts, tmp_path):
    (tmp_path / "large").write_bytes(bytes(10**6))
    wrong_clock = Pruner(year, artifacts, POLICY, tmp_path, lambda: None)
    wrong_clock.turn()
    with year.transaction() as view:
        artifacts.remove(view.version(VERSIONS - 1).manifest)
    damaged = Pruner(year, artifacts, POLICY, tmp_path, lambda: LATER_S)
    with pytest.raises(IntegrityError):
        damaged.turn()
    assert [each.disk.used_bytes >= 10**6 for each in (wrong_clock, damaged)] == [True, True]
    assert [each.disk.measured_s for each in (wrong_clock, damaged)] == [None, LATER_S]


def test_why_nothing_can_be_deleted_is_said_until_it_can(year, artifacts, tmp_path):
    with year.transaction() as view:
        version = view.version(VERSIONS - 1)
    manifest = artifacts.get(version.manifest)
    artifacts.remove(version.manifest)
    pruner = Pruner(year, artifacts, POLICY, tmp_path, lambda: LATER_S)
    pruner.try_turn()
    assert "no artifact is deleted, because a manifest is missing" in pruner.trouble
    artifacts.put(manifest)
    pruner.try_turn()
    assert pruner.trouble == ""


def test_the_service_keeps_a_reserve_for_a_full_disk_whatever_lies_in_its_place(year, artifacts, tmp_path):
    pruner, reserve = Pruner(year, artifacts, POLICY, tmp_path, lambda: LATER_S), tmp_path / "reserve"
    reserve.mkdir()
    sizes = []
    for _turn in range(3):
        pruner.turn()
        sizes.append((reserve.stat().st_size, 512 * reserve.stat().st_blocks >= RESERVE_BYTES))
        reserve.write_bytes(b"damaged")
        if len(sizes) == 1:
            os.truncate(reserve, RESERVE_BYTES)  # as a copy may be: long, and nothing on the disk
    assert sizes == [(RESERVE_BYTES, True)] * 3


def test_a_reserve_that_cannot_be_made_is_said_once_and_is_no_failed_pruning(year, artifacts, tmp_path, capsys):
    """A limit of file sizes stands for a quota, and binds root, too."""
    pruner = Pruner(year, artifacts, POLICY, tmp_path, lambda: LATER_S)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (RESERVE_BYTES - 1, before[1]))
    try:
        for _turn in range(2):
            pruner.try_turn()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (pruner.trouble, pruner.disk is None) == ("", False)
    told = capsys.readouterr().out
    assert [len(re.findall(rf"\b{event}\b", told)) for event in ("pruned", "no_reserve", "not_pruned")] == [1, 1, 0]


class StoppedHereError(Exception):
    pass


def test_killed_after_any_statement_the_next_pass_deletes_the_rest(tmp_path, artifacts, year):
    for stop_after in range(1, 40, 3):
        left = [stop_after]

        def count_down(*_, left=left):
            left[0] -= 1
            if not left[0]:
                raise StoppedHereError

        sa.event.listen(year._engine, "after_cursor_execute", count_down)
        with contextlib.suppress(StoppedHereError):
            Retention(year, artifacts, POLICY).prune(LATER_S)
        sa.event.remove(year._engine, "after_cursor_execute", count_down)
        with year.transaction() as view:
            newest = view.version(VERSIONS - 1)
        assert artifacts.get(newest.manifest)
    Retention(year, artifacts, POLICY).prune(LATER_S)
    assert {number for number in range(VERSIONS) if has_weights(artifacts, number)} == {*range(30, 40)}


def test_an_s3_store_and_the_copies_of_this_host_are_emptied_alike(database, tmp_path, monkeypatch):
    for name, value in (("ACCESS_KEY_ID", "a"), ("SECRET_ACCESS_KEY", "b"), ("DEFAULT_REGION", "us-east-1")):
        monkeypatch.setenv(f"AWS_{name}", value)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    try:
        client = boto3.client("s3")
        client.create_bucket(Bucket="models")
        client.put_object(Bucket="models", Key="fleet/notes.txt", Body=b"somebody's own")
        artifacts = SharedBlobs(tmp_path / "artifacts", S3Blobs("s3://models/fleet"))
        with database.transaction() as tx:
            for number in range(15):
                add_version(tx, artifacts, number, Stage.CURRENT if number == 14 else Stage.SUPERSEDED)
        done = Retention(database, artifacts, POLICY).prune(LATER_S)
        assert (done.versions, done.artifacts) == (5, 10)
        assert {number for number in range(15) if has_weights(artifacts, number)} == {*range(5, 15)}
        left = {each["Key"] for each in client.list_objects_v2(Bucket="models")["Contents"]}
        assert len(left) == 2 + 2 * 10 + 1
        assert "fleet/notes.txt" in left
    finally:
        server.stop()
