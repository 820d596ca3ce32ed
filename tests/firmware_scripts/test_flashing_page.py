"""docs/flashing.md and docs/bundles.md name every rule, exit status, command, option and platform that there is."""

import re
from pathlib import Path

import click
import pytest

from nightjar.firmware_scripts.__main__ import cli
from nightjar.firmware_scripts.bundle.platforms import PLATFORMS
from nightjar.firmware_scripts.core.exit_status import ExitStatus
from nightjar.firmware_scripts.core.rules import CAN_BE_ALLOWED, Rule

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "flashing.md").read_text()
BUNDLES = (DOCS / "bundles.md").read_text()
CUSTOMISING = (DOCS / "customising.md").read_text()
COMMANDS = ("targets", "flash", "verify", "bmap", "doctor", "bundle", "bundle-key")


@pytest.mark.parametrize("rule", Rule)
def test_every_rule_is_on_the_page_with_a_star_if_it_can_be_allowed(rule):
    row = re.search(rf"^- [^:]*`{rule.value}`[^:]*:", PAGE, re.MULTILINE)
    assert row
    assert ("*" in row.group()) == (rule in CAN_BE_ALLOWED)


@pytest.mark.parametrize("status", ExitStatus)
def test_every_exit_status_is_on_the_page(status):
    assert f"- {status.value} `{status.name.lower().replace('_', '-')}`: " in PAGE


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_long_option_is_on_the_page(name):
    pages = PAGE + BUNDLES + (CUSTOMISING if name == "flash" else "")
    assert f"nightjar-firmware {name}" in pages or f"`{name} " in pages
    for parameter in cli.commands[name].params:
        if isinstance(parameter, click.Option):
            long = max(parameter.opts, key=len)
            assert long in pages or long == "--output", long


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda platform: platform.name)
def test_every_platform_is_on_the_page_and_those_without_a_bundle_are_exempt(platform):
    row = next(line for line in BUNDLES.splitlines() if line.startswith(f"|`{platform.name}`|"))
    assert ("exempt" in row) == bool(platform.exempt)
