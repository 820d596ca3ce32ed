"""``python -m coordinator``: the service, a broker, and an example configuration."""

from __future__ import annotations

import os
import sys
from importlib import resources
from pathlib import Path

import click

from wire.errors import NightjarError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Nightjar's coordinator: samples devices, averages their updates, rolls the next model out."""


@cli.command()
@click.option("--config", "config_path", required=True, type=click.Path(path_type=Path), help="TOML file.")
def serve(config_path: Path) -> None:
    """Run the whole service until ctrl-C."""
    from coordinator.config_file import load_config
    from coordinator.service import serve as run
    from coordinator.shell.logs import configure_logs

    config = load_config(config_path, os.environ)
    configure_logs(config.log)
    run(config)


@cli.command()
@click.option("--port", required=True, type=click.IntRange(1, 65535), help="To listen on.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--data", default=Path("nightjar-broker"), type=click.Path(path_type=Path), help="Folder for its state.")
@click.option("--kind", default="auto", type=click.Choice(["auto", "mosquitto", "embedded"]), show_default=True)
@click.option("--username", default="nightjar", help="Only with a password in NIGHTJAR_BROKER_PASSWORD.")
@click.option("--allow-network", is_flag=True, help="Needed, with a password, for another address than loopback.")
@click.option("--die-with", type=int, help="End when the process with this id, which must be our parent, ends.")
def broker(
    port: int, host: str, data: Path, kind: str, username: str, die_with: int | None, *, allow_network: bool
) -> None:
    """Run an MQTT broker in the foreground: mosquitto if it is installed, else the embedded one."""
    from coordinator.config import BrokerKind, is_loopback
    from coordinator.shell.broker import choose, run_broker
    from coordinator.shell.broker_child import PASSWORD_VARIABLE
    from coordinator.shell.parent_death import die_with_parent
    from wire.errors import ConfigError

    password = os.environ.get(PASSWORD_VARIABLE, "")
    if not is_loopback(host) and not (allow_network and password):
        msg = (
            f"{host} is open to a network: give --allow-network and a password in {PASSWORD_VARIABLE} if that is meant"
        )
        raise ConfigError(msg)
    if die_with is not None:
        die_with_parent(die_with)
    name = choose(BrokerKind(kind))
    print(f"broker {name} on {host} port {port}", file=sys.stderr, flush=True)
    run_broker(name, host, port, data, username, password)


@cli.command()
def example() -> None:
    """Print a configuration file with every setting and why it is what it is."""
    print((resources.files("coordinator") / "example.toml").read_text(encoding="utf-8"), end="")


def main() -> None:
    """Entry point: faults that a person can mend end with one message and no traceback."""
    try:
        cli.main(standalone_mode=False)
    except NightjarError as error:
        print(f"coordinator: {error}", file=sys.stderr)
        sys.exit(error.exit_status)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)


if __name__ == "__main__":
    main()
