"""Every route that changes something leaves an entry in the audit log: who, what, from what to what.

Enrolment needs certificates; its routes are tried in ``tests/enrolment``.
"""

import pytest

from nightjar.coordinator.access import Role
from nightjar.coordinator.records.versions import VersionRecord
from nightjar.coordinator.versions.releases import Release
from nightjar.coordinator.versions.rollout import Rollout, Stage
from tests.coordinator.web.test_api import Service
from tests.coordinator.web.test_roles import OURS, ROUTES

V1 = "/api/v1"
FORM = {"name": "third", "kind": "evaluate", "goal": "4", "minimum": "1", "rounds": "1"}
ON_TRIAL = "canary, 5 % of all devices: 5 % of the devices try it"
CHANGES = [
    ("POST", V1 + "/devices/a/block", {"reason": "odd"}, ("block-device", "a", "not blocked", "blocked: odd")),
    ("POST", V1 + "/devices/a/unblock", {}, ("unblock-device", "a", "blocked: odd", "not blocked")),
    ("POST", "/devices/a/block", {"reason": "odd"}, ("block-device", "a", "not blocked", "blocked: odd")),
    ("POST", "/devices/a/unblock", {}, ("unblock-device", "a", "blocked: odd", "not blocked")),
    ("POST", V1 + "/devices/a/labels", {"add": ["porch"]}, ("label-device", "a", "none", "porch")),
    ("POST", "/devices/a/labels", {"labels": " kitchen  pi4 "}, ("label-device", "a", "porch", "kitchen pi4")),
    ("POST", V1 + "/label-rules", {"label": "b", "device": "b*"}, ("set-label-rule", "b", "none", "named b*")),
    ("DELETE", V1 + "/label-rules/b", {}, ("drop-label-rule", "b", "named b*", "none")),
    ("POST", V1 + "/tasks", {"name": "second", "goal": 13}, ("create-task", "second", "", "train, goal 13")),
    ("POST", V1 + "/tasks/second/pause", {"reason": "night"}, ("pause-task", "second", "active", "paused: night")),
    ("POST", V1 + "/tasks/second/resume", {}, ("resume-task", "second", "paused: night", "active")),
    ("POST", V1 + "/tasks/second/stop", {"reason": "enough"}, ("stop-task", "second", "active", "stopped: enough")),
    ("POST", "/tasks", FORM, ("create-task", "third", "", "evaluate, goal 4")),
    ("POST", "/tasks/third/pause", {"reason": "night"}, ("pause-task", "third", "active", "paused: night")),
    ("POST", "/tasks/third/resume", {}, ("resume-task", "third", "paused: night", "active")),
    (
        "POST",
        "/tasks/third/stop",
        {"reason": "enough", "sure": "yes"},
        ("stop-task", "third", "active", "stopped: enough"),
    ),
    ("POST", V1 + "/versions/7/promote", {"reason": "b"}, ("promote-version", "7", "superseded", "current: b")),
    (
        "POST",
        V1 + "/versions/rollback",
        {"reason": "c"},
        ("roll-back", "7", "current", "rolled back: c; version 0 instead"),
    ),
    ("POST", "/models/7/promote", {"reason": "b"}, ("promote-version", "7", "rolled-back", "current: b")),
    (
        "POST",
        "/models/7/take-back",
        {"reason": "c"},
        ("roll-back", "7", "current", "rolled back: c; version 0 instead"),
    ),
    (
        "POST",
        V1 + "/releases/0.2.0",
        {"action": "start", "reason": "d"},
        ("start-release", "0.2.0", "candidate: ", ON_TRIAL),
    ),
    (
        "POST",
        "/releases/0.2.0",
        {"action": "pause", "reason": "e"},
        ("pause-release", "0.2.0", ON_TRIAL, ON_TRIAL.replace(",", ", paused,")),
    ),
    ("POST", V1 + "/tokens", {"name": "new", "role": "viewer"}, ("create-token", "new", "none", "viewer")),
    ("DELETE", V1 + "/tokens/new", {}, ("revoke-token", "new", "viewer", "none")),
    ("POST", "/tokens", {"name": "newer", "role": "viewer"}, ("create-token", "newer", "none", "viewer")),
    ("POST", "/tokens/newer/revoke", {"sure": "yes"}, ("revoke-token", "newer", "viewer", "none")),
]
NO_CHANGE = {"/login", "/logout"}
WITH_CERTIFICATES = {
    "/claims",
    "/claims/<name>/revoke",
    "/devices/<name>/forget",
    "/enrolments/<key>/approve",
    "/enrolments/<key>/refuse",
    V1 + "/claims",
    V1 + "/claims/<name>",
    V1 + "/devices/<name>/forget",
    V1 + "/enrolment",
    V1 + "/enrolment/expired",
    V1 + "/enrolment/self",
    V1 + "/enrolments/<key>/approve",
    V1 + "/enrolments/<key>/refuse",
}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    made = Service(tmp_path_factory.mktemp("audit"), unlimited=True)
    with made.database.transaction() as tx:
        first = tx.version(0)
        retired = Rollout(stage=Stage.SUPERSEDED, reason="by version 0")
        tx.save_releases((Release(version="0.2.0"),))
        tx.add_version(VersionRecord(version=7, task=first.task, manifest=first.manifest, rollout=retired))
    yield made, made.token(Role.ADMIN, "anna")
    made.database.close()


@pytest.mark.parametrize(("method", "path", "body", "expected"), CHANGES, ids=lambda value: str(value)[:40])
def test_a_change_stands_in_the_log(service, method, path, body, expected):
    made, token = service
    options = {"json": body} if path.startswith(V1) else {"data": body}
    with made.client.open(
        path, method=method, headers={**OURS, "Authorization": f"Bearer {token}"}, **options
    ) as answer:
        assert answer.status_code in {200, 201, 303}, answer.text
    with made.database.transaction() as tx:
        (entry,) = tx.audit(1)
    assert (entry.who, entry.action, entry.target, entry.before, entry.after) == ("anna", *expected)


def test_no_route_that_changes_something_was_forgotten(service):
    made, _ = service
    adapter = made.app.url_map.bind("localhost")
    tried = {(method, adapter.match(path, method, return_rule=True)[0].rule) for method, path, _, _ in CHANGES}
    changing = {(method, rule) for method, rule in ROUTES if method != "GET"}
    elsewhere = {(method, rule) for method, rule in changing if rule in NO_CHANGE | WITH_CERTIFICATES}
    assert tried == changing - elsewhere
