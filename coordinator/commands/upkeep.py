"""The maintenance commands ``init``, ``doctor``, ``backup`` and ``restore``."""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

import click

from nightjar.coordinator.commands.checkup import CheckupFinding, check_up
from nightjar.coordinator.commands.console import create_for_owner, show
from nightjar.coordinator.commands.deployment import BACKUP, check_deployment
from nightjar.coordinator.commands.options import answer_options, config_path_option, irreversible, json_option
from nightjar.coordinator.commands.stored import noted, opened
from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.config_file import load_config
from nightjar.coordinator.config_reader import ENVIRONMENT_PREFIX
from nightjar.coordinator.engine.clock import WallClock
from nightjar.coordinator.storage import backup as backups
from nightjar.coordinator.storage.drawing_key import load_draw_seeds
from nightjar.coordinator.storage.engine import database_url
from nightjar.coordinator.storage.lock import only_one
from nightjar.coordinator.storage.release_metadata import FOLDER as RELEASES
from nightjar.coordinator.storage.signing_key import KEY_FILE, load_signer, make_recovery_key
from nightjar.coordinator.tasks.fleets import SETTINGS, FleetSize
from nightjar.coordinator.tasks.task import SPENT_BY_RESTORING
from nightjar.coordinator.tls.files import AUTHORITY_FOLDER
from nightjar.coordinator.views.words import si_bytes
from nightjar.models.configurations import configuration
from nightjar.models.folder import MANIFEST
from nightjar.models.shipped import NAMES
from nightjar.models.starts import pretrained_start, write_start
from nightjar.wire.errors import ConfigError, UnavailableError, rewording

NO_MODEL = "none"
FOUND_FAULTS = 1
"""Exit status of ``doctor`` if it finds a fault."""


