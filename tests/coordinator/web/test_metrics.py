from pathlib import Path

import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from nightjar.coordinator.learning.device_metrics import keystrokes
from nightjar.coordinator.rounds.lease import Lease
from nightjar.coordinator.versions.releases import Release
from nightjar.coordinator.versions.rollout import Rollout, Stage
from nightjar.coordinator.web import metrics
from nightjar.wire.frame import KeyboardEvaluation
from nightjar.wire.identifiers import DeviceId
from tests.coordinator.web.test_app import Site

DOCUMENT = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text()


@pytest.fixture
def site(tmp_path):
    site = Site(tmp_path)
    site.fill()
    yield site
    site.database.close()


def families(site):
    answer = site.get("/metrics")
    assert answer.status_code == 200
    assert answer.content_type == metrics.CONTENT_TYPE
    return {family.name: family for family in text_string_to_metric_families(answer.text)}


def value(found, name, **labels):
    return next(
        sample.value
        for family in found.values()
        for sample in family.samples
        if sample.name == name and sample.labels == labels
    )


def test_counters_are_those_of_the_database(site):
    found = families(site)
    assert value(found, "nightjar_rounds_committed_total") == 1
    assert value(found, "nightjar_rounds_abandoned_total", cause="nobody-came") == 1
    assert value(found, "nightjar_reports_total", verdict="accepted") == 2
    assert value(found, "nightjar_reports_total", verdict="invalid") == 2
    assert value(found, "nightjar_reports_refused_total", code="norm") == 2
    assert value(found, "nightjar_dropouts_total", cause="in-use") == 1
    assert value(found, "nightjar_received_bytes_total") == 1234


def test_the_open_round_and_the_model_are_told(site):
    found = families(site)
    assert value(found, "nightjar_round_phase", task="keyboard", phase="reporting") == 1
    assert value(found, "nightjar_round_phase", task="keyboard", phase="selection") == 0
    assert value(found, "nightjar_round_number", task="keyboard") == 3
    assert value(found, "nightjar_round_reports", task="keyboard") == 1
    assert value(found, "nightjar_task_status", task="keyboard", status="active") == 1
    assert value(found, "nightjar_task_status", task="keyboard", status="paused") == 0
    assert value(found, "nightjar_model_version") == 1
    assert value(found, "nightjar_model_share", top="1") == pytest.approx(0.1)


def test_what_keyboards_save_with_the_announced_version_and_rounds_that_gain_nothing_are_told(site):
    assert families(site)["nightjar_keystrokes_saved_share"].samples == []
    with site.repository.transaction() as tx:
        tx.save_federated(1, keystrokes([KeyboardEvaluation(200, 60, 0, 50), KeyboardEvaluation(100, 32, 0, 30)]))
        record = tx.task("keyboard")
        tx.save_task(replace(record, state=replace(record.state, without_gain=7)))
    found = families(site)
    assert value(found, "nightjar_keystrokes_saved_share") == pytest.approx(0.31)
    assert value(found, "nightjar_rounds_without_gain", task="keyboard") == 7
    assert value(found, "nightjar_patience_rounds", task="keyboard") == 50


def test_a_state_that_a_device_made_up_costs_no_time_series(site):
    with site.repository.transaction() as tx:
        for number in range(30):
            tx.save_lease(Lease(device=DeviceId(f"liar-{number}"), state=f"made-up-{number}"))
    found = families(site)
    assert value(found, "nightjar_devices", state="other") == 30
    assert len(found["nightjar_devices"].samples) == 10


def test_stages_of_releases_and_what_became_of_their_devices_are_told(site):
    canary, bad = Rollout(stage=Stage.CANARY), Rollout(stage=Stage.ROLLED_BACK)
    with site.repository.transaction() as tx:
        tx.save_releases((Release(version="0.2.0", rollout=bad), Release(version="0.3.0", share=1.0, rollout=canary)))
        for name, fields in {"well": {"agent_version": "0.3.0"}, "back": {"taken_back": "0.3.0: not up"}}.items():
            tx.save_lease(Lease(device=DeviceId(name), last_seen_s=site.clock.now_s(), **fields))
    found = families(site)
    assert value(found, "nightjar_release_stage", release="0.3.0", stage="canary") == 1
    assert value(found, "nightjar_releases_rolled_back_total") == 1
    assert value(found, "nightjar_release_devices", stage="canary", outcome="all") == 2
    assert value(found, "nightjar_release_devices", stage="canary", outcome="taken-back") == 1
    assert value(found, "nightjar_release_devices", stage="current", outcome="all") == 0


def test_trouble_shows(site):
    assert value(families(site), "nightjar_healthy") == 1
    site.troubles = ["the broker is not connected"]
    assert value(families(site), "nightjar_healthy") == 0


def test_every_metric_is_in_the_document_and_has_a_meaning(site):
    with site.repository.transaction() as tx:
        tx.save_federated(1, keystrokes([KeyboardEvaluation(200, 60, 0, 50)]))
    for family in families(site).values():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        assert f"`{name}" in DOCUMENT, name
        assert family.documentation
