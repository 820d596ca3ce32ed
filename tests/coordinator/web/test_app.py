import msgspec
import numpy as np
import pytest

from nightjar.coordinator.config import BaselineConfig, CoordinatorConfig, TransportSecurity
from nightjar.coordinator.records.inbox import ArtifactServed
from nightjar.coordinator.records.rounds import StoredReport
from nightjar.coordinator.records.versions import VersionRecord
from nightjar.coordinator.rounds.lease import Lease, Presence
from nightjar.coordinator.rounds.round import AbandonCause, Phase, open_round
from nightjar.coordinator.rounds.rules import RoundRules
from nightjar.coordinator.rounds.seats import Seat, SeatGrant, SeatState
from nightjar.coordinator.rounds.week import noted
from nightjar.coordinator.storage.blobs import FileBlobs
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.model_folder import import_model
from nightjar.coordinator.storage.tokens import TokenTable
from nightjar.coordinator.tasks.record import TaskRecord
from nightjar.coordinator.tasks.settings import TaskSettings
from nightjar.coordinator.tasks.task import Task, TaskStatus
from nightjar.coordinator.versions.quality_gate import VersionMetrics
from nightjar.coordinator.web.app import create_app
from nightjar.coordinator.web.ports import WebPorts
from nightjar.simulation.demo.reading import state_from
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import DropoutCause
from tests.coordinator.fakes import FakeClock, task_config
from tests.coordinator.model_folder import LAYOUT, write_model

RULES = RoundRules(
    goal=3,
    minimum=2,
    over_selection=1.3,
    selection_window_s=0,
    selection_deadline_s=60,
    report_deadline_s=100,
    lost_grace_s=10,
)
A, B, C = DeviceId("a"), DeviceId("b"), DeviceId("c")

TASK = Task(name="keyboard", number=1, created_s=900.0, committed=1)


class Site:
    def __init__(self, tmp_path) -> None:
        write_model(tmp_path / "model")
        self.artifacts = FileBlobs(tmp_path / "artifacts")
        self.manifest = import_model(tmp_path / "model", self.artifacts)
        self.database = self.repository = Database(f"sqlite:///{tmp_path / 'test.sqlite'}")
        self.clock = FakeClock(1000.0)
        with self.repository.transaction() as tx:
            tx.save_task(TaskRecord(state=TASK, settings=TaskSettings()))
            tx.add_version(VersionRecord(version=0, task="keyboard", manifest=self.manifest.sha256))
            tx.save_round(open_round(1, 0, RULES, 7, 990.0, task="keyboard"))
        self.troubles: list[str] = []
        self.not_enforced: list[str] = []
        self.posted: list = []
        baseline = BaselineConfig(label="trigram", top1=0.19, top3=0.31)
        self.client = create_app(
            WebPorts(
                config=CoordinatorConfig(
                    task=task_config(tmp_path / "model", rounds=5, baseline=baseline), transport=TransportSecurity.PLAIN
                ),
                repository=self.repository,
                artifacts=self.artifacts,
                clock=self.clock,
                broker="mosquitto",
                troubles=lambda: self.troubles,
                not_enforced=lambda: self.not_enforced,
                tokens=TokenTable(self.database),
                post=self.posted.append,
            ),
            fresh_s=0.0,
        ).test_client()

    def fill(self) -> None:
        """A committed round, an abandoned one, and one in which a reports, b dropped out and c is at work."""
        with self.repository.transaction() as tx:
            tx.save_version(msgspec.structs.replace(tx.version(0), metrics=VersionMetrics(0.05, 0.12, 6.0)))
            tx.add_version(
                VersionRecord(
                    version=1,
                    task="keyboard",
                    manifest=self.manifest.sha256,
                    round=1,
                    metrics=VersionMetrics(0.1, 0.2, 5.0),
                )
            )
            first = tx.round(1)
            seats = {A: Seat(state=SeatState.REPORTED), B: Seat(state=SeatState.REPORTED), C: Seat()}
            tx.save_round(
                msgspec.structs.replace(first, phase=Phase.COMMITTED, version=1, closed_at_s=995.0, seats=seats)
            )
            second = open_round(2, 1, RULES, 7, 995.0, task="keyboard")
            tx.save_round(
                msgspec.structs.replace(
                    second,
                    phase=Phase.ABANDONED,
                    closed_at_s=996.0,
                    cause=AbandonCause.NOBODY_CAME,
                    reason="<b>nobody</b>",
                )
            )
            third = open_round(3, 1, RULES, 7, 996.0, task="keyboard")
            dropped = Seat(state=SeatState.DROPPED, cause=DropoutCause.IN_USE, earlier=(DropoutCause.UNPLUGGED,))
            seats = {A: Seat(state=SeatState.REPORTED), B: dropped, C: Seat()}
            tx.save_round(
                msgspec.structs.replace(
                    third, phase=Phase.REPORTING, seats=seats, reported=1, started_at_s=997.0, deadline_s=1097.0
                )
            )
            for device, size_bytes, weight, loss in ((A, 100, 1, 5.0), (B, 300, 3, 3.0)):
                tx.add_report(
                    StoredReport(
                        round=1,
                        device=device,
                        attempt=1,
                        sha256="0" * 64,
                        size_bytes=size_bytes,
                        num_examples=weight,
                        steps=1,
                        loss=loss,
                        seconds=1.0,
                        norm=1.0,
                        received_s=993.0,
                    ),
                    b"frame",
                )
            tx.save_lease(
                Lease(
                    device=A,
                    presence=Presence.PRESENT,
                    state="training",
                    reason="<script>x</script>",
                    last_seen_s=998.0,
                    examples=7,
                )
            )
            tx.save_lease(Lease(device=B, state="offline", emulated=True))
            for name, amount in (
                ("dropouts:in-use", 1),
                ("reports_invalid:norm", 2),
                ("bytes_up", 1234),
                ("rounds_abandoned:nobody-came", 1),
            ):
                tx.count(name, amount)

    def get(self, path: str, **headers: str):
        """The answer, read and closed: files that are served stay open until then."""
        with self.client.get(path, headers=headers) as answer:
            answer.get_data()
        return answer

    def state(self) -> dict:
        state = state_from(lambda path: self.get(path).data)
        assert state is not None
        return state


