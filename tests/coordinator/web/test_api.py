import base64
import dataclasses
import json
import re

import pytest
from msgspec import structs

from nightjar.coordinator.access import Role, new_token
from nightjar.coordinator.config import CoordinatorConfig, TransportSecurity
from nightjar.coordinator.enrolment.certificate_issuer import CertificateIssuer
from nightjar.coordinator.enrolment.register import Register
from nightjar.coordinator.enrolment.routes import ATTEMPTS_PER_MINUTE
from nightjar.coordinator.records.inbox import Operated
from nightjar.coordinator.storage import tokens as token_table
from nightjar.coordinator.storage.blobs import FileBlobs
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.tasks.record import TaskRecord
from nightjar.coordinator.tasks.settings import Privacy, TaskSettings
from nightjar.coordinator.tasks.task import Task
from nightjar.coordinator.tasks.validation import noise_terms
from nightjar.coordinator.tls.authority import Authority
from nightjar.coordinator.tls.authority_process import AuthorityClient
from nightjar.coordinator.tls.contexts import AUTHORITIES, FOLDER
from nightjar.coordinator.web import api, driver_calls
from nightjar.coordinator.web.admission import REFUSALS_PER_MINUTE
from nightjar.coordinator.web.app import create_app
from nightjar.coordinator.web.ports import WebPorts
from tests.coordinator.fakes import World
from tests.coordinator.model_folder import write_model

NOW_S, HOUR_S = 1_000_000.0, 3600.0


class Service:
    """The application over a real database, with a driver that does at once what is posted."""

    def __init__(self, folder, *, unlimited: bool = False, **config) -> None:
        manifest = write_model(folder / "model")
        self.database = Database(f"sqlite:///{folder / 'test.sqlite'}")
        self.database.on_touch = lambda: None
        self.world = World(manifest, folder / "model", lambda: self.database)
        self.tokens = token_table.TokenTable(self.database)
        self.posted: list = []
        ports = WebPorts(
            config=CoordinatorConfig(task=self.world.config.task, **{"transport": TransportSecurity.PLAIN, **config}),
            repository=self.database,
            artifacts=FileBlobs(folder / "artifacts"),
            clock=self.world.clock,
            broker="mosquitto",
            troubles=list,
            tokens=self.tokens,
            post=self._post,
        )
        for data in self.world.artifacts.blobs.values():
            ports.artifacts.put(data)
        self.ports = ports
        self.artifacts = ports.artifacts
        self.app = create_app(ports)
        if unlimited:
            self.app.extensions["limiter"].pop().enabled = False
        self.client = self.app.test_client()
        self.world.check_in("a")

    def open_issuer(self, folder) -> Register:
        """Take claims and keys, as far as nobody has to sign a certificate."""
        config = structs.replace(self.ports.config, data_dir=folder)
        (folder / FOLDER).mkdir()
        (folder / FOLDER / AUTHORITIES).write_text("".join(Authority(folder / "ca").certificates()))
        register = Register(self.database)
        issuer = CertificateIssuer(config, register, AuthorityClient(["false"]), self.world.clock, "ab" * 32)
        self.ports = dataclasses.replace(self.ports, config=config, issuer=issuer)
        self.app = create_app(self.ports)
        self.app.extensions["limiter"].pop().enabled = False
        self.client = self.app.test_client()
        return register

    def _post(self, event) -> None:
        self.posted.append(event)
        if isinstance(event, Operated):
            self.world.driver.handle(event)

    def token(self, role: Role | None, name: str = "", lifetime_s: float = HOUR_S) -> str | None:
        if role is None:
            return None
        characters, record = new_token(name or role.value, role, self.world.clock.now_s(), lifetime_s)
        assert self.tokens.add(record, "test")
        return characters

    def ask(self, method: str, path: str, token: str | None = None, **options):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        with self.client.open(path, method=method, headers=headers, **options) as answer:
            answer.get_data()
        return answer


@pytest.fixture
def service(tmp_path):
    made = Service(tmp_path)
    yield made
    made.database.close()


