"""docs/flashing.md names every rule, exit status, command and option that there is."""

import re
from pathlib import Path

import click
import pytest

from firmware_scripts.__main__ import cli
from firmware_scripts.core.exit_status import ExitStatus
from firmware_scripts.core.rules import CAN_BE_ALLOWED, Rule

PAGE = (Path(__file__).parents[2] / "docs" / "flashing.md").read_text()
COMMANDS = ("targets", "flash", "verify", "bmap", "doctor")


@pytest.mark.parametrize("rule", Rule)
def test_every_rule_is_on_the_page_with_a_star_if_it_can_be_allowed(rule):
    row = re.search(rf"^\|[^|]*`{rule.value}`[^|]*\|", PAGE, re.MULTILINE)
    assert row
    assert ("*" in row.group()) == (rule in CAN_BE_ALLOWED)


@pytest.mark.parametrize("status", ExitStatus)
def test_every_exit_status_is_on_the_page(status):
    assert f"| {status.value} | `{status.name.lower().replace('_', '-')}` |" in PAGE


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_long_option_is_on_the_page(name):
    assert f"nightjar-firmware {name}" in PAGE or f"`{name} " in PAGE
    for parameter in cli.commands[name].params:
        if isinstance(parameter, click.Option):
            long = max(parameter.opts, key=len)
            assert long in PAGE or long == "--output", long
