"""``init``, ``doctor``, ``backup``, ``restore`` and ``db upgrade``: before, beside and after the service."""

from __future__ import annotations

import os
import sys
from importlib import resources
from pathlib import Path

import click

from coordinator.commands.options import config_option, json_option
from coordinator.commands.setting import configuration, show
from coordinator.shell import backup as backups
from coordinator.shell.checkup import Finding, check_up
from coordinator.shell.clock import WallClock
from coordinator.shell.database import Database, database_file, database_url
from coordinator.shell.lock import only_one
from coordinator.shell.web.words import si_bytes
from wire.errors import ConfigError, UnavailableError

FOUND_FAULTS = 1
"""Exit status of ``doctor`` when something has to be mended."""


@click.command()
@click.argument("path", default=Path("coordinator.toml"), type=click.Path(path_type=Path))
@json_option
def init(path: Path, *, as_json: bool) -> None:
    """Write a configuration file with every setting and why it is what it is; '-' prints it."""
    text = (resources.files("coordinator") / "example.toml").read_text(encoding="utf-8")
    if str(path) == "-":
        click.echo(text, nl=False)
        return
    try:
        # Only its owner may read it: a password may come to stand in it.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        msg = f"{path} exists already and is left as it is; give another name, or move it away"
        raise ConfigError(msg) from error
    except OSError as error:
        msg = f"cannot write {path}: {error.strerror or error}"
        raise UnavailableError(msg) from error
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    following = f"set task.model to the folder of an exported model, then: nightjar-coordinator serve --config {path}"
    show({"path": str(path), "next": following}, ("written", "next"), [(path, following)], as_json=as_json)


@click.command()
@config_option
@json_option
def doctor(config_path: Path, *, as_json: bool) -> None:
    """Look for what is wrong with this machine; the exit status is 1 if something has to be mended."""
    try:
        findings = list(check_up(configuration(config_path)))
    except ConfigError as error:
        findings = [Finding("configuration", "fault", str(error), f"edit {config_path}")]
    cells = [(finding.level, finding.category, finding.found, finding.remedy or None) for finding in findings]
    show(findings, ("", "about", "found", "remedy"), cells, as_json=as_json)
    if any(finding.level == "fault" for finding in findings):
        sys.exit(FOUND_FAULTS)


@click.command()
@config_option
@json_option
@click.argument("folder", type=click.Path(path_type=Path))
def backup(config_path: Path, folder: Path, *, as_json: bool) -> None:
    """Copy the database and what it needs into a new FOLDER; the service may be running."""
    config = configuration(config_path)
    if config.database_url:
        msg = "database_url: copy the folders artifacts and private of data_dir first, then run pg_dump"
        raise ConfigError(msg)
    size_bytes = backups.back_up(config.data_dir, folder)
    answer = {"folder": str(folder), "bytes": size_bytes}
    show(answer, ("backup", "size"), [(folder, si_bytes(size_bytes))], as_json=as_json)


@click.command()
@config_option
@json_option
@click.argument("folder", type=click.Path(path_type=Path))
def restore(config_path: Path, folder: Path, *, as_json: bool) -> None:
    """Fill the empty data folder from the backup in FOLDER; restore a PostgreSQL database before."""
    config = configuration(config_path)
    data_dir, now_s = config.data_dir, WallClock().now_s()
    with only_one(data_dir):
        if config.database_url:
            used = backups.restore_beside(database_url(config), folder, data_dir, now_s)
        else:
            used = backups.restore(folder, data_dir, now_s)
    answer = {"folder": str(data_dir), "last_used_round": used}
    show(answer, ("restored to", "rounds are counted from"), [(data_dir, used + 1)], as_json=as_json)


@click.group()
def db() -> None:
    """The database."""


@db.command()
@config_option
@json_option
def upgrade(config_path: Path, *, as_json: bool) -> None:
    """Bring the tables up to date with this program; the service must not be running. 'serve' does it as well."""
    config = configuration(config_path)
    with only_one(config.data_dir):
        Database(database_url(config)).close()
    where = "PostgreSQL" if config.database_url else str(database_file(config.data_dir))
    show({"database": where}, ("up to date",), [(where,)], as_json=as_json)
