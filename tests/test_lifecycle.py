"""The commands of docs/lifecycle.md and the packages of docs/layers.md exist as written."""

import re
import shlex
import shutil
from pathlib import Path

import click
import pytest

from nightjar.coordinator.__main__ import cli as coordinator
from nightjar.simulation.commands import commands as simulation

ROOT = Path(__file__).parents[1]
PROGRAMS = {"nightjar-coordinator": coordinator, "python -m nightjar.simulation": simulation}
LINES = re.findall(r"^   ((?:nightjar|python).*)$", (ROOT / "docs" / "lifecycle.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("line", LINES)
def test_commands_of_the_lifecycle_are_understood(line, tmp_path, monkeypatch):
    shutil.copy(ROOT / "coordinator" / "example.toml", tmp_path / "coordinator.toml")
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path)
    (program,) = (each for each in PROGRAMS if line.startswith(each))
    command, arguments = PROGRAMS[program], shlex.split(line.removeprefix(program))
    context = click.Context(command)
    while isinstance(command, click.Group):
        _, command, arguments = command.resolve_command(context, arguments)
        assert command is not None
        context = click.Context(command, parent=context)
    assert command.make_context(command.name, arguments, parent=context.parent)


def test_all_phases_that_have_commands_are_walked_through():
    assert len(LINES) == 7


@pytest.mark.parametrize("package", re.findall(r"`([a-z_/]+)`", (ROOT / "docs" / "layers.md").read_text()))
def test_packages_of_the_layers_exist(package):
    assert (ROOT / package / "__init__.py").is_file()
