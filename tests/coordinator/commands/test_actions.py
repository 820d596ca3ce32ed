import contextlib
import getpass
import json
import re

import pytest
import urllib3
from msgspec.structs import replace

from nightjar.coordinator.access import Role, fingerprint, new_token
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


def test_labels_that_changed_and_none_at_all_are_said_to_be_so(served, run, site):
    changed = run("device", "label", "a", "--add", "kitchen", "--config", site.config)
    assert changed[:2] == (0, "labels changed: a\n")
    status, _out, err = run("device", "label", "a", "--config", site.config)
    assert (status, "--add LABEL" in err) == (ConfigError.exit_status, True)


@pytest.mark.parametrize("option", ["--add", "--remove"])
def test_labels_that_are_so_already_are_no_change(run, site, option):
    with web_half(site, lambda event, _database: event.answer(False) if isinstance(event, Operated) else None):
        status, out, _err = run("device", "label", "a", option, "kitchen", "--config", site.config)
    assert (status, out) == (0, "nothing to change: their labels are so already\n")


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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("bad name!",), "expected 1 to 64 letters, digits"),
        (("y", "--days", "1e9"), "expected a number of at most 3650, got 1000000000.0"),
        (("y", "--days", "nan"), "expected a number above 0, got nan"),
        (("y", "--days", "0"), "expected a number above 0, got 0"),
    ],
)
def test_a_token_that_the_api_would_refuse_is_not_made(run, ask, site, arguments, said):
    status, out, err = run("token", "create", *arguments, "--role", "viewer", "--config", site.config)
    assert (status, out, ask("token", "list")) == (ConfigError.exit_status, "", [])
    assert said in " ".join(err.split())


def test_a_token_of_before_that_ends_after_the_last_year_can_be_listed_and_revoked(run, ask, site):
    """Proven before: a token for 1e9 days ended the command and the page with a traceback."""
    _characters, record = new_token("old", Role.VIEWER, 0.0, 1e14)
    with contextlib.closing(Database(f"sqlite:///{database_file(site.data)}")) as database:
        TokenTable(database).add(record, "root")
    status, out, _err = run("token", "list", "--config", site.config)
    assert (status, "9999-12-31" in out) == (0, True)
    assert ask("token", "revoke", "old", "--yes") == {"revoked": "old"}


NAMED = [
    ("task", "show", "{}"),
    ("task", "pause", "{}", "--reason", "odd"),
    ("task", "resume", "{}"),
    ("task", "stop", "{}", "--reason", "odd"),
    ("privacy", "explain", "{}"),
    ("device", "show", "{}"),
    ("device", "block", "{}", "--reason", "odd"),
    ("device", "unblock", "{}"),
    ("device", "label", "{}", "--add", "porch"),
    ("device", "forget", "{}"),
    ("enrol-token", "revoke", "{}"),
    ("enrolment", "approve", "{}"),
    ("enrolment", "refuse", "{}"),
    ("fleet", "drop-rule", "{}"),
    ("release", "show", "{}"),
    ("release", "start", "{}"),
    ("release", "rollback", "{}"),
    ("round", "show", "{}"),
    ("model", "show", "{}"),
    ("model", "promote", "{}", "--reason", "odd"),
]


@pytest.mark.parametrize("command", NAMED, ids=lambda command: "-".join(command[:2]))
def test_what_cannot_be_a_name_is_told_and_never_stands_for_another(served, run, site, command):
    """Blank is what a script has of a variable that is not set: the task of the configuration is not meant."""
    for name in ("", " ", "a/b", "../tasks", "keyboard?x", "\udce9", "9" * 300):
        arguments = [each.format(name) for each in command]
        status, out, err = run(*arguments, "--config", site.config)
        assert (status, out) == (ConfigError.exit_status, ""), (name, out, err)
        assert "URL" not in err, "nobody has typed one"
        assert re.search("expected|a device name is|not in the range|not a valid", err), err
        assert len(err) < 600, "a long name hides what is wrong with it"
    assert served == []


@pytest.mark.parametrize(
    "command",
    [
        ("device", "block", "a", "--reason", "caf\udce9"),
        ("device", "list", "--label", "caf\udce9"),
        ("fleet", "rule", "porch", "--runtime", "caf\udce9"),
        ("token", "revoke", "caf\udce9"),
    ],
    ids=lambda command: "-".join(command[:2]),
)
def test_an_argument_that_is_no_utf_8_is_told_in_words(served, run, site, command):
    status, out, err = run(*command, "--config", site.config)
    assert (status, out, served) == (ConfigError.exit_status, "", [])
    assert "expected text in UTF-8, got 'caf\\udce9'" in err
