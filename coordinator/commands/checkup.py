"""The checks of ``doctor``: what may be wrong on a coordinator's machine; each finding has a remedy.

Read-only: nothing is changed, no port stays in use, and the service may be running.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import urllib3

from nightjar.coordinator.commands.stored import opened, opened_artifacts, why_distrusted
from nightjar.coordinator.config import BrokerKind, CoordinatorConfig
from nightjar.coordinator.engine.clock import REMEDY, WallClock
from nightjar.coordinator.mqtt.broker import EXTERNAL, MOSQUITTO, choose
from nightjar.coordinator.mqtt.listeners import check_port_free
from nightjar.coordinator.storage.backup import missing
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.disk_use import SCARCE_BYTES, DiskPoint, forecast_of
from nightjar.coordinator.storage.engine import database_file, database_url
from nightjar.coordinator.storage.model_folder import check_model
from nightjar.coordinator.storage.release_metadata import expiries
from nightjar.coordinator.storage.signed_programs import signed_program_in
from nightjar.coordinator.tasks.task import OVER
from nightjar.coordinator.tls.contexts import http_pool
from nightjar.host.children import python_command
from nightjar.host.sizes import size_text
from nightjar.host.system_clock import read_clock
from nightjar.host.trusted_time import in_utc
from nightjar.models.child_environment import child_environment
from nightjar.models.manifest import Manifest
from nightjar.models.packaged import packaged_program
from nightjar.models.signed_programs import SIGNATURE_FILE
from nightjar.wire.errors import ConfigError, NightjarError, RemoteProtocolError, UnavailableError

LEAST_DAYS = 30
"""Life of the releases' offline metadata below which ``doctor`` warns: their keepers have to meet."""
_TENSORFLOW_TIMEOUT_S = 120
_ANSWER_TIMEOUT_S = 5


class CheckupFinding(msgspec.Struct, frozen=True):
    """Result of one check."""

    category: str  # the subject of the check
    level: str  # ok, warning or fault
    found: str  # what was found
    remedy: str = ""  # what to do; empty if nothing is wrong


def graded(category: str, level: str, found: str, remedy: str) -> CheckupFinding:
    """A finding whose remedy counts only if something is wrong."""
    return CheckupFinding(category, level, found, "" if level == "ok" else remedy)


def check_up(config: CoordinatorConfig) -> Iterator[CheckupFinding]:
    """Run all checks in order; the last one takes seconds."""
    running = _answers(config)
    yield from _storage(config)
    yield (clock := _clock(config))
    yield from _model(config)
    yield from _programs(config)
    if clock.level == "ok":  # else every release seems to have expired, or none
        yield from _releases(config)
    yield _web(config, running)
    yield from _broker(config, running=running is not None)
    yield _tensorflow(config)


def _storage(config: CoordinatorConfig) -> Iterator[CheckupFinding]:
    folder = config.data_dir
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if os.access(existing, os.W_OK | os.X_OK):
        yield CheckupFinding("storage", "ok", f"{folder} can be written")
    else:
        yield CheckupFinding("storage", "fault", f"{existing} cannot be written", "chown it, or set another data_dir")
    yield _space(config) if folder.is_dir() else free_space("storage", existing)
    if config.database_url:
        yield _postgresql(config)
        return
    if not database_file(folder).is_file():
        yield CheckupFinding("database", "ok", "none yet; 'serve' makes it")
        return
    try:
        lacking = missing(folder)
    except NightjarError as error:
        yield CheckupFinding("database", "fault", str(error), "see the message; a backup can be restored")
        return
    if lacking:
        found = f"{len(lacking)} blobs are missing or damaged, such as {lacking[0]}"
        yield CheckupFinding("database", "fault", found, "restore a backup")
    else:
        yield CheckupFinding("database", "ok", f"{database_file(folder)}, and every blob that it needs")


def _clock(config: CoordinatorConfig) -> CheckupFinding:
    """Whether the service would trust this machine's clock."""
    reading = read_clock()
    try:
        why = why_distrusted(config, reading)
    except NightjarError:
        why = ""  # the checks of the database say what is wrong
    return graded("clock", "warning" if why else "ok", why or in_utc(reading.wall_s), REMEDY)