@click.command()
@click.argument("path", default=Path("coordinator.toml"), type=click.Path(path_type=Path))
@click.option("--set", "pairs", multiple=True, metavar="NAME=VALUE", help="Any setting, such as task.goal=10.")
@click.option(
    "--fleet",
    type=click.Choice([each.value for each in FleetSize]),
    help="How many people type: the settings that learn most there. Asked for on a terminal; else hundreds.",
)
@click.option("--key/--no-key", default=True, help="Make the key that signs models, too; else 'serve' does.")
@click.option(
    "--model",
    default=NAMES[-1],
    show_default=True,
    type=click.Choice([*NAMES, NO_MODEL]),
    help="Pre-trained model for the folder task.model, if there is none; needs TensorFlow.",
)
@json_option
def init(path: Path, pairs: tuple[str, ...], *, fleet: str | None, key: bool, model: str, as_json: bool) -> None:
    """Write a configuration file with every setting and the reason for its value; '-' prints it.

    Also creates the key that signs orders to devices, in the data folder beside the file, if there is none; only its
    owner may read it. A recovery key is written beside the file. Keep it on paper or a USB stick: it can authorise
    another key if the signing key is lost. The model with which devices start is pre-trained.
    """
    text = example_for(FleetSize(fleet) if fleet else _asked_fleet())
    for pair in pairs:
        text = _with_setting(text, pair)
    if str(path) == "-":
        click.echo(text, nl=False)
        return
    written = tomllib.loads(text)
    folder = path.parent / written["task"]["model"]
    with rewording(UnavailableError, f"cannot write {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = create_for_owner(path)  # owner only: the file may later hold a password
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    complete = folder / MANIFEST  # it is written last: a folder without one was left by a killed command
    made = model != NO_MODEL and not complete.is_file()
    if made:
        try:
            _export(model, folder, written["seed"])
        except BaseException:  # ctrl-C, too
            path.unlink()  # so that the same command can be given again
            raise
    export = "" if complete.is_file() else f"export a model to {folder}, or set task.model to the folder of one, then: "
    following = f"{export}nightjar-coordinator serve --config {path}"
    answer = {"path": str(path), "next": following}
    cells: list[tuple[object, ...]] = [("configuration", path)]
    if made:
        answer |= {"model": str(folder)}
        cells.append((f"model, {model}, pre-trained", folder))
    if key:
        data_dir = path.absolute().parent / os.environ.get(f"{ENVIRONMENT_PREFIX}_DATA_DIR", written["data_dir"])
        public = load_signer(data_dir).public
        load_draw_seeds(data_dir)  # made now, so that no draw is made without it
        answer |= {"signing_key": str(data_dir / KEY_FILE), "coordinator_key": public}
        cells += [("key that signs orders", data_dir / KEY_FILE), ("its public half, for coordinator_key", public)]
        recovery = path.with_name(f"{path.stem}-recovery.pem")
        if make_recovery_key(data_dir, recovery):
            answer |= {"recovery_key": str(recovery)}
            cells.append(("recovery key: take it off this machine, and keep it", recovery))
    show(answer, ("made", ""), [*cells, ("next", following)], as_json=as_json)


def example_for(fleet: FleetSize) -> str:
    """The text of a configuration with every setting, those of ``SETTINGS`` as they suit a fleet."""
    text = (resources.files("nightjar.coordinator") / "example.toml").read_text(encoding="utf-8")
    for name, value in SETTINGS[fleet].items():
        text = _with_setting(text, f"{name}={json.dumps(value)}")
    return text


def _asked_fleet() -> FleetSize:
    """What a person at a terminal answers."""
    if not sys.stdin.isatty():
        return FleetSize.HUNDREDS
    sizes = click.Choice([each.value for each in FleetSize])
    return FleetSize(click.prompt("How many people will type", type=sizes, default=FleetSize.HUNDREDS.value, err=True))


def _export(name: str, folder: Path, seed: int) -> None:
    """Write the folder of a pre-trained model."""
    shape = configuration(name)
    write_start(folder, shape, pretrained_start(shape, seed, None), ("en",))


def _with_setting(text: str, pair: str) -> str:
    """The text of a configuration with another value in one line; a value that is not TOML is taken as plain text."""
    name, sign, value = pair.partition("=")
    table, _, key = name.rpartition(".")
    try:
        tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError:
        value = json.dumps(value)
    lines, inside = text.split("\n"), ""
    for i, line in enumerate(lines):
        if header := re.match(r"\[(.+?)\]", line):
            inside = header[1]
        elif sign and inside == table and (found := re.match(rf"{re.escape(key)} = (.*?)(?=  +#|$)", line)):
            lines[i] = f"{key} = {value}".ljust(found.end()) + line[found.end() :]
            return "\n".join(lines)
    msg = f"--set: expected NAME=VALUE with a setting that 'init -' prints, such as task.goal=10, got {pair[:80]!r}"
    raise ConfigError(msg)


@click.command()
@config_path_option
@json_option
@click.option("--deployment", is_flag=True, help="Check the running service from outside, as devices meet it.")
def doctor(config_path: Path, *, as_json: bool, deployment: bool) -> None:
    """Check this machine for problems; the exit status is 1 if something must be fixed."""
    try:
        config = load_config(config_path, os.environ)
        findings = list(check_deployment(config, WallClock().now_s()) if deployment else check_up(config))
    except ConfigError as error:
        findings = [CheckupFinding("configuration", "fault", str(error), _remedy(error, config_path))]
    cells = [(finding.level, finding.category, finding.found, finding.remedy or None) for finding in findings]
    show(findings, ("", "about", "found", "remedy"), cells, as_json=as_json)
    if any(finding.level == "fault" for finding in findings):
        sys.exit(FOUND_FAULTS)


def _remedy(error: ConfigError, path: Path) -> str:
    cause = error.__cause__
    if not isinstance(cause, OSError) or cause.filename != str(path):
        return f"edit {path}"
    if isinstance(cause, FileNotFoundError):
        return f"give --config FILE, or nightjar-coordinator init {path}"
    return "give --config FILE that this user can read"


@click.command()
@config_path_option
@json_option
@click.option("--with-keys", is_flag=True, help="All keys in data_dir, too: keep it like those.")
@click.argument("folder", type=click.Path(path_type=Path))
def backup(config_path: Path, folder: Path, *, as_json: bool, with_keys: bool) -> None:
    """Copy the database and the files it needs into a new FOLDER; the service may be running.

    Of a PostgreSQL database it copies only what is beside it: run pg_dump first.
    """
    config = load_config(config_path, os.environ)
    size_bytes = backups.back_up(config.data_dir, folder, with_keys=with_keys, beside=bool(config.database_url))
    try:
        with opened(config) as database, database.transaction() as tx:
            tx.add_audit(noted(BACKUP, folder.name[:64]))
    except UnavailableError as error:  # such as a disk that may only be read any more: that is when one is wanted
        click.echo(f"the backup is whole, and could not be noted in the audit log: {error}", err=True)
    held = backups.keys_in(folder)
    left_out = sorted(backups.keys_in(config.data_dir) - held)
    saving = f"nightjar-coordinator backup --with-keys --config {config_path} FOLDER"
    answer = {"folder": str(folder), "bytes": size_bytes, "keys": sorted(held), "keys_left_out": left_out}
    show(answer, ("backup", "size", "keys in it"), [(folder, si_bytes(size_bytes), _listed(held))], as_json=as_json)
    if left_out:
        click.echo(f"not in it: {_listed(left_out)}. Save keys once, and lock that folder away: {saving}", err=True)


@click.command()
@answer_options
@click.argument("folder", type=click.Path(path_type=Path))
@irreversible("Restore {folder}? Tasks with differential privacy end.")
def restore(config: CoordinatorConfig, folder: Path, *, as_json: bool) -> None:
    """Fill the empty data folder from the backup in FOLDER; restore a PostgreSQL database first."""
    data_dir, now_s = config.data_dir, WallClock().now_s()
    with only_one(data_dir):
        if config.database_url:
            used = backups.restore_beside(database_url(config), config.artifacts_url, folder, data_dir, now_s)
        else:
            used = backups.restore(folder, data_dir, now_s)
    wanted = {"signing", "authority"} if config.tls and not config.enrolment.signer else {"signing"}
    with opened(config) as database, database.transaction() as view:
        wanted |= {"releases"} if view.release_files() else set()
        over = [each.name for each in view.tasks() if each.state.reason == SPENT_BY_RESTORING]
    lacking = sorted(wanted - backups.keys_in(data_dir))
    answer = {"folder": str(data_dir), "last_used_round": used, "keys_lacking": lacking, "tasks_ended": over}
    row = (data_dir, used + 1, _listed(lacking))
    show(answer, ("restored to", "rounds are counted from", "keys that lack"), [row], as_json=as_json)
    if over:
        click.echo(f"ended: {', '.join(over)}: {SPENT_BY_RESTORING}", err=True)
    if lacking:
        click.echo(
            f"devices know the coordinator by its keys: before 'serve', copy {KEY_FILE} and the folders "
            f"{AUTHORITY_FOLDER} and {RELEASES} from the backup that was made --with-keys into {data_dir}",
            err=True,
        )


def _listed(keys: Iterable[str]) -> str:
    return " and ".join(sorted(keys)) or "-"
