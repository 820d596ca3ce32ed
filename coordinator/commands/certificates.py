"""The command ``authority``: runs the certificate authority's process, and rotates its key."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from nightjar.coordinator.commands.console import show
from nightjar.coordinator.commands.options import answer_options, irreversible
from nightjar.coordinator.commands.stored import opened, trusted_now_s
from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.engine.clock import WallClock
from nightjar.coordinator.enrolment.register import Register
from nightjar.coordinator.tls.authority import Authority, fingerprint
from nightjar.coordinator.tls.authority_process import serve as answer
from nightjar.coordinator.tls.contexts import FOLDER
from nightjar.coordinator.tls.files import AUTHORITY_FOLDER, refresh, refused_serials, signer_of
from nightjar.wire.errors import ConfigError


@click.group()
def authority() -> None:
    """The devices' certificate authority (docs/enrolment.md)."""


@authority.command()
@click.option("--folder", required=True, type=click.Path(path_type=Path), help="Of its key; made at the first use.")
def serve(folder: Path) -> None:
    """Answer the service's signing requests, one per line on standard input; the service starts this by itself."""
    answer(sys.stdin.buffer, sys.stdout.buffer, folder, WallClock().now_s)


@authority.command("show")
@answer_options
def show_authority(config: CoordinatorConfig, *, as_json: bool) -> None:
    """Show the trusted authorities, and the devices that still depend on one that is being retired."""
    held = _here(config)
    fingerprints = [fingerprint(certificate) for certificate in held.certificates()]
    dependent = _left(config, held, WallClock().now_s()) if held.rotating else []
    document = {"authorities": fingerprints, "rotating": held.rotating, "devices_of_the_former": dependent}
    cells = [(name, "signs servers" if number == 0 else "signs devices") for number, name in enumerate(fingerprints)]
    if not held.rotating:
        cells = [(fingerprints[0], "signs servers and devices")]
    show(
        document,
        ("sha256", ""),
        [*cells, *((device, "depends on the former one") for device in dependent)],
        as_json=as_json,
    )


@authority.command()
@answer_options
def prepare(config: CoordinatorConfig, *, as_json: bool) -> None:
    """Write the folders 'tls' and 'server' in data_dir, for a broker that starts before the service."""
    signer, folder = signer_of(config), config.data_dir / FOLDER
    try:
        refresh(config, signer, refused_serials(folder), WallClock().now_s())  # keeps refused certificates refused
    finally:
        signer.close()
    show({"folder": str(folder)}, ("written",), [(folder,)], as_json=as_json)


@authority.command()
@answer_options
@irreversible("Begin a rotation to a new authority?")
def rotate(config: CoordinatorConfig, *, as_json: bool) -> None:
    """Begin a rotation with a new key; the service may be running. Devices follow within a day; then run 'retire'."""
    held = _here(config)
    held.rotate()
    fingerprints = [fingerprint(certificate) for certificate in held.certificates()]
    show(
        {"authorities": fingerprints},
        ("sha256", ""),
        [(fingerprints[0], "former: signs servers until 'retire'"), (fingerprints[1], "signs devices from now on")],
        as_json=as_json,
    )


@authority.command()
@answer_options
@click.option("--lock-out", is_flag=True, help="Even if devices have not come along; they need a new claim then.")
@irreversible("End the rotation, after which no certificate of the former authority is valid?")
def retire(config: CoordinatorConfig, *, as_json: bool, lock_out: bool) -> None:
    """End a rotation: certificates of the former authority are invalid from now on."""
    held = _here(config)
    # By a clock that is ahead, every certificate of the former authority ended long ago.
    dependent = _left(config, held, trusted_now_s(config)) if held.rotating else []
    if dependent and not lock_out:
        msg = (
            f"{len(dependent)} device(s) have no certificate of the new authority yet: {', '.join(dependent[:10])}; "
            "wait for them, or forget them, or give --lock-out"
        )
        raise ConfigError(msg)
    held.retire()
    show({"locked_out": dependent}, ("retired; locked out",), [(", ".join(dependent) or "nobody",)], as_json=as_json)


def _here(config: CoordinatorConfig) -> Authority:
    if config.enrolment.signer:
        msg = "enrolment.signer: the authority is elsewhere; run this there, with the same folder as its 'serve'"
        raise ConfigError(msg)
    return Authority(config.data_dir / AUTHORITY_FOLDER)


def _left(config: CoordinatorConfig, held: Authority, now_s: float) -> list[str]:
    with opened(config) as database:
        former = fingerprint(held.certificates()[0])
        return [str(device) for device in Register(database).signed_by(former, now_s)]
