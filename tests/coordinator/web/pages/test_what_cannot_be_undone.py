"""Every form of the pages and every command either can be undone, by what is named here, or has to be confirmed."""

import re
from pathlib import Path

import click
import pytest

from nightjar.coordinator.__main__ import cli
from tests.coordinator.web.test_api import Service

CONFIRMED_FORMS = {
    "/tasks/<name>/stop",
    "/releases/<version>",  # to take it back; a trial or a share can be undone
    "/tokens/<name>/revoke",
    "/claims/<name>/revoke",
    "/enrolments/<key>/refuse",
    "/devices/<name>/forget",
}
UNDONE_BY = {
    "/tokens": "/tokens/<name>/revoke",
    "/claims": "/claims/<name>/revoke",
    "/login": "/logout",
    "/logout": "/login",
    "/tasks": "/tasks/<name>/stop",
    "/tasks/<name>/pause": "/tasks/<name>/resume",
    "/tasks/<name>/resume": "/tasks/<name>/pause",
    "/models/<int:number>/promote": "/models/<int:number>/promote",
    "/models/<int:number>/take-back": "/models/<int:number>/promote",
    "/devices/<name>/labels": "/devices/<name>/labels",
    "/devices/<name>/block": "/devices/<name>/unblock",
    "/devices/<name>/unblock": "/devices/<name>/block",
    "/enrolments/<key>/approve": "/devices/<name>/forget",
}
ENDS = re.compile(
    r"revok|stop|roll|promot|forget|refus|retire|rotat|delet|remov|drop|prune|restore|block|pause|end|clear|wipe|take"
)
"""Words of commands that take something away."""
COMMANDS_UNDONE_BY = {
    "device block": "device unblock",
    "device unblock": "device block",
    "fleet drop-rule": "fleet rule",
    "model promote": "model promote",
    "model rollback": "model promote",
    "release pause": "release start",
    "release promote": "release rollback",  # devices go back
    "task pause": "task resume",
}


@pytest.fixture
def service(tmp_path):
    made = Service(tmp_path)
    made.open_issuer(tmp_path)
    yield made
    made.database.close()


def test_each_form_is_confirmed_or_can_be_undone(service):
    rules = [rule for rule in service.app.url_map.iter_rules() if "POST" in rule.methods]
    forms = {str(rule) for rule in rules if not str(rule).startswith(("/api/", "/static"))}
    forms = {form for form in forms if not re.match(r"/(v\d+/)?enrol(ment)?(/|$)", form)}  # devices ask there
    assert forms == CONFIRMED_FORMS | UNDONE_BY.keys()
    assert set(UNDONE_BY.values()) <= forms


def commands(command, path=()):
    if isinstance(command, click.Group):
        with click.Context(command) as context:
            for name in command.list_commands(context):
                yield from commands(command.get_command(context, name), (*path, name))
    else:
        yield " ".join(path), {option.name for option in command.params}


def test_each_command_that_takes_something_away_asks_or_can_be_undone():
    found = dict(commands(cli))
    taking = {name for name in found if ENDS.search(name.rpartition(" ")[2])}
    assert taking >= {"token revoke", "task stop", "prune", "authority retire", "model promote"}
    assert {name for name in taking if "yes" not in found[name]} == COMMANDS_UNDONE_BY.keys()
    assert set(COMMANDS_UNDONE_BY.values()) <= found.keys()


def test_the_page_on_operating_has_each_form_that_is_confirmed():
    page = (Path(__file__).parents[4] / "docs/operating.md").read_text(encoding="utf-8")
    table = page.split("## What cannot be undone")[1].split("\n## ")[0]
    rows = [line.split("|")[1:4] for line in table.splitlines() if line.startswith("|")][2:]
    assert len([row for row in rows if row[1] != "-"]) == len(CONFIRMED_FORMS)