@pytest.fixture
def site(tmp_path):
    made = Site(tmp_path)
    yield made
    made.database.close()


def test_an_artifact_is_served_whole_with_its_hash_as_etag_and_counted(site):
    sha256 = site.manifest.weights.sha256
    answer = site.get(f"/artifacts/{sha256}")
    assert answer.status_code == 200
    assert len(answer.data) == 4 * LAYOUT.size
    assert answer.headers["ETag"] == f'"{sha256}"'
    assert "immutable" in answer.headers["Cache-Control"]
    assert answer.headers["Accept-Ranges"] == "bytes"
    assert site.posted == [ArtifactServed(4 * LAYOUT.size)]


def test_a_range_resumes_a_fetch(site):
    url = f"/artifacts/{site.manifest.weights.sha256}"
    whole = site.get(url).data
    rest = site.get(url, Range="bytes=100-")
    assert (rest.status_code, rest.data) == (206, whole[100:])
    assert rest.headers["Content-Range"] == f"bytes 100-{len(whole) - 1}/{len(whole)}"
    assert site.posted[-1] == ArtifactServed(len(whole) - 100)
    assert site.get(url, Range=f"bytes={len(whole)}-").status_code == 416


def test_who_has_it_already_gets_304(site):
    sha256 = site.manifest.weights.sha256
    answer = site.get(f"/artifacts/{sha256}", **{"If-None-Match": f'"{sha256}"'})
    assert (answer.status_code, answer.data) == (304, b"")
    assert site.posted == []


@pytest.mark.parametrize("name", ["0" * 64, "x", "..%2f..%2fcoordinator.sqlite"])
def test_what_is_not_there_is_404_in_words(site, name):
    answer = site.get(f"/artifacts/{name}")
    assert answer.status_code == 404
    assert answer.content_type.startswith("text/plain")
    assert b"<" not in answer.data


def test_health_is_503_with_reasons_when_something_is_wrong(site):
    assert site.get("/healthz").get_json(force=True) == {"ok": True, "reasons": []}
    site.troubles.append("the broker is not connected")
    answer = site.get("/healthz")
    assert answer.status_code == 503
    assert answer.get_json(force=True) == {"ok": False, "reasons": ["the broker is not connected"]}


def test_health_names_what_the_broker_does_not_enforce_and_stays_in_service(site):
    site.not_enforced.append("packet size")
    answer = site.get("/healthz")
    assert answer.status_code == 200
    assert answer.get_json(force=True) == {"ok": True, "reasons": [], "not_enforced": ["packet size"]}


