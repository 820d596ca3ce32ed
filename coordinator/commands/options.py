"""What several commands share: their options, and how they are found."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar, cast

import click
import msgspec

from nightjar.coordinator.config import CoordinatorConfig
from nightjar.host.value_faults import fault_in_words

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _load(_context: click.Context, _option: click.Parameter, path: Path) -> CoordinatorConfig:
    from nightjar.coordinator.config_file import load_config  # here, so that the broker process starts without it

    return load_config(path, os.environ)


def _read(_context: click.Context, _option: click.Parameter, path: Path) -> CoordinatorConfig:
    from nightjar.coordinator.config_reader import read_config

    return read_config(path, os.environ)


_config = functools.partial(
    click.option,
    "--config",
    default=Path("coordinator.toml"),
    show_default=True,
    envvar="NIGHTJAR_CONFIG",
    show_envvar=True,
    type=click.Path(path_type=Path),
    help="The coordinator's TOML file.",
)
config_path_option = _config("config_path")
config_option = _config("config", callback=_load)
unchecked_config_option = _config("config", callback=_read)
"""For a command that leaves it to the service to check which settings go together."""
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of a table.")
MOST_NUMBER = 2**53 - 1
"""Of a round or a version, as in the HTTP API; the database cannot look for any number."""
limit_option = click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 10_000), help="At most.")


def checked_as(kind: Any) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """A callback that takes what the HTTP API takes, too, or what was left out; a refusal says what was expected."""

    def check(_context: click.Context, _parameter: click.Parameter, value: Any) -> Any:
        if value is None:
            return None
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise click.BadParameter(fault_in_words(error, kind, value)) from error

    return check


def answer_options(command: _Command) -> _Command:
    """Options of a command that reads the configuration, and prints an answer."""
    return config_option(json_option(command))


def irreversible(question: str, only_with: str = "") -> Callable[[_Command], _Command]:
    """For a command that cannot be undone: on a terminal it asks first, unless it is given --yes. Scripts go on.

    ``question`` names the command's arguments, such as ``{name}``. With ``only_with`` it asks only if that is given.
    """

    def decorate(command: _Command) -> _Command:
        @click.option("--yes", is_flag=True, help="Do not ask on a terminal.")
        @functools.wraps(command)
        def asking(*, yes: bool, **given: Any) -> Any:
            if not yes and sys.stdin.isatty() and (not only_with or given[only_with]):
                click.confirm(f"{question.format(**given)} This cannot be undone.", abort=True, err=True)
            return command(**given)

        return cast(_Command, asking)

    return decorate


class LazyCommands(click.Group):
    """A group that imports a command only when it is run: most need little of the coordinator.

    ``elsewhere`` maps a module of :mod:`nightjar.coordinator.commands` to its commands' names and their functions.
    """

    def __init__(self, *arguments: Any, elsewhere: Mapping[str, Mapping[str, str]], **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._elsewhere = elsewhere

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the commands, sorted."""
        return sorted([*super().list_commands(ctx), *(name for names in self._elsewhere.values() for name in names)])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name; None if there is none."""
        for module, names in self._elsewhere.items():
            if cmd_name in names:
                found = import_module(f"nightjar.coordinator.commands.{module}")
                command: click.Command = getattr(found, names[cmd_name])
                return command
        return super().get_command(ctx, cmd_name)
