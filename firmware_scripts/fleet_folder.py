"""Makes the folder of a new fleet, step by step; a step whose result is there is not done again.

::

    fleet.toml                 the answers
    fleet.key, fleet.pub       the key that signs bundles, and its public half
    tuf/                       the keys and metadata of releases over the air
    coordinator.toml, ...      the coordinator's settings, signing key and recovery key
    model/                     the first model
    nightjar-*.tar             the agent with its packages
    agent.toml                 the settings that all devices share
    claims/NAME.json           what each device enrols with, once
    claims-until.json          until when each of them can be used
    wifi-key.json              the key of the devices' Wi-Fi, made of its phrase
    cards.csv                  the list of cards

The coordinator is run as its own program: this package does not import it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from nightjar.firmware_scripts.bundle.signing import make_key
from nightjar.firmware_scripts.core.fleet_plan import (
    BOARDS,
    FleetPlan,
    agent_settings_text,
    cards_text,
    coordinator_settings,
    plan_text,
    read_plan,
)
from nightjar.firmware_scripts.release_keys import ROOT_FILE, THRESHOLDS, make_repository
from nightjar.host.children import python_command
from nightjar.host.files import replace_file
from nightjar.wire.errors import ConfigError, UnavailableError

PLAN, CONFIG, AGENT, CARDS = "fleet.toml", "coordinator.toml", "agent.toml", "cards.csv"
MODEL, CLAIMS, TUF = "model", "claims", "tuf"
KEY, PUBLIC_KEY, SSH_KEY = "fleet.key", "fleet.pub", "ssh.pub"
CLAIMS_UNTIL, WIFI_KEY = "claims-until.json", "wifi-key.json"
CLAIM_HOURS = 14 * 24.0
"""Two weeks to write the cards; a claim is for one device, and wiped once used."""
_START_S = 120.0
_UNAVAILABLE = 3

Tell = Callable[[str], None]


def held_plan(folder: Path) -> FleetPlan | None:
    """The answers that a folder holds; None if it holds none.

    Raises:
        ConfigError: they cannot be read.
    """
    path = folder / PLAN
    try:
        return read_plan(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{path} cannot be read: {error}"
        raise ConfigError(msg) from error


def bundle_in(folder: Path, plan: FleetPlan) -> Path | None:
    """The fleet's newest bundle; None if there is none."""
    found = folder.glob(f"nightjar-*-{BOARDS[plan.board].platform}.tar")
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def held_wifi_key(folder: Path, ssid: str) -> str | None:
    """The key of this Wi-Fi that a fleet's folder keeps, as 64 hexadecimal digits; None if it keeps none.

    Raises:
        ConfigError: the file cannot be read.
    """
    held = _read_json(folder / WIFI_KEY)
    key = held.get("key")
    return key if held.get("ssid") == ssid and isinstance(key, str) else None


def claims_until(folder: Path) -> dict[str, float]:
    """Until when each claim of a fleet can be used, in seconds since 1970, by host name, as far as it is known.

    Raises:
        ConfigError: the file cannot be read.
    """
    held = _read_json(folder / CLAIMS_UNTIL)
    return {name: float(until) for name, until in held.items() if isinstance(until, int | float)}


def _read_json(path: Path) -> dict[str, object]:
    try:
        held = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        msg = f"{path} cannot be read: {error}"
        raise ConfigError(msg) from error
    return held if isinstance(held, dict) else {}