def test_the_state_of_a_beginning(site):
    state = site.state()
    assert state["task"]["state"] == "active"
    assert state["task"]["parameters"] == LAYOUT.size
    assert state["task"]["dense_bytes"] == 4 * LAYOUT.size
    assert state["round"]["phase"] == "selection"
    assert state["round"]["reason"] == "waiting: 0 of 2 phones eligible"
    assert state["round"]["deadline_in_s"] == 50.0
    assert state["devices"] == []


def test_the_state_in_the_middle_of_things(site):
    site.fill()
    state = site.state()
    assert state["task"]["version"] == 1
    assert state["task"]["baseline"]["top1"] == 0.19
    current = state["round"]
    assert (current["selected"], current["reported"], current["dropped"]) == (["a", "b", "c"], ["a"], {"b": "in-use"})
    first, second, third = state["rounds"]
    assert (first["phase"], first["accepted"], first["selected"], first["seconds"]) == ("committed", 2, 3, 5.0)
    assert (first["top1"], first["mean_training_loss"], first["report_bytes_median"]) == (0.1, 3.5, 200)
    assert (second["phase"], second["version"], second["top1"]) == ("abandoned", None, None)
    assert second["cause"] == "nobody-came"
    assert third["dropped"] == {"in-use": 1, "unplugged": 1}
    counters = state["counters"]
    assert (counters["rounds_committed"], counters["rounds_abandoned"]) == (1, 1)
    assert counters["rounds_abandoned_by_cause"] == {"nobody-came": 1}
    assert (counters["reports_accepted"], counters["reports_invalid"]) == (2, {"norm": 2})
    assert (counters["dropouts"], counters["bytes_up"]) == ({"in-use": 1}, 1234)
    device = state["devices"][0]
    assert (device["device"], device["online"], device["last_seen_s_ago"], device["examples"]) == ("a", True, 2.0, 7)
    assert state["devices"][1]["last_seen_s_ago"] is None


def test_a_round_that_waits_says_what_the_others_do(site):
    with site.repository.transaction() as tx:
        for number in range(3):
            device = DeviceId(f"d{number}")
            tx.save_lease(Lease(device=device, presence=Presence.PRESENT, state="ineligible", reason="not charging"))
        tx.save_lease(Lease(device=A, presence=Presence.PRESENT, state="ineligible", reason="<i>in use"))
        tx.save_round(msgspec.structs.replace(tx.round(1), pool=(B,)))
    current = site.state()["round"]
    assert current["reason"] == "waiting: 1 of 2 phones eligible; 3 not charging, 1 <i>in use"
    assert current["elsewhere"] == {"not charging": 3, "<i>in use": 1}


def test_when_the_task_is_done_there_is_no_round(site):
    with site.repository.transaction() as tx:
        over = msgspec.structs.replace(tx.round(1), phase=Phase.COMMITTED, version=0, closed_at_s=999.0)
        for number in range(1, 6):
            tx.save_round(msgspec.structs.replace(over, number=number))
        finished = msgspec.structs.replace(TASK, status=TaskStatus.FINISHED, committed=5)
        tx.save_task(TaskRecord(state=finished, settings=TaskSettings(rounds=5)))
    state = site.state()
    assert (state["round"], state["task"]["state"]) == (None, "finished")
    assert b"Done" in site.get("/").data


def test_before_the_first_round_is_opened_the_task_is_not_done(site):
    with site.repository.transaction() as tx:
        tx._connection.exec_driver_sql("DELETE FROM rounds")
    state = site.state()
    assert (state["round"], state["task"]["state"]) == (None, "active")
    assert b"Done" not in site.get("/").data


def test_a_round_in_detail(site):
    site.fill()
    detail = site.get("/api/v1/rounds/3").get_json(force=True)
    assert [seat["device"] for seat in detail["seats"]] == ["a", "b", "c"]
    assert detail["seats"][1] == {
        "device": "b",
        "round": 3,
        "version": 1,
        "attempt": 1,
        "state": "dropped",
        "cause": "in-use",
        "code": "",
        "earlier": ["unplugged"],
    }
    assert site.get("/api/v1/rounds/99").status_code == 404