def _space(config: CoordinatorConfig) -> CheckupFinding:
    """What the data folder takes, and how it grows as the service has measured it."""
    points: tuple[DiskPoint, ...] = ()
    try:
        with opened(config) as database, database.transaction() as view:
            points = view.disk_points()
    except NightjarError:
        pass  # the checks of the database say so
    try:
        found = forecast_of(config.data_dir, points, WallClock().now_s())
    except UnavailableError as error:
        return CheckupFinding("storage", "fault", str(error), "see the message")
    remedy = "keep less ([retention]), free some space, or give it a larger disk"
    return graded("storage", "warning" if found.scarce else "ok", f"{config.data_dir}: {found.in_words()}", remedy)


def free_space(category: str, folder: Path) -> CheckupFinding:
    """Whether the disk of a folder has room."""
    free = shutil.disk_usage(folder).free
    level, found = "warning" if free < SCARCE_BYTES else "ok", f"{size_text(free)} free in {folder}"
    return graded(category, level, found, "free some space, or set another data_dir")


def _postgresql(config: CoordinatorConfig) -> CheckupFinding:
    try:
        Database(database_url(config), migrate=False).close()
    except NightjarError as error:
        remedy = (
            "check database_url, and that the server runs; 'nightjar-coordinator serve' brings its tables up to date"
        )
        return CheckupFinding("database", "fault", str(error), remedy)
    return CheckupFinding("database", "ok", "PostgreSQL answers, and its tables are up to date")


def _model(config: CoordinatorConfig) -> Iterator[CheckupFinding]:
    try:
        manifest = check_model(config.task.model)
    except ConfigError as error:
        yield CheckupFinding(
            "model", "fault", str(error), "export the model again: python -m nightjar.models export --help"
        )
    else:
        yield CheckupFinding("model", "ok", f"{manifest.configuration}, {manifest.layout.size:,} parameters")
    if config.task.evaluation_text is None:
        remedy = "set task.evaluation_text, or export the model again for the text that comes with it"
        yield CheckupFinding(
            "model", "warning", "no held-out text, or no TensorFlow: versions are not measured", remedy
        )


def _programs(config: CoordinatorConfig) -> Iterator[CheckupFinding]:
    """Whether devices compute the programs of the tasks that are not over, and of the model folder before the first."""
    found: dict[str, tuple[Manifest, bool]] = {}
    try:
        manifest = check_model(config.task.model)
        found[config.task.name] = manifest, signed_program_in(config.task.model) is not None
    except ConfigError as error:
        if SIGNATURE_FILE in str(error):
            yield CheckupFinding("program", "fault", str(error), _sign(config.task.model))
    try:
        with opened(config) as database, opened_artifacts(config) as artifacts, database.transaction() as view:
            signed = view.signed_programs()
            for record in view.tasks():
                version = view.current_version(record.name)
                if version is not None and record.state.status not in OVER:
                    manifest = Manifest.decode(artifacts.get(version.manifest))
                    found[record.name] = manifest, manifest.program.sha256 in signed
    except NightjarError:
        pass  # the checks of the database say so, or there is none yet
    for task, (manifest, owners) in found.items():
        yield _program(task, manifest, config.task.model, owners=owners)


def _program(task: str, manifest: Manifest, folder: Path, *, owners: bool) -> CheckupFinding:
    """Whether devices compute the program of a task; ``owners`` tells whether there is a signature of one."""
    try:
        packaged = packaged_program(manifest)
    except RemoteProtocolError as error:
        return CheckupFinding("program", "fault", f"task {task}: {error}", "export the model again")
    if packaged is not None:
        return CheckupFinding("program", "ok", f"task {task}: {packaged.file_name}, which comes with the agent")
    if owners:
        whose = "signed; devices compute it if their owner's key signed it"
        return CheckupFinding("program", "ok", f"task {task}: {manifest.program.sha256[:12]}, {whose}")
    why = f"task {task}: {manifest.program.sha256[:12]} neither comes with the agent nor is signed: devices refuse it"
    return CheckupFinding("program", "warning", why, _sign(folder))


def _sign(folder: Path) -> str:
    return f"nightjar-firmware keys sign KEYS {folder} (docs/device.md), and start the coordinator again"


