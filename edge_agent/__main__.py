"""The command ``nightjar-agent``, also ``python -m nightjar.edge_agent``.

Options and output only; :mod:`nightjar.edge_agent.commands` does the work, and lists the exit statuses.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any, ParamSpec

import click
import msgspec

import nightjar.host.one_thread  # noqa: F401 - before anything imports numpy
from nightjar.edge_agent import __version__
from nightjar.edge_agent.commands import EXIT_NO
from nightjar.edge_agent.config import AgentConfig
from nightjar.edge_agent.kept_settings import SERVICE_SETTINGS, folder_of, settings_of
from nightjar.host.children import python_command
from nightjar.host.command_output import watch_output
from nightjar.host.files import close_what_is_written
from nightjar.host.logs import configure_logs
from nightjar.wire.errors import NightjarError

P = ParamSpec("P")

_RESTARTS = "NIGHTJAR_RESTARTS"
MOST_RESTARTS = 3
"""Damage that comes back at once is the card's: the supervisor's pauses are longer."""

config_option = click.option(
    "--config",
    "path",
    type=click.Path(path_type=Path),
    default=SERVICE_SETTINGS,
    envvar="NIGHTJAR_SETTINGS",  # set by the command of the Debian package
    show_default=True,
    help="The agent's TOML file.",
)
log_option = click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="The least that is logged.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def reports_errors(command: Callable[P, None]) -> Callable[P, None]:
    """Log to standard error, print errors without a traceback, and exit with the error's exit status."""

    @functools.wraps(command)
    def tell(*arguments: P.args, **named: P.kwargs) -> None:
        configure_logs("warning")
        with _ending_in_words():
            command(*arguments, **named)

    return tell


@contextlib.contextmanager
def _ending_in_words() -> Iterator[None]:
    try:
        yield
    except NightjarError as error:
        click.echo(f"nightjar-agent: {error}", err=True)
        sys.exit(error.exit_status)


@click.group()
@click.version_option(__version__, prog_name="nightjar-agent")
def main() -> None:
    """Nightjar's agent: trains a keyboard model on this device and sends small updates."""


@main.command()
@config_option
@log_option
@reports_errors
def run(path: Path, log_level: str) -> None:
    """Run the agent until it is asked to stop (SIGTERM or ctrl-C)."""
    from nightjar.edge_agent.assembly import run_agent
    from nightjar.edge_agent.shell.damage import RestartNeededError, passing_faults

    configure_logs(log_level)
    environment = dict(os.environ)  # as the service manager gave it
    try:
        with passing_faults():
            run_agent(settings_of(path, os.environ), log_level)
    except RestartNeededError:
        again = int(environment.get(_RESTARTS, "0")) + 1
        if again > MOST_RESTARTS:
            raise
        command = python_command(*sys.orig_argv[1:])
        os.execve(command[0], command, environment | {_RESTARTS: str(again)})  # noqa: S606 - ourselves


@main.command()
@click.argument("paths", metavar="CONFIG...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--artifacts", type=click.Path(path_type=Path), required=True, help="Folder for the models that they share."
)
@log_option
@reports_errors
def emulate(paths: tuple[Path, ...], artifacts: Path, log_level: str) -> None:
    """Run many emulated phones, which share one trainer, in this process until it is asked to stop."""
    from nightjar.edge_agent.emulator.fleet import run_fleet

    configure_logs(log_level)
    run_fleet([_load(path) for path in paths], artifacts)


@main.command()
@config_option
@json_option
@reports_errors
def status(path: Path, as_json: bool) -> None:
    """Show what the agent is doing, what it stores and what it has sent. Exit status 4 if it is not running."""
    from nightjar.edge_agent.commands.status import in_words
    from nightjar.edge_agent.commands.status import status as find

    report = find(_load(path))
    if as_json:
        _print_json(report)
    else:
        for name, value in in_words(report):
            click.echo(f"{name:18} {_plain(value)}")
    sys.exit(0 if report.running else EXIT_NO)


@main.command()
@config_option
@json_option
@click.option("--watch", is_flag=True, help="Go on, and print whatever changes, until ctrl-C.")
@reports_errors
def conditions(path: Path, as_json: bool, watch: bool) -> None:
    """Show whether this device may train now, and why. Exit status 4 if it may not."""
    from nightjar.edge_agent.commands.conditions import look_once, looks

    config = _load(path)
    if not watch:
        look = look_once(config)
        _print_json(look.as_json(config)) if as_json else click.echo("\n".join(look.as_table(config)))
        sys.exit(0 if look.verdict.eligible else EXIT_NO)
    shown: Any = None
    for look in looks(config):
        face = {c: (r.value, r.reason, r.source) for c, r in look.readings.items()}, look.verdict, look.run
        if face == shown:
            continue
        if as_json:
            _print_json(look.as_json(config), indent=0)
        elif shown is None:
            click.echo("\n".join(look.as_table(config)))
        else:
            for condition, reading in look.readings.items():
                if face[0][condition] != shown[0][condition]:
                    click.echo(f"  {condition.value:20} {reading.value.value:8} {reading.reason} ({reading.source})")
            if face[1:] != shown[1:]:
                click.echo(look.headline)
        shown = face


