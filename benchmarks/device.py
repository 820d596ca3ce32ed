"""Measures the agent's cost on a device with both runtimes: disk, startup, memory, training step, wasted work.

Each runtime has its own environment, ``.venv-agent-RUNTIME``, which ``scripts/agent_environment.sh`` makes if it is
missing or older than its requirements. If that fails (no network, no Python 3.11), it says why and the runtime is
skipped. Results:

- ``installed_mb``: the packages of the runtime's requirements, and our own code; no test tools.
- ``import_s``: time of all imports of an agent with a keyboard.
- ``idle_rss_mb``, ``idle_pss_mb``: a whole idle agent: enrolled with a coordinator, connected to its broker over TLS,
  its database open, a model loaded and stepped. (Without a keyboard it would load a model only to train.)
- ``idle_keyboard_rss_mb``, ``idle_keyboard_pss_mb``: an idle agent that has fetched the model from the coordinator and
  its suggester, which has suggested words, together.
- ``training_rss_mb``: sum of both and of the training process, which evaluates the keyboard with two versions at the
  end; ``training_pss_mb``: the same, but a page that some share counts once.
- ``train_step_ms``, ``tensorflow_tape_step_ms``: a step of the same model in each, alternately, one thread each.
- ``wasted_batches``: CPU time from an unplug to the end of the training process, in steps.
- ``written_mb_per_report``: ``write_bytes`` of all the agent's processes from one receipt to the next, the most of
  three rounds. An agent with a keyboard fetches the version that came of its last report, as a delta, trains, keeps
  weights of its own, and reports with ``sampled-4`` at 5 %. A tmpfs counts nothing: the repository must lie on a disk.

Memory is in MiB, as the kernel counts it.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import click
import msgspec
import numpy as np
import urllib3
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from nightjar.benchmarks import service
from nightjar.benchmarks.measuring import print_json, show, time_ms
from nightjar.benchmarks.setting import BUILD, setting
from nightjar.coordinator.commands.service_call import ask_service
from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.mqtt.free_ports import free_ports
from nightjar.edge_agent.keyboard.key import headers, served_key
from nightjar.edge_agent.model import Model
from nightjar.host.children import python_command
from nightjar.simulation.demo.configuration import write_toml
from nightjar.simulation.demo.processes import stopping
from nightjar.simulation.demo.trust import enrol_phones

TITLE = "agent on a device, 1.41M parameters, one thread"
REQUIREMENTS = {
    "ai-edge-litert": Path("requirements/agent.txt"),
    "tflite-runtime": Path("requirements/agent-tflite-runtime.txt"),
}
ENVIRONMENT = "scripts/agent_environment.sh"
OWN = ("edge_agent", "wire", "models")
ROUNDS = 40
"""Timed steps of each, after three warm-up steps."""
KINDS = ("plain", "keyboard")
"""Kinds of agents, and their device names."""
CONNECTS_WITHIN_S, SETTLES_S = 300.0, 5.0
REPORTS = 4
"""Reports of the agent whose writing is measured; up to the first, it fetches whole files."""
REPORTS_WITHIN_S = 600.0
REPORTING = {
    "goal": 1,
    "minimum": 1,
    "over_selection": 1.0,
    "selection_deadline_s": 5.0,
    "downlink": "topk-8",
    "codec": {"name": "sampled-4", "density": 0.05},
}
MESSAGES, FEW_WORDS = 2000, 8
AWAKE = {"from_hour": 0, "charging": True, "in_use": False, "wifi": True, "battery": 1.0}


def measure(runtimes: list[str], rounds: int = ROUNDS) -> dict[str, Any]:
    """Results of each runtime, which is a distribution, and the sizes of its packages."""
    at = setting("gboard")
    tape = _tape_step()
    rows, packages = [], {}
    for runtime in runtimes:
        environment = _environment(runtime)
        if environment is None:
            click.echo(f"skipping {runtime}: {ENVIRONMENT} {runtime} could not make its environment", err=True)
            continue
        python = environment / "bin/python"
        packages[runtime] = _installed_mb(environment, REQUIREMENTS[runtime])
        plain, keyboard = _agents(python, at.model)
        written_mb = _written_mb(python, at.model)
        ours_ms, theirs_ms = _in_turn_ms(python, at.model, tape, rounds)
        step_ms = median(ours_ms)
        rows.append(
            {
                "runtime": keyboard["runtime"],
                "installed_mb": sum(packages[runtime].values()),
                "import_s": keyboard["import_s"],
                "idle_rss_mb": plain["idle_rss_mb"],
                "idle_pss_mb": plain["idle_pss_mb"],
                "idle_keyboard_rss_mb": keyboard["idle_rss_mb"],
                "idle_keyboard_pss_mb": keyboard["idle_pss_mb"],
                "training_rss_mb": keyboard["training_rss_mb"],
                "training_pss_mb": keyboard["training_pss_mb"],
                "train_step_ms": step_ms,
                "tensorflow_tape_step_ms": median(theirs_ms),
                "speedup_vs_tensorflow_tape": median([b / a for a, b in zip(ours_ms, theirs_ms, strict=True)]),
                "trainer_peak_rss_mb": keyboard["trainer_peak_rss_mb"],
                "wasted_batches": keyboard["wasted_cpu_ms"] / step_ms,
                "written_mb_per_report": max(written_mb),
            }
        )
    return {"runtimes": rows, "packages_mb": packages}


def _environment(runtime: str) -> Path | None:
    """The folder of the runtime's environment, made if needed; None if that failed, with the reason on stderr."""
    made = subprocess.run([ENVIRONMENT, runtime], stdout=subprocess.PIPE, check=False, text=True)  # noqa: S603 - ourselves
    return Path(made.stdout.strip()) if made.returncode == 0 else None