def test_who_reaches_loopback_may_look_without_a_token_and_change_nothing(service):
    assert service.ask("GET", "/api/v1/rounds").status_code == 200
    assert service.ask("POST", "/api/v1/tasks/keyboard/pause", json={"reason": "x"}).status_code == 401
    assert service.ask("GET", "/api/v1/audit").status_code == 401


def test_beyond_loopback_nobody_may_look_without_a_token(tmp_path):
    service = Service(tmp_path, host="192.0.2.1", transport=TransportSecurity.PROXIED)
    assert service.ask("GET", "/").status_code == 401
    assert service.ask("GET", "/metrics").headers["WWW-Authenticate"].startswith("Bearer")
    password = base64.b64encode(f"any:{service.token(Role.VIEWER)}".encode()).decode()
    assert service.client.get("/", headers={"Authorization": f"Basic {password}"}).status_code == 200
    service.database.close()


@pytest.mark.parametrize("authorization", ["Bearer nj_x", "Bearer", "Basic !!!", "Basic eDp5", "Digest x", "x", ""])
def test_a_bad_token_opens_nothing(service, authorization):
    answer = service.client.get("/api/v1/audit", headers={"Authorization": authorization})
    assert answer.status_code == 401
    assert answer.content_type == "application/problem+json"


def test_an_old_token_and_a_revoked_one_open_nothing(service):
    token, admin = service.token(Role.OPERATOR), service.token(Role.ADMIN)
    assert service.ask("GET", "/api/v1/audit", token).status_code == 200
    assert service.ask("DELETE", "/api/v1/tokens/operator", admin).status_code == 200
    assert service.ask("GET", "/api/v1/audit", token).status_code == 401
    service.world.clock.time_s += 2 * HOUR_S
    assert service.ask("GET", "/api/v1/tokens", admin).status_code == 401


def test_a_token_that_was_made_over_the_api_works_and_is_never_shown_again(service):
    admin = service.token(Role.ADMIN)
    made = service.ask("POST", "/api/v1/tokens", admin, json={"name": "anna", "role": "operator", "days": 1})
    token = made.json["token"]
    assert made.status_code == 201
    assert service.ask("GET", "/api/v1/audit", token).status_code == 200
    listed = service.ask("GET", "/api/v1/tokens", admin)
    assert token not in listed.text
    assert token[3:] not in str(service.ask("GET", "/api/v1/audit", admin).json)
    again = service.ask("POST", "/api/v1/tokens", admin, json={"name": "anna", "role": "admin"})
    assert again.status_code == 409


def test_changes_take_effect_and_stand_in_the_audit_log_with_their_author(service):
    token = service.token(Role.OPERATOR, name="anna")
    paused = service.ask("POST", "/api/v1/tasks/keyboard/pause", token, json={"reason": "night"})
    assert paused.json == {"changed": True}
    assert service.ask("GET", "/api/v1/tasks/keyboard").json["status"] == "paused"
    assert service.ask("POST", "/api/v1/tasks/keyboard/pause", token, json={"reason": "again"}).json == {
        "changed": False
    }
    service.ask("POST", "/api/v1/devices/a/block", token, json={"reason": "odd"})
    assert service.ask("GET", "/api/v1/devices/a").json["blocked"] == "odd"
    service.ask("POST", "/api/v1/tasks/keyboard/resume", token, json={})
    log = service.ask("GET", "/api/v1/audit", token).json["items"]
    assert [(entry["who"], entry["action"], entry["target"]) for entry in log[:3]] == [
        ("anna", "resume-task", "keyboard"),
        ("anna", "block-device", "a"),
        ("anna", "pause-task", "keyboard"),
    ]
    assert [entry["action"] for entry in log[3:]] == ["create-token"]


def test_a_mistyped_name_is_not_blocked_and_makes_no_device(service):
    token, before = service.token(Role.OPERATOR), service.ask("GET", "/api/v1/devices").json["items"]
    answer = service.ask("POST", "/api/v1/devices/nobody/block", token, json={"reason": "stolen"})
    assert (answer.status_code, "look at its name" in answer.json["detail"]) == (404, True)
    assert service.ask("GET", "/api/v1/devices").json["items"] == before