def test_a_buffered_round_says_since_which_round_and_from_which_version_a_device_trains(site):
    site.fill()
    with site.repository.transaction() as tx:
        older = Seat(given=SeatGrant(round=2, version=0, deadline_s=1097.0, staleness=1))
        carried = Seat(state=SeatState.CARRIED, given=SeatGrant(round=3, version=1, deadline_s=1097.0))
        rules = msgspec.structs.replace(RULES, concurrency=4)
        tx.save_round(msgspec.structs.replace(tx.round(3), rules=rules, seats={A: older, B: carried}, working=1))
    page = site.get("/rounds/3").text
    assert "at work" in page
    assert page.count("since round 2, on version 0") == page.count("since round 3, on version 1") == 1
    seats = site.get("/api/v1/rounds/3").get_json(force=True)["seats"]
    assert [(seat["device"], seat["round"], seat["version"]) for seat in seats] == [("a", 2, 0), ("b", 3, 1)]
    assert site.get("/rounds/3?state=carried").status_code == 200


def test_reports_are_not_artifacts(site, tmp_path):
    private = FileBlobs(tmp_path / "private")
    sha256 = private.put(np.zeros(3, np.float32).tobytes())
    assert site.get(f"/artifacts/{sha256}").status_code == 404


@pytest.mark.parametrize("method", ["put", "delete", "patch"])
def test_what_a_page_does_not_take_is_405(site, method):
    assert getattr(site.client, method)("/").status_code == 405


def test_what_a_device_says_of_itself_is_on_its_page_and_in_the_api(site):
    notice = "agent.db was put away on 2026-11-28: it was empty"
    with site.repository.transaction() as tx:
        tx.save_lease(Lease(device=A, presence=Presence.PRESENT, notice=notice))
        tx.save_lease(Lease(device=B, presence=Presence.PRESENT))
    assert notice in site.client.get("/devices/a").text
    assert "says of itself" not in site.client.get("/devices/b").text
    assert site.client.get("/api/v1/devices/a").json["notice"] == notice


def test_a_release_that_a_device_took_back_is_on_its_page_and_in_the_api(site):
    taken_back = "0.2.0: the agent was not up within 180 s"
    with site.repository.transaction() as tx:
        tx.save_lease(Lease(device=A, presence=Presence.PRESENT, taken_back=taken_back))
        tx.save_lease(Lease(device=B, presence=Presence.PRESENT))
    assert taken_back in site.client.get("/devices/a").text
    assert "taken back" not in site.client.get("/devices/b").text
    assert site.client.get("/api/v1/devices/a").json["taken_back"] == taken_back


def test_a_device_says_why_it_did_not_train_in_the_last_week(site):
    week = noted(noted(noted(b"", "not charging", 100.0), "training", 700.0), "offline", 940.0)
    with site.repository.transaction() as tx:
        tx.save_lease(Lease(device=A, presence=Presence.AWAY, week=week))
        tx.save_lease(Lease(device=B))
    page = site.client.get("/devices/a").text
    assert "not charging <b>10 min 0 s</b>" in page
    assert "chart" not in page, "an axis of an hour is empty for the first"
    assert "Its last week" not in site.client.get("/devices/b").text
    site.clock.time_s += 3600.0
    assert '<div class="chart"><svg' in site.client.get("/devices/a").text
    assert site.client.get("/api/v1/devices/a").json["last_week"] == [
        {"doing": "offline", "seconds": 3660},
        {"doing": "not charging", "seconds": 600},
        {"doing": "training", "seconds": 240},
    ]


REBOUND = "http://rebound.evil.example:8081"


@pytest.mark.parametrize("path", ["/", "/api/v1/devices", "/api/v1/rounds", "/api/v1/tasks", "/metrics"])
def test_a_name_that_was_made_to_lead_here_reads_nothing(site, path):
    """A page of another site makes its own name resolve to us (DNS rebinding); the browser then calls it our page."""
    refused = site.client.get(path, base_url=REBOUND, headers={"Sec-Fetch-Site": "same-origin"})
    assert refused.status_code == 421
    assert "enrolment.names" in refused.text
    for ours in ("http://127.0.0.1:8081", "http://192.0.2.7", "http://[::1]:8081", "http://localhost"):
        assert site.client.get(path, base_url=ours).status_code == 200


@pytest.mark.parametrize("host", ["[", "evil.example:x", "a@b", ""])
def test_a_host_that_is_none_is_refused_in_words(site, host):
    assert site.client.get("/api/v1/rounds", headers={"Host": host}).status_code in {400, 421}


def test_such_a_name_fetches_no_artifact_either(site):
    path = f"/artifacts/{site.manifest.sha256}"
    assert site.client.get(path, base_url=REBOUND).status_code == 421
    with site.client.get(path) as fetched:
        assert fetched.status_code == 200
    assert site.client.get("/healthz", base_url=REBOUND).status_code == 200
