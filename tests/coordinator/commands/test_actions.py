import getpass
import json

import pytest
import urllib3
from msgspec.structs import replace

from nightjar.coordinator.access import Role, fingerprint
from nightjar.coordinator.config_file import load_config
from nightjar.coordinator.control_socket import OPERATOR
from nightjar.coordinator.records.inbox import Operated
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.engine import database_file
from nightjar.coordinator.storage.tokens import TokenTable
from nightjar.coordinator.tasks.operations import PromoteVersion, RollBack
from nightjar.coordinator.tasks.record import TaskRecord
from nightjar.coordinator.tasks.settings import TaskSettings
from nightjar.coordinator.tasks.task import Task, TaskStatus
from nightjar.wire.errors import ConfigError, UnavailableError
from tests.coordinator.commands.site import web_half


@pytest.fixture
def served(site):
    """A service that answers what is posted as if it had been done."""
    posted = []

    def post(event, _database) -> None:
        posted.append(event)
        if isinstance(event, Operated):
            event.answer(True)

    with web_half(site, post):
        yield posted


def test_changes_are_made_by_the_running_service_under_the_users_name(served, ask, site):
    assert ask("device", "block", "b", "--reason", "odd") == {"changed": True}
    assert ask("task", "pause", "--reason", "night") == {"changed": True}
    block, pause = [event for event in served if isinstance(event, Operated)]
    assert (block.operation.device, block.operation.reason) == ("b", "odd")
    assert pause.who == f"{getpass.getuser()} on the command line"


@pytest.mark.parametrize(
    ("command", "now"),
    [
        (("task", "resume"), "the task keyboard is active: waiting: 1 of 2 reports"),
        (("device", "block", "b", "--reason", "odd"), "b is blocked: odd"),
        (("device", "unblock", "b"), "b is not blocked"),
        (("model", "rollback", "--reason", "odd"), "devices get version 1 of keyboard"),
    ],
)
def test_a_change_says_what_is_so_now(served, run, site, command, now):
    status, out, err = run(*command, "--config", site.config)
    assert (status, now in out, "done" in out) == (0, True, False), (out, err)


def test_a_promotion_in_a_stopped_task_says_that_no_device_gets_it(served, run, site):
    database = Database(f"sqlite:///{database_file(site.data)}")
    with database.transaction() as tx:
        state = Task(name="slow", number=2, created_s=91.0, status=TaskStatus.STOPPED)
        tx.save_task(TaskRecord(state=state, settings=TaskSettings()))
        tx.add_version(replace(tx.version(1), version=2, task="slow", round=None))
    database.close()
    status, out, err = run("model", "promote", 2, "--reason", "odd", "--config", site.config)
    assert status == 0, err
    assert "no device gets version 2 of slow, which was stopped for good" in out
    assert "devices get version 2" not in out
    assert "devices get version 1 of keyboard" in out, "the task of the configuration, which others see"


def test_a_version_is_shown_without_dictionaries_and_epochs(run, site):
    status, out, _ = run("model", "show", 1, "--config", site.config)
    assert (status, "{" in out) == (0, False)


def test_versions_are_moved_by_the_running_service(served, ask):
    assert ask("model", "promote", 0, "--reason", "it was better") == {"changed": True}
    assert ask("model", "rollback", "--reason", "words are missing") == {"changed": True}
    assert ask("model", "rollback", "--reason", "all", "--version", 1, "--to", 0) == {"changed": True}
    operations = [event.operation for event in served if isinstance(event, Operated)]
    assert operations == [
        PromoteVersion(0, "it was better"),
        RollBack(reason="words are missing"),
        RollBack(reason="all", version=1, to=0),
    ]


def test_only_the_socket_for_commands_believes_a_name(served, site):
    config = load_config(site.config, {})
    headers = {OPERATOR: "root", "Nightjar-Command-Of": "root", "nightjar.command_of": "root"}
    answer = urllib3.request("POST", f"{config.url}/api/v1/tasks/keyboard/resume", json={}, headers=headers)
    assert (answer.status, [event for event in served if isinstance(event, Operated)]) == (401, [])


def test_what_the_service_refuses_is_said(served, run, site):
    status, _, err = run("task", "pause", "--reason", "x" * 300, "--config", site.config)
    assert (status, "200" in err) == (ConfigError.exit_status, True)


def test_without_a_service_it_is_said_how_to_start_it(run, site):
    status, _, err = run("task", "resume", "--config", site.config)
    assert (status, "'serve'" in err) == (UnavailableError.exit_status, True)


def test_tokens_are_made_shown_once_listed_and_revoked(ask, run, site):
    made = ask("token", "create", "anna", "--role", "operator", "--days", 1)
    database = Database(f"sqlite:///{database_file(site.data)}")
    held = TokenTable(database).find(fingerprint(made["token"]))
    database.close()
    assert (held.name, held.role) == ("anna", Role.OPERATOR.value)
    [listed] = ask("token", "list")
    assert listed["name"] == "anna"
    assert made["token"] not in json.dumps(listed)
    assert run("token", "create", "anna", "--role", "admin", "--config", site.config)[0] == ConfigError.exit_status
    assert ask("token", "revoke", "anna") == {"revoked": "anna"}
    assert run("token", "revoke", "anna", "--config", site.config)[0] == ConfigError.exit_status
    assert [entry["action"] for entry in ask("audit")] == ["revoke-token", "create-token"]


def test_a_mistyped_name_makes_no_device(served, run, site):
    status, _out, err = run("device", "label", "nobody", "--add", "porch", "--config", site.config)
    assert status == 2
    assert "no device nobody was ever heard of" in err
    assert not [event for event in served if isinstance(event, Operated)]
