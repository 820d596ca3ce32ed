"""``nightjar-coordinator``, or ``python -m nightjar.coordinator``: the service, a broker and operators' commands."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import click

from nightjar.coordinator import __version__
from nightjar.coordinator.commands.options import LazyCommands, config_option
from nightjar.coordinator.config import BrokerKind, CoordinatorConfig, LogFormat
from nightjar.host.command_output import watch_output
from nightjar.host.files import close_what_is_written
from nightjar.wire.errors import ConfigError, NightjarError, UnavailableError

_ELSEWHERE = {
    "records": {"round": "rounds", "device": "devices"},
    "fleet": {"fleet": "fleet"},
    "versions": {"model": "models"},
    "releases": {"release": "release"},
    "actions": {"token": "token", "audit": "audit"},
    "task": {"task": "task"},
    "plugins": {"plugins": "plugins"},
    "privacy": {"privacy": "privacy"},
    "certificates": {"authority": "authority"},
    "enrol": {"enrol-token": "enrol_token", "enrolment": "enrolment"},
    "prune": {"prune": "prune"},
    "upkeep": {"init": "init", "doctor": "doctor", "backup": "backup", "restore": "restore"},
}
"""Module of :mod:`nightjar.coordinator.commands` -> command name -> name of its function."""


_DISK_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)


@click.group(cls=LazyCommands, elsewhere=_ELSEWHERE, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="nightjar-coordinator")
def cli() -> None:
    """Nightjar's coordinator: samples devices, averages their updates and rolls out the next model.

    Exit status: 0 success, 1 doctor found a fault or there is a bug in the program, 2 an invalid file, option or
    argument, 3 the disk, the database or the broker does not work at the moment, 130 ctrl-C.
    """


@cli.command()
@config_option
@click.option("--trust-clock", is_flag=True, help="Take this machine's time as right, once, after a longer stop.")
def serve(config: CoordinatorConfig, *, trust_clock: bool) -> None:
    """Run the whole service until ctrl-C."""
    from nightjar.coordinator.service import serve as run
    from nightjar.host.logs import configure_logs

    configure_logs(config.log.value, json=config.log_format is LogFormat.JSON)
    run(config, trust_clock=trust_clock)


@cli.command()
@click.option("--port", required=True, type=click.IntRange(1, 65535), help="To listen on.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--data", default=Path("nightjar-broker"), type=click.Path(path_type=Path), help="Folder for its state.")
@click.option("--kind", default="auto", type=click.Choice(["auto", "mosquitto", "embedded"]), show_default=True)
@click.option("--username", default="nightjar", help="Only with a password in NIGHTJAR_BROKER_PASSWORD.")
@click.option("--allow-network", is_flag=True, help="Needed, with a password, for another address than loopback.")
@click.option("--tls", type=click.Path(path_type=Path), help="Ask for certificates; the folder 'tls' of data_dir.")
@click.option("--service-port", type=click.IntRange(1, 65535), help="The coordinator's, on 127.0.0.1; with --tls.")
@click.option("--population", default="demo", show_default=True, help="Whose topics devices may use; with --tls.")
@click.option("--shards", default=1, type=click.IntRange(1, 1024), show_default=True, help="As the coordinator's.")
@click.option("--die-with", type=int, help="End when the process with this id, which must be our parent, ends.")
@click.option("--tell-floods", type=int, help="File descriptor for a line with the name of each device that floods.")
def broker(
    port: int,
    host: str,
    data: Path,
    kind: str,
    username: str,
    tls: Path | None,
    service_port: int | None,
    population: str,
    shards: int,
    die_with: int | None,
    tell_floods: int | None,
    *,
    allow_network: bool,
) -> None:
    """Run an MQTT broker in the foreground: mosquitto if it is installed, else the embedded one."""
    from nightjar.coordinator.mqtt.broker import choose, run_broker
    from nightjar.coordinator.mqtt.broker_child import PASSWORD_VARIABLE
    from nightjar.coordinator.mqtt.listeners import Listeners
    from nightjar.host.children import die_with_parent
    from nightjar.wire.addresses import is_loopback

    password = os.environ.get(PASSWORD_VARIABLE, "")
    if not is_loopback(host) and not (allow_network and password):
        msg = (
            f"{host} is open to a network: give --allow-network and a password in {PASSWORD_VARIABLE} if that is meant"
        )
        raise ConfigError(msg)
    if tls is not None and not (password and service_port):
        msg = f"--tls takes --service-port, and a password in {PASSWORD_VARIABLE}, for the coordinator's own connection"
        raise ConfigError(msg)
    if die_with is not None:
        die_with_parent(die_with)
    name = choose(BrokerKind(kind))
    print(f"broker {name} on {host} port {port}", file=sys.stderr, flush=True)
    listeners = Listeners(host, port, username, password, tls, service_port or 0, population, shards, tell_floods)
    run_broker(name, listeners, data)


def start() -> None:
    """Entry point."""
    close_what_is_written()
    watch_output()
    main()


def main() -> None:
    """Run the command line; errors that the user can fix end with one message and no traceback."""
    try:
        cli.main(standalone_mode=False)
    except NightjarError as error:
        print(f"coordinator: {error}", file=sys.stderr)
        sys.exit(error.exit_status)
    except PermissionError as error:
        remedy = "run this as the coordinator's own user, or as root"
        print(f"coordinator: {error.filename or 'it'} may not be used by this user; {remedy}", file=sys.stderr)
        sys.exit(ConfigError.exit_status)
    except OSError as error:
        if error.filename is None:
            raise  # of no file that an argument or a setting names
        print(f"coordinator: {error.filename}: {error.strerror}; look there, or give another path", file=sys.stderr)
        sys.exit(UnavailableError.exit_status if error.errno in _DISK_FAULTS else ConfigError.exit_status)
    except UnicodeEncodeError as error:  # what is no UTF-8 in an argument is kept as such characters by Python
        print(
            f"coordinator: expected text in UTF-8, got {str(error.object)[:80].strip()!r}; type it again",
            file=sys.stderr,
        )
        sys.exit(ConfigError.exit_status)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)


if __name__ == "__main__":
    start()