def make_fleet(folder: Path, plan: FleetPlan, ssh_key: str, wifi_key: str | None, model: str, tell: Tell) -> None:
    """Make what is missing in a fleet's folder.

    ``ssh_key`` holds public keys, and is empty if nobody may log in; ``wifi_key`` is that of the plan's Wi-Fi, and None
    if it is not to be kept; ``model`` is the size of the first model. ``tell`` receives a line before each step.

    Raises:
        ConfigError: a step cannot be done with these answers.
        UnavailableError: a step failed for now; the next run goes on from there.
    """
    if find_spec("sqlalchemy") is None or find_spec("tensorflow") is None:
        msg = "the coordinator's packages are not installed here: pip install 'nightjar-federated[coordinator]'"
        raise ConfigError(msg)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(folder / PLAN, plan_text(plan).encode())
    for name, text in ((SSH_KEY, ssh_key), (AGENT, agent_settings_text(plan)), (CARDS, cards_text(plan))):
        if text and not (folder / name).exists():
            replace_file(folder / name, text.encode())
    if wifi_key is not None:
        replace_file(folder / WIFI_KEY, json.dumps({"ssid": plan.wifi, "key": wifi_key}).encode() + b"\n")
    if not (folder / KEY).exists():
        tell(f"{KEY}: the key that signs what devices install")
        make_key(folder / KEY, folder / PUBLIC_KEY)
    if not (folder / TUF).exists():
        tell(f"{TUF}: the keys of releases over the air")
        shutil.rmtree(folder / f".{TUF}", ignore_errors=True)  # of an interrupted run
        make_repository(folder / f".{TUF}", THRESHOLDS, datetime.now(UTC))
        (folder / f".{TUF}").rename(folder / TUF)
    if not (folder / CONFIG).exists():
        tell(f"{CONFIG}: the coordinator's settings and keys")
        values = [f"--set={name}={json.dumps(value)}" for name, value in coordinator_settings(plan).items()]
        options = ("--model=none", f"--fleet={plan.size}")
        _run(folder, "nightjar.coordinator", "init", *options, str(folder / CONFIG), *values)
    if not (folder / MODEL).exists():
        tell(f"{MODEL}: the first model, pre-trained on public text")
        _run(folder, "nightjar.models", "export", "--model", model, "--out", str(folder / MODEL))
    if bundle_in(folder, plan) is None:
        tell(f"the agent for {plan.board}, with its packages (minutes)")
        bundled = ("--platform", BOARDS[plan.board].platform, "--key", str(folder / KEY), "--output", str(folder))
        root = f"{ROOT_FILE}={folder / TUF}/metadata/1.{ROOT_FILE}"
        _run(folder, "nightjar.firmware_scripts", "bundle", *bundled, "--include", root)
    made = all((folder / CLAIMS / f"{name}.json").exists() for name in plan.hostnames())
    if not made or not (folder / CLAIMS_UNTIL).exists():
        tell(f"{CLAIMS}: one for each of {plan.devices} devices, from the coordinator, which is started for that")
        _make_claims(folder)


def _make_claims(folder: Path) -> None:
    config = ("--config", str(folder / CONFIG))
    ask = ("enrol-token", "cards", str(folder / CARDS), *config, "--out", str(folder / CLAIMS))
    with tempfile.TemporaryFile() as log:
        command = python_command("-m", "nightjar.coordinator", "serve", *config)
        service = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603 - our own program
        try:
            deadline = time.monotonic() + _START_S
            while (done := _done("nightjar.coordinator", *ask, "--hours", str(CLAIM_HOURS))).returncode != 0:
                starting = service.poll() is None and time.monotonic() < deadline
                # Until the service has made its database and the tables in it, a command says to run 'serve'.
                if not starting or (done.returncode != _UNAVAILABLE and "serve'" not in done.stderr):
                    log.seek(0)
                    said = log.read().decode(errors="replace") if service.poll() is not None else done.stderr
                    msg = f"the coordinator made no claims; edit {folder / CONFIG} and try again:\n{said[-2_000:]}"
                    raise UnavailableError(msg)
                time.sleep(0.5)
            _note_claims(folder, config)
        finally:
            service.send_signal(signal.SIGTERM)
            service.wait(60)


def _note_claims(folder: Path, config: Sequence[str]) -> None:
    """Note until when the claims can be used; the files themselves do not say it."""
    listed = _done("nightjar.coordinator", "enrol-token", "list", *config, "--json")
    if listed.returncode == 0:
        until = claims_until(folder)
        until |= {each["device"]: each["expires_s"] for each in json.loads(listed.stdout) if each["device"]}
        replace_file(folder / CLAIMS_UNTIL, (json.dumps(until, indent=2) + "\n").encode())


def _run(folder: Path, module: str, *arguments: str) -> None:
    done = _done(module, *arguments)
    if done.returncode:
        msg = (
            f"{' '.join((module, *arguments))} failed; run 'new-fleet {folder}' again to go on:\n{done.stderr[-2_000:]}"
        )
        raise UnavailableError(msg)


def _done(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command: Sequence[str] = python_command("-m", module, *arguments)
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)  # noqa: S603 - our own program
