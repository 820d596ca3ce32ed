"""``nightjar-firmware twin``: runs an emulated device in QEMU."""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from nightjar.firmware_scripts.commands.host_options import host_options, read_host_options
from nightjar.firmware_scripts.image.tools import cache_folder
from nightjar.firmware_scripts.twin.belonging import belonging
from nightjar.firmware_scripts.twin.coordinator import Coordinator
from nightjar.firmware_scripts.twin.guest import Guest
from nightjar.firmware_scripts.twin.joining import Milestones, join
from nightjar.firmware_scripts.twin.person import sentences, set_charging
from nightjar.firmware_scripts.twin.process import BOOTED
from nightjar.firmware_scripts.twin.running import SOCKET, boot_file, exists, powered, prepare
from nightjar.host.signals import noticed_signals
from nightjar.wire.errors import ConfigError, UnavailableError

# MQTT's registered ports, plain and with TLS: a broker's defaults.
_BROKER_PORTS = (1883, 8883)
_HOSTNAME = "twin-01"


@click.command()
@click.argument("image", type=click.Path(path_type=Path), required=False)
@host_options
@click.option("--join", "joins", is_flag=True, help="Type on it, plug it in, and follow it into a committed round.")
@click.option("--coordinator", "url", help="Its URL. Default: the claim's, or that of the agent's settings.")
@click.option("--forward", "ports", multiple=True, type=click.IntRange(1, 65535), help="One more port of this machine.")
@click.option("--folder", type=click.Path(path_type=Path), help="Keeps the twin, and goes on with the one in it.")
@click.option("--deadline", "deadline_s", default=600.0, show_default=True, help="Seconds until it must have joined.")
@click.option("--plug", type=click.Choice(["in", "out"]), help="Only do this to the twin that runs in --folder.")
@click.option("--console", is_flag=True, help="Show what the machine prints.")
@click.option("--json", "as_json", is_flag=True, help="Print when what happened as JSON, and end.")
def twin(
    image: Path | None,
    url: str | None,
    ports: tuple[int, ...],
    folder: Path | None,
    deadline_s: float,
    plug: str | None,
    *,
    joins: bool,
    console: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Run IMAGE as an emulated device in QEMU, until ctrl-C.

    IMAGE is copied, never changed. The options that customise a card customise the copy; an image that is already
    customised needs none. The twin reaches this machine's coordinator and broker on its own localhost ports. Without
    --folder, the twin and everything typed on it are deleted afterwards. If the coordinator restricts viewing, give a
    viewer's token in NIGHTJAR_TOKEN.
    """
    if plug:
        if folder is None:
            msg = "--plug needs the --folder of a twin that runs"
            raise ConfigError(msg)
        set_charging(Guest(folder.absolute() / SOCKET), charging=plug == "in")
        return
    options = read_host_options(given)
    order = options.order(options.hostname or _HOSTNAME, {}, Path()) if options else None
    with ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="twin-", dir=_cache())))
        if image is None and not exists(folder):
            msg = "name an image (nightjar-firmware image makes one), or the folder of a twin"
            raise ConfigError(msg)
        device = prepare(image or folder, folder, order)
        guest = device.guest if joins else None
        where = belonging(boot_file(device, "nightjar/agent.toml"), boot_file(device, "nightjar/claim.json"), url)
        coordinator = Coordinator(where.url, where.authority, os.environ.get("NIGHTJAR_TOKEN", ""))
        forwarded = {coordinator.port, *_BROKER_PORTS, *ports, *([where.broker_port] if where.broker_port else [])}
        machine = stack.enter_context(powered(device, sorted(forwarded), _show if console else _hide))
        _tell(f"{device.board} is on; its console is in {device.folder}/console.log")
        if guest is not None:
            enrols = bool(where.authority)
            made = join(machine, guest, coordinator, where.device, sentences(), _tell, deadline_s, enrols=enrols)
        else:
            made = Milestones(where.device, round(machine.wait_for(BOOTED, deadline_s), 1))
            _tell(f"booted after {made.booted_s} s")
        if as_json:
            click.echo(json.dumps(dataclasses.asdict(made), indent=2))
            return
        _tell("it runs until ctrl-C")
        with noticed_signals() as stop:
            while machine.running() and not stop.wait(1.0):
                pass


def _cache() -> Path:
    # Not in the folder for temporary files, which may be in memory.
    cache = cache_folder(os.environ)
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"{cache} cannot be made: {error}; NIGHTJAR_CACHE names another folder"
        raise UnavailableError(msg) from error
    return cache


def _tell(line: str) -> None:
    click.echo(line, err=True)


def _show(line: str) -> None:
    click.echo(f"  | {line}", err=True)


def _hide(_: str) -> None:
    pass
