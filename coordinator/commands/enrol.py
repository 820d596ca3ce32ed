"""The commands ``enrol-token`` and ``enrolment``: claims for SD cards, and the devices that used them."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import click
import msgspec
import segno
from msgspec import structs

from nightjar.coordinator.access import TokenName
from nightjar.coordinator.commands.console import create_for_owner, show, when
from nightjar.coordinator.commands.options import answer_options, checked_as, irreversible
from nightjar.coordinator.commands.service_call import ask_service, change
from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.enrolment.claims import ClaimMade, carried
from nightjar.coordinator.tasks.settings import Name
from nightjar.wire.addresses import is_address, is_loopback
from nightjar.wire.errors import ConfigError, RemoteProtocolError, rewording
from nightjar.wire.identifiers import device_id

_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST = rf"(?P<name>{_LABEL}(?:\.{_LABEL})*)|\[(?P<address>[0-9A-Fa-f]*:[0-9A-Fa-f:.]*)\]"
_URL = re.compile(rf"(?i:https)://(?:{_HOST})(?::(?P<port>[0-9]{{1,5}}))?/?")
_hours_option = click.option(
    "--hours",
    default=24.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="How long a claim can be used.",
)


def _url_for_devices(_context: click.Context, _option: click.Parameter, url: str) -> str:
    """An address that goes into a claim: a device that cannot use it would have to be visited."""
    if not url:
        return ""
    shaped = _URL.fullmatch(url)  # urlsplit alone leaves out line ends, and an empty query or fragment
    host = shaped["address"] or shaped["name"] if shaped else ""
    numeric = ":" in host or host.rpartition(".")[2].isdigit()
    if not shaped or (numeric and not is_address(host)) or not 0 < int(shaped["port"] or 443) < 2**16:
        msg = f"expected https://NAME or https://NAME:PORT, got {url!r}"
        raise click.BadParameter(msg)
    return url.removesuffix("/")


@click.group("enrol-token")
def enrol_token() -> None:
    """Claims: secrets that let devices enrol; a device's card carries one."""


@enrol_token.command()
@answer_options
@click.argument("name")
@click.option("--device", default="", help="Name of the one device that it is for.")
@click.option("--prefix", default="device", show_default=True, help="Of the names of its devices, without --device.")
@click.option("--uses", default=1, show_default=True, type=click.IntRange(1, 100_000), help="Devices that it lets in.")
@_hours_option
@click.option("--approval", is_flag=True, help="A person lets each device in: 'enrolment approve'.")
@click.option("--label", "labels", multiple=True, help="Of the devices that it lets in. Again for more.")
@click.option("--url", default="", callback=_url_for_devices, help="Where devices find it; empty: by its first name.")
@click.option("--out", type=click.Path(path_type=Path), help="File for the card; nobody else may read it.")
@click.option("--qr", is_flag=True, help="Print it as a QR code, too.")
def create(
    config: CoordinatorConfig,
    name: str,
    device: str,
    prefix: str,
    uses: int,
    hours: float,
    labels: tuple[str, ...],
    url: str,
    out: Path | None,
    *,
    as_json: bool,
    approval: bool,
    qr: bool,
) -> None:
    """Create a claim; its secret text is shown only once, and with --out it is only in that file."""
    wanted = {"name": name, "hours": hours, "device": device, "prefix": prefix, "uses": uses, "approval": approval}
    wanted["labels"] = labels
    with _secret_file(out) as write:  # opened first: no claim may be made that cannot be written
        made = msgspec.convert(ask_service(config, "POST", "/claims", wanted), ClaimMade)
        if url:
            made = structs.replace(made, url=url)
        file = carried(made)
        write(file)
    _warn_if_loopback(made.url, "set enrolment.names in the configuration, or give --url")
    if qr:
        click.echo(_qr_code(file), err=as_json)
    if out is not None:
        made = structs.replace(made, claim=f"in {out}")
    show(made, ("name", "claim", "for", "until"), [(name, made.claim, made.url, when(made.expires_s))], as_json=as_json)