def test_a_task_is_made_looked_at_and_stopped(service):
    token = service.token(Role.OPERATOR, name="anna")
    wanted = {"name": "second", "goal": 12, "rounds": 3, "plan": {"learning_rate": 0.5}, "variant": {"share": 0.5}}
    wanted["variant"]["experiment"] = "rates"
    made = service.ask("POST", "/api/v1/tasks", token, json=wanted)
    assert (made.status_code, made.json["changed"], made.json["known_devices"]) == (201, True, 0)
    assert made.json["task"] == service.ask("GET", "/api/v1/tasks/second").json
    rows = service.ask("GET", "/api/v1/tasks").json["items"]
    assert [(row["name"], row["kind"], row["status"], row["version"], row["round"]) for row in rows] == [
        ("keyboard", "train", "active", 0, 1),
        ("second", "train", "active", 1, 2),
    ]
    shown = service.ask("GET", "/api/v1/tasks/second").json
    assert shown["settings"]["plan"]["learning_rate"] == 0.5
    assert (shown["experiment"], shown["share"], shown["rounds_wanted"]) == ("rates", 0.5, 3)
    assert [row["number"] for row in shown["rounds"]] == [2]
    assert service.ask("POST", "/api/v1/tasks/second/stop", token, json={"reason": "enough"}).json == {"changed": True}
    shown = service.ask("GET", "/api/v1/tasks/second").json
    assert (shown["status"], shown["reason"], shown["round"]) == ("stopped", "enough (anna)", None)
    log = service.ask("GET", "/api/v1/audit", token).json["items"]
    assert [(entry["action"], entry["target"], entry["before"], entry["after"]) for entry in log[:2]] == [
        ("stop-task", "second", "active", "stopped: enough"),
        ("create-task", "second", "", "train, goal 12"),
    ]


def test_a_private_task_shows_its_ledger_and_never_the_key_of_its_noise(service):
    with service.database.transaction() as tx:
        settings = TaskSettings(name="private", privacy=Privacy.DP, rounds=500, minimum_separation=100)
        noise = noise_terms(settings, "5ec2e7" * 10)
        state = Task(name="private", number=9, created_s=1.0, noise=noise, noised=(1, 2))
        tx.save_task(TaskRecord(state=state, settings=settings))
    shown = service.ask("GET", "/api/v1/tasks/private")
    assert shown.json["ledger"]["noised"] == 2
    assert 0 < shown.json["ledger"]["spent"] < shown.json["ledger"]["epsilon"] <= 10
    page = service.client.get("/tasks/private")
    assert "after 500 rounds: epsilon 10.0" in page.text
    assert "5ec2e7" not in shown.text + page.text


@pytest.mark.parametrize(
    ("wanted", "status", "said"),
    [
        ({"name": "keyboard"}, 409, "there is a task keyboard already"),
        ({"name": "x", "goal": 1, "minimum": 2}, 409, "minimum"),
        ({"name": "x", "source": {"version": 9}}, 409, "there is no version 9"),
        ({"name": "x", "manifest": "0" * 64}, 409, "the model cannot be read"),
        ({"name": "x", "kind": "evaluate", "manifest": "0" * 64}, 409, "an evaluation tries a version"),
        ({"name": "x", "plan": {"learnig_rate": 1.0}}, 422, "plan.learnig_rate"),
        ({"name": "x", "model": "/etc/passwd"}, 422, "model"),
        ({"name": "x/y"}, 422, "name"),
        ({"name": "x y"}, 422, "name: expected 1 to 64 letters, digits, '_', '.', '-', of which the first is a letter"),
        ({"name": "x", "goal": 0}, 422, "goal: expected a whole number of at least 1, got 0"),
        ({"name": "x", "goal": "abc"}, 422, "goal: expected a whole number, got 'abc'"),
        ({"name": "x", "gaol": 2}, 422, "gaol (did you mean 'goal'?)"),
        ({"name": "x", "kind": "sing"}, 422, "kind: expected one of train, evaluate, got 'sing'"),
        ({"name": "x", "variant": {"experiment": "a b"}}, 422, "experiment"),
    ],
)
def test_a_task_that_cannot_be_is_a_problem_that_says_why(service, wanted, status, said):
    answer = service.ask("POST", "/api/v1/tasks", service.token(Role.OPERATOR), json=wanted)
    assert (answer.status_code, answer.content_type) == (status, "application/problem+json"), answer.text
    assert said in answer.json["detail"]
    assert [row["name"] for row in service.ask("GET", "/api/v1/tasks").json["items"]] == ["keyboard"]


