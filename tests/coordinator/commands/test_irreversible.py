"""Commands for what cannot be undone ask a person, and only a person."""

import io
import re
import sys
from pathlib import Path

import click
import pytest

from nightjar.coordinator.__main__ import cli

COMMANDS = {
    "authority retire": (),
    "authority rotate": (),
    "device forget": ("a",),
    "enrol-token revoke": ("shelf",),
    "enrolment refuse": ("a",),
    "model key": ("--new",),
    "release rollback": ("0.2.0",),
    "restore": ("nowhere",),
    "task stop": ("keyboard", "--reason", "enough"),
    "token revoke": ("anna",),
}
NOT_CONFIRMED = 130


class Typed(io.StringIO):
    """A terminal on which somebody has typed."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def status_of(run, site, monkeypatch):
    def status(name, *more, stdin=None):
        monkeypatch.setattr(sys, "stdin", stdin or io.StringIO())
        status, _, err = run(*name.split(), *COMMANDS[name], *more, "--config", site.config)
        return status, err

    return status


@pytest.mark.parametrize("name", COMMANDS)
def test_a_person_is_asked_and_nothing_is_done_without_a_yes(status_of, name):
    status, err = status_of(name, stdin=Typed("n\n"))
    assert (status, "This cannot be undone. [y/N]" in err) == (NOT_CONFIRMED, True)
    assert status_of(name, stdin=Typed("y\n"))[0] != NOT_CONFIRMED


@pytest.mark.parametrize("name", COMMANDS)
def test_a_script_and_a_person_who_says_so_are_not_asked(status_of, name):
    for options, stdin in (((), io.StringIO()), (("--yes",), Typed("n\n"))):
        status, err = status_of(name, *options, stdin=stdin)
        assert status != NOT_CONFIRMED
        assert "undone" not in err


def test_a_key_that_is_only_shown_needs_no_yes(run, site, monkeypatch):
    monkeypatch.setattr(sys, "stdin", Typed("n\n"))
    assert run("model", "key", "--config", site.config)[0] == 0


def test_the_page_on_operating_lists_each_command_that_asks():
    def with_yes(command, path):
        if isinstance(command, click.Group):
            with click.Context(command) as context:
                for name in command.list_commands(context):
                    yield from with_yes(command.get_command(context, name), [*path, name])
        elif any(option.name == "yes" for option in command.params):
            yield " ".join(path)

    asking = set(with_yes(cli, []))
    assert asking == {*COMMANDS, "prune"}
    page = (Path(__file__).parents[3] / "docs/operating.md").read_text(encoding="utf-8")
    table = page.split("## What cannot be undone")[1].split("\n## ")[0]
    listed = re.findall(r"`([a-z -]+?)(?: --\w+)?`", table.replace("`retire`", "`authority retire`"))
    assert asking <= set(listed)
