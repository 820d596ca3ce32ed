"""The command ``model``: inspects, measures, promotes, rolls back and exports versions, and manages the signing key.

Inspection needs only the database, not the running service. Work that needs TensorFlow runs in a separate process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
from itertools import islice, takewhile
from pathlib import Path

import click
import msgspec

from nightjar.coordinator import __version__
from nightjar.coordinator.commands.console import flat, show, when
from nightjar.coordinator.commands.options import MOST_NUMBER, answer_options, irreversible, limit_option
from nightjar.coordinator.commands.service_call import change, reason_option
from nightjar.coordinator.commands.stored import noted, opened, opened_artifacts
from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.engine.clock import WallClock
from nightjar.coordinator.engine.worker import Stores, do_once
from nightjar.coordinator.records.jobs import EvaluationJob, JobFailed
from nightjar.coordinator.records.versions import VersionRecord, ancestors
from nightjar.coordinator.storage.artifacts import ARTIFACTS
from nightjar.coordinator.storage.baselines import KeptBaselines, compared
from nightjar.coordinator.storage.engine import database_url
from nightjar.coordinator.storage.lock import only_one
from nightjar.coordinator.storage.model_folder import export_version
from nightjar.coordinator.storage.signing_key import change_key, load_signer, read_key
from nightjar.coordinator.tasks.task import TaskStatus
from nightjar.coordinator.versions.retention import without_files
from nightjar.coordinator.views.rows import VersionDetail, version_detail
from nightjar.coordinator.views.words import nats, percent, points
from nightjar.host.children import python_command
from nightjar.models.baselines import CENTRAL_TRAINING, Baselines
from nightjar.models.child_environment import child_environment
from nightjar.models.exchange import FORMATS, NEED_TENSORFLOW, exchange
from nightjar.models.folder import HELD_OUT
from nightjar.models.manifest import Manifest
from nightjar.models.task_types import figure_names
from nightjar.wire.errors import ConfigError, UnavailableError
from nightjar.wire.identifiers import Population
from nightjar.wire.messages import Work

FOLDER = "folder"
_CONVERSION_TIMEOUT_S = 600.0
_TRAINING_TIMEOUT_S = 86400.0
_COLUMNS = ("version", "task", "stage", "saved", "on devices", "top-1", "loss (nats)", "made", "why it is there")
_FIGURES = {"top1": percent, "top3": percent, "loss": nats}
"""A figure -> what writes it for people."""

_version = click.argument("version", type=click.IntRange(0, MOST_NUMBER))


@click.group("model")
def models() -> None:
    """Versions of the model: list, show, evaluate, promote, roll back, export."""


@models.command("list")
@answer_options
@limit_option
def list_versions(config: CoordinatorConfig, limit: int, *, as_json: bool) -> None:
    """List the newest versions, each with its stage and its figures.

    "Saved" is what keyboards on devices save of the keystrokes, with its standard error; "on devices" is the top-1
    share there, and "top-1" that on held-out examples.
    """
    with opened(config) as database, database.transaction() as view:
        details = [version_detail(record, view.federated(record.version)) for record in view.versions(limit)]
    show(details, _COLUMNS, [_cells(each) for each in details], as_json=as_json)


@models.command("show")
@answer_options
@_version
def show_version(config: CoordinatorConfig, version: int, *, as_json: bool) -> None:
    """Show one version: its lineage, its metrics, and its stage with the reason for it."""
    record = _found(config, version)
    with opened(config) as database, database.transaction() as view:
        detail = version_detail(record, view.federated(version))
    fields = msgspec.to_builtins(detail) | {"created": when(detail.created), "since": when(detail.since)}
    fields |= {name: written(fields[name]) for name, written in _FIGURES.items() if fields[name] is not None}
    show(detail, ("what", "value"), flat(fields), as_json=as_json)


@models.command()
@answer_options
@_version
@click.option("--text", type=click.Path(path_type=Path), help="Corpus file (user, text); else task.evaluation_text.")
def evaluate(config: CoordinatorConfig, version: int, text: Path | None, *, as_json: bool) -> None:
    """Measure a version on held-out text; nothing is stored."""
    chosen = text or config.task.evaluation_text
    if chosen is None or not chosen.is_file():
        got = "none" if chosen is None else f"{chosen}, which is no file"
        msg = f"expected a corpus file to measure on, got {got}: give --text, or set task.evaluation_text"
        raise ConfigError(msg)
    job = EvaluationJob(version, _with_files(config, version).manifest, str(chosen.absolute()))
    stores = Stores(
        artifacts=str(config.data_dir / ARTIFACTS),
        artifacts_url=config.artifacts_url,
        database_url=database_url(config),
    )
    done = do_once(job, stores)
    if isinstance(done, JobFailed):
        raise UnavailableError(done.reason)
    known = msgspec.to_builtins(done)
    with opened_artifacts(config) as artifacts:
        manifest = Manifest.decode(artifacts.get(job.manifest))
    names = (*figure_names(manifest.task_type), "loss")
    measured = zip(names, _FIGURES.items(), strict=True)
    figures = [(name, written(known["metrics"][key])) for name, (key, written) in measured]
    show(known, ("what", "value"), [("text", chosen), *figures], as_json=as_json)


@models.command()
@answer_options
@click.option("--corpus", required=True, help="Text to train on: a corpus file (user, text), personas, or pydoc.")
@click.option("--epochs", default=10, show_default=True, type=click.IntRange(1, 1000), help="Passes over the corpus.")
def baseline(config: CoordinatorConfig, corpus: str, epochs: int, *, as_json: bool) -> None:
    """Measure the baselines for versions: a trigram model, and task.model trained centrally.

    Takes minutes, and may run beside the service. The pages show the result, which replaces earlier measurements.
    """
    task = config.task
    if task.evaluation_text is None:
        msg = "expected a text to measure on: set task.evaluation_text"
        raise ConfigError(msg)
    plan = ["--learning-rate", str(task.plan.learning_rate), "--clip-norm", str(task.plan.clip_norm)]
    command = ["baselines", str(task.model), "--corpus", corpus, "--text", str(task.evaluation_text), *plan]
    output = _child([*command, "--epochs", str(epochs), "--seed", str(config.seed)])
    measured = msgspec.json.decode(output, type=Baselines)
    kept = KeptBaselines(measured=measured, made_s=WallClock().now_s(), code_version=__version__)
    with opened(config) as database, database.transaction() as tx:
        former = tx.baselines()
        before = "none" if former is None else _recalls(former.measured)
        tx.save_baselines(kept)
        tx.add_audit(noted("measure-baselines", task.name, before, _recalls(measured)))
    rows = [(c.label, percent(c.top1), percent(c.top3), nats(c.loss), c.source) for c in compared(task, kept)]
    show(kept, ("", "top-1", "top-3", "loss (nats)", "how"), rows, as_json=as_json)


@models.command()
@answer_options
@_version
@reason_option
def promote(config: CoordinatorConfig, version: int, reason: str, *, as_json: bool) -> None:
    """Give a version to all devices of its task, whatever its stage was before; the service must be running."""
    change(config, f"/versions/{version}/promote", {"reason": reason}, lambda: _out_now(config), as_json=as_json)


@models.command()
@answer_options
@reason_option
@click.option("--to", type=click.IntRange(0), help="The version that devices get instead; else the one before.")
@click.option("--version", type=click.IntRange(0), help="The one to take back; else the canary, or the current one.")
def rollback(config: CoordinatorConfig, reason: str, to: int | None, version: int | None, *, as_json: bool) -> None:
    """Roll back a version: by default the canary if there is one, else the current version."""
    wanted = {"reason": reason, "version": version, "to": to}
    body = {name: value for name, value in wanted.items() if value is not None}
    change(config, "/versions/rollback", body, lambda: _out_now(config), as_json=as_json)


def _out_now(config: CoordinatorConfig) -> str:
    """Which version the devices of each task get, which is tried as a canary, and which rounds train from."""
    said = []
    with opened(config) as database, database.transaction() as view:
        for record in view.tasks():
            current, canary = view.current_version(record.name), view.canary_version(record.name)
            if current is not None and record.state.status is TaskStatus.STOPPED and record.name != config.task.name:
                said.append(f"no device gets version {current.version} of {record.name}, which was stopped for good")
            elif current is not None and record.settings.kind is Work.TRAIN:
                tried = "" if canary is None else f", and version {canary.version} is tried by a share of them"
                training = view.training_version(record.name)
                trained = "" if training is None else f"; rounds train from version {training.version}"
                said.append(f"devices get version {current.version} of {record.name}{tried}{trained}")
    return "\n".join(said)


@models.command("export")
@answer_options
@_version
@click.option("--to", "form", default=FOLDER, show_default=True, type=click.Choice([FOLDER, *FORMATS]), help="Format.")
@click.option("--average", default=1, show_default=True, type=click.IntRange(1), help="Mean of so many last versions.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder or file that is written.")
def export(config: CoordinatorConfig, version: int, form: str, average: int, out: Path, *, as_json: bool) -> None:
    """Export a version as a model folder, safetensors, a SavedModel, or an int8 .tflite for inference.

    With --average the weights are the mean of the version's and of those that it was trained from. A model folder can
    become the first version of another coordinator (task.model).
    """
    record = _with_files(config, version)
    before = [each.manifest for each in _ancestors(config, record, average - 1)]
    if out.is_file() or (out.is_dir() and any(out.iterdir())):
        msg = f"--out {out} is there already, and nothing is written over it: give another name"
        raise ConfigError(msg)
    if form == FOLDER:
        with opened_artifacts(config) as artifacts:
            manifest = export_version(record.manifest, artifacts, out, before)
        if (config.task.model / HELD_OUT).is_file():
            shutil.copyfile(config.task.model / HELD_OUT, out / HELD_OUT)
        answer = {"version": version, "folder": str(out), "manifest": manifest.sha256}
        show(answer, ("version", "folder"), [(version, out)], as_json=as_json)
        return
    with tempfile.TemporaryDirectory() as folder, opened_artifacts(config) as artifacts:
        export_version(record.manifest, artifacts, Path(folder), before)
        if form in NEED_TENSORFLOW:  # in a child process: it takes half a gigabyte, and its converter may crash
            _child(["exchange", folder, "--to", form, "--out", str(out)], _CONVERSION_TIMEOUT_S)
        else:
            exchange(Path(folder), form, out)
    show({"version": version, "format": form, "path": str(out)}, ("version", "file"), [(version, out)], as_json=as_json)


@models.command()
@answer_options
@click.option("--new", is_flag=True, help="Make another, which devices take on the word of this one.")
@click.option("--recovery", type=click.Path(path_type=Path), help="Recovery key that signs the new one instead.")
@irreversible("Replace the key that signs orders?", only_with="new")
def key(config: CoordinatorConfig, recovery: Path | None, *, new: bool, as_json: bool) -> None:
    """Show the public key of orders, which agents get as coordinator_key; the key is created if there is none."""
    if new:
        with only_one(config.data_dir):
            held = None if recovery is None else read_key(recovery)
            signer = change_key(config.data_dir, Population(config.population), held, WallClock().now_s())
    elif recovery is not None:
        msg = "--recovery signs a new key: give --new, too"
        raise ConfigError(msg)
    else:
        signer = load_signer(config.data_dir)
    answer = {"coordinator_key": signer.public, "recovery_key": signer.recovery}
    show(answer, tuple(answer), [(signer.public, signer.recovery or None)], as_json=as_json)


def _with_files(config: CoordinatorConfig, version: int) -> VersionRecord:
    record = _found(config, version)
    if record.pruned_s is not None:
        raise ConfigError(without_files(version))
    return record


def _found(config: CoordinatorConfig, version: int) -> VersionRecord:
    with opened(config) as database, database.transaction() as view:
        record = view.version(version)
    if record is None:
        msg = f"there is no version {version}; 'model list' shows the newest"
        raise ConfigError(msg)
    return record


def _ancestors(config: CoordinatorConfig, version: VersionRecord, count: int) -> list[VersionRecord]:
    """So many versions that a version was trained from, newest first."""
    with opened(config) as database, database.transaction() as view:
        line = takewhile(lambda each: each.pruned_s is None, ancestors(version, view.version))
        found = list(islice(line, count))
    if len(found) < count:
        most = f"{len(found) + 1}, version {version.version} and those before it"
        msg = f"--average: expected at most {most}, which have files; got {count + 1}"
        raise ConfigError(msg)
    return found


def _recalls(found: Baselines) -> str:
    return f"trigram {percent(found.trigram.top1)}, central {percent(found.central.top1)} of {found.corpus}"


def _cells(row: VersionDetail) -> tuple[object, ...]:
    on_devices = None if row.federated.top1_before is None else row.federated.top1_before.mean
    saved = None if row.federated.saved is None else f"{points(row.federated.saved.mean, row.federated.saved.error)} %"
    figures = saved, percent(on_devices), percent(row.top1), nats(row.loss)
    stage = row.stage if row.pruned is None else f"{row.stage}, no files"
    return row.version, row.task, stage, *figures, when(row.created), row.reason


def _child(arguments: list[str], timeout_s: float = _TRAINING_TIMEOUT_S) -> str:
    """Run ``python -m nightjar.models``; returns its output, and forwards its training progress to standard error."""
    last = ""
    with subprocess.Popen(  # noqa: S603 - our own module
        python_command("-m", "nightjar.models", *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=child_environment(os.environ),
    ) as child:
        watchdog = threading.Timer(timeout_s, child.kill)
        watchdog.start()
        for line in child.stderr or ():
            last = line.strip() or last
            if line.startswith(CENTRAL_TRAINING):
                click.echo(line, nl=False, err=True)
        output = child.stdout.read() if child.stdout else ""  # a single line, so the pipe can buffer it until now
        watchdog.cancel()
    if child.returncode:
        msg = f"it could not be done: {last.removeprefix('error: ')[:300]}"
        raise (ConfigError if child.returncode == ConfigError.exit_status else UnavailableError)(msg)
    return output