def _tape_step() -> Any:
    """A function that runs one step of TensorFlow's own training of the same model."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    import tensorflow as tf

    from nightjar.benchmarks.reference_model import ReferenceModel

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    at = setting("gboard")
    shape = (at.configuration.batch_rows, at.configuration.sequence_length)
    batch = np.random.default_rng(7).integers(4, at.vocabulary.size, shape).astype(np.int32)
    reference = ReferenceModel(at.configuration, at.vocabulary.size, at.weights)
    inputs = tf.constant(batch), tf.constant(batch), tf.constant(0.1), tf.constant(1.0)
    return lambda: reference.train(*inputs).numpy()


def _in_turn_ms(python: Path, model: Model, tape: Any, rounds: int) -> tuple[list[float], list[float]]:
    """Times of steps of the runtime, in a child process, and of TensorFlow, in this process, alternately: A B A B."""
    command = python_command(
        "-m", "nightjar.benchmarks.device_child", "steps", str(model.program.parent), python=str(python)
    )
    ours, theirs = [], []
    with subprocess.Popen(  # noqa: S603 - ourselves
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=_one_thread(), text=True
    ) as child:
        if child.stdin is None or child.stdout is None:
            msg = "the child has no pipes"
            raise RuntimeError(msg)
        for _ in range(3 + rounds):
            child.stdin.write("step\n")
            child.stdin.flush()
            ours.append(float(child.stdout.readline()))
            theirs.append(time_ms(tape))
        child.stdin.close()
    return ours[3:], theirs[3:]


def _agents(python: Path, model: Model) -> list[dict[str, Any]]:
    """Results of an agent without and of one with a keyboard, each enrolled with a coordinator of this model."""
    with _coordinator(model, {}, KINDS) as (config, folder):
        return [_agent(python, model, kind, config, folder / kind) for kind in KINDS]


@contextlib.contextmanager
def _coordinator(
    model: Model, task: Mapping[str, Any], devices: Sequence[str]
) -> Iterator[tuple[CoordinatorConfig, Path]]:
    """A coordinator of this model, and the folder with one of each enrolled device."""
    folder = (BUILD / "benchmark-device").absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "model").symlink_to(model.program.parent.absolute())
    path = service.write_configuration(folder, task)
    enrol_phones(path, {device: folder / device / "data" for device in devices})
    serving = service.coordinator(path)
    with stopping([[serving]]):
        yield service.start(serving, path), folder


def _written_mb(python: Path, model: Model) -> list[float]:
    """What an agent with a keyboard writes to the disk from one receipt to the next, MB."""
    (port,) = free_ports(1)
    # So few words that the weights after a session are better than before, and kept.
    words = model.vocabulary.read_text(encoding="utf-8").split()[:FEW_WORDS]
    texts = [
        " ".join(words[at] for at in row) for row in np.random.default_rng(7).integers(FEW_WORDS, size=(MESSAGES, 8))
    ]
    with _coordinator(model, REPORTING, ["reporting"]) as (_, folder):
        home = folder / "reporting"
        (home / "messages.txt").write_text("\n".join(texts))
        day = {"segments": [AWAKE], "jitter_minutes": 0, "interruptions_per_hour": 0}
        table = {
            "data_dir": "data",
            "conditions": {"hysteresis_s": 0.2, "poll_s": 0.1},
            "keyboard": {"enabled": True, "port": port},
            "limits": {"cohort": 1},
            "emulator": {"seed": 7, "messages": "messages.txt", "day": day},
        }
        toml = write_toml(home / "agent.toml", table)
        command = ("-m", "nightjar.benchmarks.device_child", "reports", str(toml), str(REPORTS))
        with (home / "agent.log").open("wb") as log:
            done = subprocess.run(  # noqa: S603 - ourselves
                python_command(*command, python=str(python)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=_one_thread(),
                check=True,
                timeout=REPORTS_WITHIN_S,
            )
    written: list[float] = msgspec.json.decode(done.stdout)["written_mb"]
    return written


def _agent(python: Path, model: Model, kind: str, config: CoordinatorConfig, home: Path) -> dict[str, Any]:
    (port,) = free_ports(1)
    keyboard = kind == "keyboard"
    toml = write_toml(home / "agent.toml", {"data_dir": "data", "keyboard": {"enabled": keyboard, "port": port}})
    command = python_command(
        "-m", "nightjar.benchmarks.device_child", kind, str(toml), str(model.program.parent), python=str(python)
    )
    with subprocess.Popen(  # noqa: S603 - ourselves
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_one_thread(), text=True
    ) as child:
        deadline_s = time.monotonic() + CONNECTS_WITHIN_S
        while not (_online(config, kind) and (not keyboard or _suggests(port, home / "data"))):
            if child.poll() is not None or time.monotonic() > deadline_s:
                child.kill()
                msg = f"the {kind} agent did not connect and load its model"
                raise TimeoutError(msg)
            time.sleep(0.5)
        time.sleep(SETTLES_S)
        said, _ = child.communicate("\n")
    found: dict[str, Any] = {}
    for line in said.splitlines():
        found |= msgspec.json.decode(line)
    return found


def _online(config: CoordinatorConfig, name: str) -> bool:
    devices = ask_service(config, "GET", "/devices")["items"]
    return any(device["device"] == name and device["online"] for device in devices)


def _suggests(port: int, data_dir: Path) -> bool:
    """Whether the keyboard suggests three words from its model for a few texts."""
    key = served_key(data_dir)
    if key is None:
        return False
    with contextlib.suppress(urllib3.exceptions.HTTPError):
        url, shown = f"http://127.0.0.1:{port}/api/suggest", headers(key)
        answers = [
            urllib3.request("POST", url, json={"text": text}, headers=shown, retries=False).json()
            for text in ("", "i ", "i am ", "i am at ")
        ]
        return all(answer["version"] is not None and len(answer["suggestions"]) == 3 for answer in answers)
    return False


def _one_thread() -> dict[str, str]:
    return os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def _installed_mb(environment: Path, requirements: Path) -> dict[str, float]:
    """MB on disk of each package of the requirements, with its dependencies and compiled files, largest first."""
    site = next(environment.glob("lib/python3*/site-packages"))
    installed = {canonicalize_name(d.metadata["Name"]): d for d in importlib.metadata.distributions(path=[str(site)])}
    lines = (line.partition("#")[0].strip() for line in requirements.read_text().splitlines())
    wanted = [Requirement(line) for line in lines if line]
    sizes: dict[str, float] = {}
    while wanted:
        requirement = wanted.pop()
        name = canonicalize_name(requirement.name)
        if name in sizes or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        found = installed.get(name)
        if found is None:
            msg = f"{environment} lacks {name}, which {requirements} requires; remove the folder and run again"
            raise click.ClickException(msg)
        sizes[name] = sum(_size(Path(str(found.locate_file(file)))) for file in found.files or ()) / 1e6
        wanted += [Requirement(line) for line in found.requires or ()]
    own = sum(_size(path) for package in OWN for path in Path(package).rglob("*") if "__pycache__" not in path.parts)
    sizes["nightjar"] = own / 1e6
    return dict(sorted(sizes.items(), key=lambda pair: -pair[1]))


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _package_rows(packages: dict[str, dict[str, float]]) -> Iterator[dict[str, Any]]:
    for runtime, sizes in packages.items():
        for name, size_mb in sizes.items():
            yield {"environment": runtime, "package": name, "installed_mb": size_mb}


@click.command()
@click.option("--runtime", "runtimes", multiple=True, type=click.Choice(list(REQUIREMENTS)), help="Default: both.")
@click.option("--rounds", default=ROUNDS, show_default=True, type=click.IntRange(1), help="Timed steps.")
@click.option("--json", "as_json", is_flag=True)
def main(*, runtimes: tuple[str, ...], rounds: int, as_json: bool) -> None:
    """Measure disk, startup, memory and training step of an agent."""
    found = measure(list(runtimes or REQUIREMENTS), rounds)
    if as_json:
        print_json(found)
    elif found["runtimes"]:
        show(TITLE, found["runtimes"])
        show("installed packages", list(_package_rows(found["packages_mb"])))
    if not found["runtimes"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