@main.command()
@config_option
@json_option
@reports_errors
def doctor(path: Path, as_json: bool) -> None:
    """Check for problems that keep this device from taking part, with a remedy for each. Exit status 4 if any."""
    from nightjar.edge_agent.commands.doctor import CheckOutcome, examine

    checks, category = [], ""
    found = settings_of(path, os.environ)
    for check in examine(found.config, found.notice):
        checks.append(check)
        if as_json:
            continue
        if check.category != category:
            category = check.category
            click.echo(category)
        click.echo(f"  {check.outcome.value:8} {check.name}: {check.detail}")
        if check.remedy:
            click.echo(f"           -> {check.remedy}")
    failed = sum(check.outcome is CheckOutcome.FAILED for check in checks)
    if as_json:
        _print_json({"checks": [check._asdict() for check in checks], "failed": failed})
    else:
        click.echo(f"{failed} of {len(checks)} checks failed" if failed else "nothing is in the way")
    sys.exit(EXIT_NO if failed else 0)


@main.command()
@config_option
@json_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@reports_errors
def wipe(path: Path, as_json: bool, yes: bool) -> None:
    """Delete all text typed on this device and everything derived from it. Reports already sent cannot be recalled."""
    from nightjar.edge_agent.commands.wipe import wipe as delete

    config = _load(path)
    if not yes:
        click.confirm(f"Delete everything that was typed, from {config.data_dir}?", abort=True, err=True)
    done = delete(config)
    if as_json:
        _print_json(done)
    else:
        click.echo(f"deleted: {done.messages} messages, learned words, what waited to be sent, and their traces")


@main.command()
@click.option("--config", "path", type=click.Path(path_type=Path), help="The agent's TOML file; else your own agent.")
@click.option("--count", default=3, show_default=True, type=click.IntRange(1, 9), help="The most that are printed.")
@click.option("--language", default="", help="A tag such as de-AT.")
@reports_errors
def complete(path: Path | None, count: int, language: str) -> None:
    """Print completions of the text on standard input, one a line: a completer for keyboards that run a program."""
    from nightjar.edge_agent.commands.complete import complete as find
    from nightjar.edge_agent.commands.complete import read_end, socket_of

    text = read_end(None if sys.stdin is None else sys.stdin.buffer)  # None: a closed one
    for word in find(socket_of(path, os.environ), text, count, language):
        with contextlib.suppress(UnicodeEncodeError):  # a word that the output's character set lacks
            click.echo(word)


@main.command("train-once")
@config_option
@json_option
@click.option("--whatever", is_flag=True, help="Whatever the conditions are.")
@click.option("--epochs", default=1, show_default=True, type=click.IntRange(1, 1000))
@click.option("--max-steps", default=100, show_default=True, type=click.IntRange(1, 10**6))
@click.option("--learning-rate", default=0.5, show_default=True, type=click.FloatRange(0, min_open=True))
@reports_errors
def train_once(path: Path, as_json: bool, whatever: bool, epochs: int, max_steps: int, learning_rate: float) -> None:
    """Train once on the text typed here; nothing is sent, the model is unchanged. Exit status 4 if not trained."""
    from nightjar.edge_agent.commands.train_once import train_once as train
    from nightjar.wire.messages import CodecChoice, TrainingPlan

    plan = TrainingPlan(learning_rate=learning_rate, clip_norm=1.0, local_epochs=epochs, max_steps=max_steps)
    session = train(_load(path), plan, CodecChoice(), whatever=whatever)
    if as_json:
        _print_json(session)
    elif session.trained:
        click.echo(
            f"trained version {session.model_version} for {session.steps} steps on {session.examples} words in "
            f"{session.seconds:.1f} s: loss {session.loss:.3f}, a report would have {session.report_bytes} bytes"
        )
    else:
        click.echo(f"not trained: {session.reason}")
    sys.exit(0 if session.trained else EXIT_NO)


@main.command("self-test")
@config_option
@json_option
@reports_errors
def self_test(path: Path, as_json: bool) -> None:
    """Test whether this installation can train: a few steps on synthetic data. Exit status 4 if it cannot."""
    from nightjar.edge_agent.commands.self_test import self_test as find_out

    tested = find_out(_load(path))
    if as_json:
        _print_json(tested)
    else:
        click.echo(f"{'passed' if tested.passed else 'failed'} with {tested.runtime}. {tested.reason}".rstrip(". "))
    sys.exit(0 if tested.passed else EXIT_NO)