def _releases(config: CoordinatorConfig) -> Iterator[CheckupFinding]:
    try:
        with opened(config) as database, opened_artifacts(config) as artifacts:
            with database.transaction() as view:
                files = view.release_files()
            until = expiries(files, artifacts)
    except ConfigError:
        return  # said of the database, or there is none yet
    except NightjarError as error:
        yield CheckupFinding("releases", "fault", str(error), "see the message; a backup can be restored")
        return
    for role, until_s in until.items():
        days = (until_s - WallClock().now_s()) / 86400
        level = "ok" if days > LEAST_DAYS else "warning" if days > 0 else "fault"
        remedy = f"nightjar-firmware keys renew, then 'release add --metadata' ({role}; docs/releases.md)"
        yield CheckupFinding("releases", level, f"{role} of the agent's releases expires in {days:.0f} days", remedy)


def _answers(config: CoordinatorConfig) -> list[str] | None:
    """Troubles reported by the coordinator that runs on our port; None if none is running."""
    try:
        with http_pool(config) as pool:
            body = pool.request("GET", f"{config.url}/healthz", timeout=_ANSWER_TIMEOUT_S, retries=False).data
    except (urllib3.exceptions.HTTPError, UnavailableError):
        return None
    try:
        return [str(reason) for reason in json.loads(body)["reasons"]]
    except (ValueError, KeyError, TypeError):
        return None


def _web(config: CoordinatorConfig, running: list[str] | None) -> CheckupFinding:
    where = f"{config.host} port {config.port}"
    if running is None:
        try:
            check_port_free(config.host, config.port, "port", "stop what listens there, or set another port")
        except ConfigError as error:
            return CheckupFinding("web", "fault", str(error), "stop what listens there, or set another port")
        return CheckupFinding("web", "ok", f"{where} is free; no coordinator is running there")
    if running:
        return CheckupFinding("web", "fault", f"the coordinator on {where} says: {'; '.join(running)}", "read its log")
    return CheckupFinding("web", "ok", f"a coordinator answers on {where}, and is well")


def _broker(config: CoordinatorConfig, *, running: bool) -> Iterator[CheckupFinding]:
    broker = config.broker
    try:
        name = choose(broker.kind)
    except ConfigError as error:
        yield CheckupFinding("broker", "fault", str(error), "apt install mosquitto")
        return
    where = f"{broker.host} port {broker.port}"
    if name not in {MOSQUITTO, EXTERNAL}:
        remedy = "apt install mosquitto, for more than about 1,000 devices and for sessions that survive a restart"
        yield CheckupFinding("broker", "warning", "mosquitto is not installed; the embedded broker is used", remedy)
    if broker.kind is BrokerKind.EXTERNAL or running:
        try:
            socket.create_connection((broker.host, broker.port), timeout=_ANSWER_TIMEOUT_S).close()
        except OSError as error:
            remedy = "start the broker, or set broker.host and broker.port"
            yield CheckupFinding("broker", "fault", f"nothing answers at {where}: {error.strerror or error}", remedy)
        else:
            yield CheckupFinding("broker", "ok", f"{name} answers at {where}")
        return
    try:
        check_port_free(broker.host, broker.port, "broker.port", "set another port")
    except ConfigError as error:
        yield CheckupFinding("broker", "fault", str(error), "stop the other broker, or use kind 'external'")
    else:
        yield CheckupFinding("broker", "ok", f"{name} would listen on {where}")


def _tensorflow(config: CoordinatorConfig) -> CheckupFinding:
    """Whether TensorFlow can be imported and sees a GPU; checked in a separate process, as the worker uses it."""
    look = "import tensorflow as tf; print(tf.__version__, len(tf.config.list_physical_devices('GPU')))"
    try:
        child = subprocess.run(  # noqa: S603 - our own interpreter
            python_command("-c", look),
            capture_output=True,
            text=True,
            timeout=_TENSORFLOW_TIMEOUT_S,
            check=True,
            env=child_environment(os.environ),
        )
        version, gpus = child.stdout.split()[-2:]
    except (OSError, subprocess.SubprocessError, ValueError):
        level = "warning" if config.task.evaluation_text is None else "fault"
        return CheckupFinding("tensorflow", level, "cannot be imported; versions are not measured", "make setup")
    return CheckupFinding("tensorflow", "ok", f"{version} can be imported; GPUs that it sees: {gpus}")