def test_there_is_no_task_that_nobody_made(service):
    token = service.token(Role.OPERATOR)
    assert service.ask("GET", "/api/v1/tasks/nothing").status_code == 404
    answer = service.ask("POST", "/api/v1/tasks/nothing/pause", token, json={"reason": "x"})
    assert (answer.status_code, answer.json["detail"]) == (404, "there is no task nothing")


def test_what_cannot_be_stored_now_is_said(service, monkeypatch):
    monkeypatch.setattr(driver_calls, "ANSWER_TIMEOUT_S", 0.01)
    monkeypatch.setattr(service.world.driver, "handle", lambda *_: None)
    answer = service.ask("POST", "/api/v1/tasks/keyboard/pause", service.token(Role.OPERATOR), json={"reason": "x"})
    assert (answer.status_code, answer.content_type) == (503, "application/problem+json")
    assert "could not be stored yet" in answer.json["detail"]


def test_lists_come_in_pages_that_meet(service):
    service.world.check_in(*(f"d{number:02}" for number in range(7)))
    seen, after = [], ""
    while after is not None:
        page = service.ask("GET", f"/api/v1/devices?limit=3&after={after}").json
        seen += [device["device"] for device in page["items"]]
        after = page["next"]
    assert seen == ["a", *(f"d{number:02}" for number in range(7))]


@pytest.mark.parametrize(
    ("method", "path", "options", "status"),
    [
        ("GET", "/api/v1/rounds?limit=0", {}, 422),
        ("GET", "/api/v1/rounds?limit=x", {}, 422),
        ("GET", "/api/v1/rounds?before=-1", {}, 422),
        ("GET", "/api/v1/rounds/99", {}, 404),
        ("GET", "/api/v1/rounds/99999999999999999999999", {}, 404),
        ("GET", "/api/v1/devices/%00", {}, 404),
        ("GET", "/api/v1/nothing", {}, 404),
        ("PUT", "/api/v1/tasks", {}, 405),
        ("POST", "/api/v1/tasks/keyboard/pause", {"json": {}}, 422),
        ("POST", "/api/v1/tasks/keyboard/pause", {"json": {"reason": ""}}, 422),
        ("POST", "/api/v1/tasks/keyboard/pause", {"json": {"reason": "a\nb"}}, 422),
        ("POST", "/api/v1/tasks/keyboard/pause", {"json": {"reason": "x", "extra": 1}}, 422),
        ("POST", "/api/v1/tasks/keyboard/pause", {"data": "reason=x"}, 415),
        ("POST", "/api/v1/tasks/keyboard/pause", {"data": "{", "content_type": "application/json"}, 422),
        ("POST", "/api/v1/tasks/keyboard/pause", {"data": "[1]", "content_type": "application/json"}, 422),
        ("POST", "/api/v1/tasks", {"data": "{", "content_type": "application/json"}, 422),
        ("POST", "/api/v1/devices/a/unblock", {"data": "false", "content_type": "application/json"}, 422),
        ("POST", "/api/v1/tasks/keyboard/pause", {"data": b" " * 70_000, "content_type": "application/json"}, 413),
        ("POST", "/api/v1/tokens", {"json": {"name": "a/b", "role": "viewer"}}, 422),
        ("POST", "/api/v1/tokens", {"json": {"name": "a", "role": "king"}}, 422),
    ],
)
def test_bad_input_is_a_problem_document(service, method, path, options, status):
    answer = service.ask(method, path, service.token(Role.ADMIN), **options)
    assert (answer.status_code, answer.content_type) == (status, "application/problem+json"), answer.text
    said = answer.json["detail"]
    assert said
    assert not re.search(r"'(int|str|float|array|object)'|regex|\$\.", said), "a Python type or a pattern"
    assert not any(isinstance(event, Operated) for event in service.posted)