@enrol_token.command()
@answer_options
@click.argument("cards_path", metavar="CARDS", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder for the claims, HOSTNAME.json.")
@_hours_option
def cards(config: CoordinatorConfig, cards_path: Path, out: Path, hours: float, *, as_json: bool) -> None:
    """Create a claim for each line of a list of cards; those in --out are kept.

    CARDS is a CSV file with a column 'hostname', and perhaps a column 'labels', separated by spaces.
    """
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    listed = _listed(cards_path)
    for name in listed:
        path = out / f"{name}.json"
        if path.is_file() and not path.stat().st_size:
            path.unlink()  # left by a killed command: a card with it would need a visit
    made, urls = [name for name in listed if not (out / f"{name}.json").exists()], set()
    for name in made:
        wanted = {"name": f"card-{name}", "hours": hours, "device": name, "labels": listed[name]}
        with _secret_file(out / f"{name}.json") as write:
            claim = msgspec.convert(ask_service(config, "POST", "/claims", wanted), ClaimMade)
            write(carried(claim))
        urls.add(claim.url)
    for url in urls:
        _warn_if_loopback(url, "set enrolment.names in the configuration, delete the files, and make them anew")
    cells = [(f"card-{name}", str(out / f"{name}.json"), "made" if name in made else "kept") for name in listed]
    show({"made": made}, ("claim", "in", ""), cells, as_json=as_json)


def _warn_if_loopback(url: str, remedy: str) -> None:
    if is_loopback(urlsplit(url).hostname or ""):
        click.echo(
            f"warning: no other machine reaches {url}, the address that devices get: {remedy}",
            err=True,
        )


def _listed(path: Path) -> dict[str, list[str]]:
    """The devices of a list of cards, with their labels."""
    expected = f"{path}: expected a CSV file whose column 'hostname' names each device"
    try:
        with rewording(ConfigError, expected), path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
        names = [device_id((row.get("hostname") or "").strip()) for row in rows]
    except (UnicodeDecodeError, csv.Error, RemoteProtocolError) as error:
        msg = f"{expected}: {error}"
        raise ConfigError(msg) from error
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        msg = f"{expected}, once: {', '.join(twice[:5])} stands in several lines"
        raise ConfigError(msg)
    return {name: (row.get("labels") or "").split() for name, row in zip(names, rows, strict=True)}


@enrol_token.command("list")
@answer_options
def list_claims(config: CoordinatorConfig, *, as_json: bool) -> None:
    """List all claims, without their secret text."""
    claims = ask_service(config, "GET", "/claims")["items"]
    cells = [
        (
            each["name"],
            each["device"] or f"{each['prefix']}-...",
            f"{each['uses_left']} of {each['uses']}",
            "by hand" if each["approval"] else "by itself",
            when(each["expires_s"]),
        )
        for each in claims
    ]
    show(claims, ("name", "devices", "left", "let in", "until"), cells, as_json=as_json)


@enrol_token.command()
@answer_options
@click.argument("name", callback=checked_as(TokenName))
@irreversible("Revoke the claim {name}?")
def revoke(config: CoordinatorConfig, name: str, *, as_json: bool) -> None:
    """Revoke a claim at once; devices that it enrolled stay enrolled."""
    ask_service(config, "DELETE", f"/claims/{name}")
    show({"revoked": name}, ("revoked",), [(name,)], as_json=as_json)


@click.group()
def enrolment() -> None:
    """Keys of devices: list, approve and refuse them."""


@enrolment.command("list")
@answer_options
def list_keys(config: CoordinatorConfig, *, as_json: bool) -> None:
    """List the newest keys, newest first."""
    keys = ask_service(config, "GET", "/enrolments")["items"]
    cells = [
        (k["device"], k["standing"], k["claim"] or "(renewal)", k["address"], when(k["expires_s"]), k["key"][:16])
        for k in keys
    ]
    show(keys, ("device", "", "claim", "from", "until", "key"), cells, as_json=as_json)


@enrolment.command()
@answer_options
@click.argument("key", callback=checked_as(Name))
def approve(config: CoordinatorConfig, key: str, *, as_json: bool) -> None:
    """Approve a waiting device; KEY is what 'enrolment list' shows, or the device's name."""
    change(config, f"/enrolments/{_waiting(config, key)}/approve", {}, f"{key} is let in", as_json=as_json)


@enrolment.command()
@answer_options
@click.argument("key", callback=checked_as(Name))
@irreversible("Refuse {key}? It comes back only with a new claim.")
def refuse(config: CoordinatorConfig, key: str, *, as_json: bool) -> None:
    """Refuse a waiting device; KEY is what 'enrolment list' shows, or the device's name."""
    change(config, f"/enrolments/{_waiting(config, key)}/refuse", {}, f"{key} is refused for good", as_json=as_json)


def _waiting(config: CoordinatorConfig, key: str) -> str:
    held = ask_service(config, "GET", "/enrolments")["items"]
    fitting = [
        each["key"]
        for each in held
        if each["standing"] == "waiting" and (each["device"] == key or each["key"].startswith(key))
    ]
    if len(fitting) != 1:
        msg = f"expected the key of one device that waits, {len(fitting)} fit {key!r}; 'enrolment list' shows them"
        raise ConfigError(msg)
    return str(fitting[0])


@contextlib.contextmanager
def _secret_file(path: Path | None) -> Iterator[Callable[[bytes], object]]:
    """A new file that only its owner may read, to be written once; deleted if the block fails."""
    if path is None:
        yield len
        return
    with rewording(ConfigError, f"{path} cannot be written", "no claim was made"):
        descriptor = create_for_owner(path)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file.write
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _qr_code(data: bytes) -> str:
    drawn = io.StringIO()
    segno.make(data, error="l", micro=False).terminal(out=drawn, compact=True)
    return drawn.getvalue()