@main.command()
@config_option
@json_option
@click.option("--claim", type=click.Path(path_type=Path), required=True, help="The claim file; removed in the end.")
@click.option("--wipe", "also_wipe", type=click.Path(path_type=Path), multiple=True, help="Blank the claim there, too.")
@reports_errors
def enrol(path: Path, as_json: bool, claim: Path, also_wipe: tuple[Path, ...]) -> None:
    """Get a certificate for this device with a claim; does nothing if the device has a valid one.

    Exit status 0: enrolled; a warning names each place where the claim could not be wiped. 2: refused, a new claim is
    needed. 3: the coordinator cannot be reached, or an operator has to admit the device; try again later.
    """
    from nightjar.edge_agent.enrolment.enrolling import enrol as enrol_with_claim
    from nightjar.edge_agent.shell.folder import own_folder, running_agent

    data_dir = folder_of(path, os.environ)
    # A running agent holds the folder's lock; only identity/ changes.
    with contextlib.nullcontext() if running_agent(data_dir) else own_folder(data_dir):
        done = enrol_with_claim(data_dir, claim, also_wipe)
    if as_json:
        names = {"device": done.identity.device, "population": done.identity.population}
        _print_json({**names, "anew": done.anew, "not_wiped": done.not_wiped})
    else:
        click.echo(f"{'enrolled' if done.anew else 'enrolled already'} as {done.identity.device}")
    for why in done.not_wiped:
        click.echo(f"nightjar-agent: warning: the device is enrolled, but {why}", err=True)


@main.command(hidden=True)
@click.option("--data-dir", type=click.Path(path_type=Path), required=True)
@reports_errors
def renew(data_dir: Path) -> None:
    """Renew the certificate if it is due; the running agent does this by itself."""
    from nightjar.edge_agent.enrolment.enrolling import renewed
    from nightjar.edge_agent.shell.clock import SystemClock

    click.echo("renewed" if renewed(data_dir, SystemClock(data_dir).trusted_s()) else "not yet")


@main.command()
@click.option("--enrols", is_flag=True, help="The device is told its name, and where everything is, when it enrols.")
@click.argument("path", metavar="CONFIG", type=click.Path(path_type=Path))
@reports_errors
def check(path: Path, enrols: bool) -> None:
    """Check a configuration file that was written for another device; lists all faults, with exit status 2."""
    from nightjar.edge_agent.config import check as check_config

    check_config(path, enrols=enrols)
    click.echo(f"{path} can be used")


@main.command()
@json_option
def plugins(as_json: bool) -> None:
    """Show this agent's task types and codecs, with package and version, and why one cannot be used."""
    from nightjar.models import task_types
    from nightjar.wire.codec import codecs
    from nightjar.wire.plugins import listed

    found = listed("task type", task_types.installed(), __version__)
    found += listed("codec", codecs.installed(), __version__)
    if as_json:
        _print_json([each._asdict() for each in found])
    for each in () if as_json else found:
        click.echo(str(each))


@main.command()
def example() -> None:
    """Print a configuration file with every setting and the reason for its default."""
    click.echo((resources.files("nightjar.edge_agent") / "example.toml").read_text(encoding="utf-8"), nl=False)


@main.command()
@config_option
def service(path: Path) -> None:
    """Print a systemd unit that starts this installation of the agent at boot (docs/device.md)."""
    unit = (resources.files("nightjar.edge_agent") / "nightjar-agent.service").read_text(encoding="utf-8")
    command = f"ExecStart={sys.executable} -P -m nightjar.edge_agent run --config %d/agent.toml"
    unit = re.sub(r"^ExecStart=.*$", lambda _: command, unit, flags=re.MULTILINE)
    settings = f"LoadCredential=agent.toml:{path.absolute()}"
    click.echo(re.sub(r"^LoadCredential=.*$", lambda _: settings, unit, flags=re.MULTILINE), nl=False)


def start() -> None:
    """Entry point."""
    close_what_is_written()
    watch_output()
    with _ending_in_words():  # also --help
        main()


def _load(path: Path) -> AgentConfig:
    found = settings_of(path, os.environ)
    if found.notice:
        click.echo(f"nightjar-agent: warning: {found.notice}", err=True)
    return found.config


def _print_json(value: object, indent: int = 2) -> None:
    data = msgspec.json.encode(value)
    click.echo((msgspec.json.format(data, indent=indent) if indent else data).decode())


def _plain(value: object) -> str:
    match value:
        case True:
            return "yes"
        case False:
            return "no"
        case None:
            return "-"
        case _:
            return str(value)


if __name__ == "__main__":
    start()