def test_who_guesses_tokens_is_slowed_down(service):
    statuses = [service.ask("GET", "/api/v1/audit", f"nj_{n}").status_code for n in range(REFUSALS_PER_MINUTE + 2)]
    assert (statuses[0], statuses[-1]) == (401, 429)
    assert service.ask("GET", "/healthz").status_code == 200


def test_an_ipv6_network_has_one_limit_for_all_its_addresses(service):
    """Proven before: 150 of 150 from one /64, which any client has to choose among."""

    def ask(address, path, **options):
        return service.client.open(path, environ_overrides={"REMOTE_ADDR": address}, **options).status_code

    enrolment = {"path": "/api/v1/enrolment", "method": "POST", "json": {"claim": "njc_x", "csr": "x"}}
    statuses = [ask(f"2001:db8::{n:x}", **enrolment) for n in range(ATTEMPTS_PER_MINUTE + 1)]
    assert (statuses[0], statuses[-1]) == (404, 429)
    assert ask("2001:db8:0:1::1", **enrolment) == 404
    statuses = [ask(f"2001:db8::{n:x}", "/api/v1/audit") for n in range(REFUSALS_PER_MINUTE + 2)]
    assert (statuses[0], statuses[-1]) == (401, 429)
    assert ask("2001:db8:0:1::1", "/api/v1/audit") == 401


def test_who_changes_too_much_is_slowed_down(service):
    token = service.token(Role.OPERATOR)
    answers = [
        service.ask("POST", "/api/v1/tasks/keyboard/resume", token, json={}) for _ in range(api.CHANGES_PER_MINUTE + 1)
    ]
    assert (answers[0].status_code, answers[-1].status_code) == (200, 429)
    assert answers[-1].content_type == "application/problem+json"


def test_the_specification_names_every_route_with_its_answers(service):
    document = json.loads(service.ask("GET", "/docs/openapi.json").text)
    routes = {path for path in document["paths"] if path.startswith("/api/v1")}
    assert {"/api/v1/tasks", "/api/v1/tasks/{name}/pause", "/api/v1/rounds/{number}", "/api/v1/tokens"} <= routes
    for path in routes:
        for operation in document["paths"][path].values():
            assert "401" in operation["responses"]
            assert operation["summary"]


def test_tokens_never_reach_the_log(service, capsys):
    token = service.token(Role.ADMIN)
    service.ask("POST", "/api/v1/tasks/keyboard/pause", token, json={"reason": "x"})
    service.ask("GET", "/api/v1/audit", token + "x")
    output = capsys.readouterr()
    assert token not in output.out + output.err


def test_a_version_tells_where_it_is_and_moves_by_whoever_may(service):
    found = service.ask("GET", "/api/v1/versions/0").json
    assert (found["stage"], found["federated"]["devices"], found["lineage"]) == ("current", 0, None)
    assert service.ask("GET", "/api/v1/versions/7").status_code == 404
    operator = service.token(Role.OPERATOR)
    again = service.ask("POST", "/api/v1/versions/0/promote", operator, json={"reason": "x"})
    assert again.json == {"changed": False}
    missing = service.ask("POST", "/api/v1/versions/7/promote", operator, json={"reason": "x"})
    assert (missing.status_code, missing.json["detail"]) == (409, "there is no version 7")
    nothing = service.ask("POST", "/api/v1/versions/rollback", operator, json={"reason": "x"})
    assert nothing.status_code == 409
    assert "no version that devices could get instead of 0" in nothing.json["detail"]
