"""What an agent costs a device, for both runtimes: disk, start, memory, a training step beside TensorFlow, wasted work.

Each runtime has an environment of its own, ``.venv-agent-RUNTIME``, which ``scripts/agent_environment.sh`` makes where
it is missing or older than its requirements; where that cannot be (no network, no Python 3.11), it says so and the
runtime is left out. Figures:

- ``installed_mb``: the packages that the runtime's requirements bring in, and our own code; no test tools.
- ``import_s``: of everything that an agent with a keyboard imports.
- ``idle_rss_mb``: such an agent with the model loaded and words suggested.
- ``training_rss_mb``: that agent and its training process together, a page that both share counted once.
- ``train_step_ms``, ``tensorflow_tape_step_ms``: a step of the same model in each, in turn, one thread each.
- ``wasted_batches``: processor time after an unplug, until the training process is gone, in steps.
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
from packaging.requirements import Requirement

from benchmarks.measuring import median, show, time_ms
from benchmarks.setting import setting
from edge_agent.ports import Model

TITLE = "agent on a device, 1.41M parameters, one thread"
REQUIREMENTS = {
    "ai-edge-litert": Path("requirements/agent.txt"),
    "tflite-runtime": Path("requirements/agent-tflite-runtime.txt"),
}
ENVIRONMENT = "scripts/agent_environment.sh"
OWN = ("edge_agent", "wire", "models")
ROUNDS = 40
"""Steps of each that are timed, after three that are not."""


def measure(runtimes: list[str], rounds: int = ROUNDS) -> dict[str, Any]:
    """Figures of each runtime, and what their environments hold.

    Args:
        runtimes: names of distributions.
        rounds: timed steps.
    """
    at = setting("gboard")
    tape = _tape_step()
    rows, packages = [], {}
    for runtime in runtimes:
        environment = _environment(runtime)
        if environment is None:
            click.echo(f"{runtime} is left out: {ENVIRONMENT} {runtime} made no environment for it", err=True)
            continue
        python = environment / "bin/python"
        packages[runtime] = _installed_mb(environment, REQUIREMENTS[runtime])
        said = msgspec.json.decode(_child(python, "memory", at.model))
        ours_ms, theirs_ms = _in_turn_ms(python, at.model, tape, rounds)
        step_ms = median(ours_ms)
        rows.append(
            {
                "runtime": said["runtime"],
                "installed_mb": sum(packages[runtime].values()),
                "import_s": said["import_s"],
                "idle_rss_mb": said["idle_rss_mb"],
                "training_rss_mb": said["training_rss_mb"],
                "train_step_ms": step_ms,
                "tensorflow_tape_step_ms": median(theirs_ms),
                "speedup_vs_tensorflow_tape": median([b / a for a, b in zip(ours_ms, theirs_ms, strict=True)]),
                "trainer_peak_rss_mb": said["trainer_peak_rss_mb"],
                "wasted_batches": said["wasted_cpu_ms"] / step_ms,
            }
        )
    return {"runtimes": rows, "packages_mb": packages}


def _environment(runtime: str) -> Path | None:
    """The folder of the runtime's environment, made if need be; None if it cannot be, which standard error explains."""
    made = subprocess.run([ENVIRONMENT, runtime], stdout=subprocess.PIPE, check=False, text=True)  # noqa: S603 - ourselves
    return Path(made.stdout.strip()) if made.returncode == 0 else None


def _tape_step() -> Any:
    """A step of TensorFlow's own training of the same model, waited for."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    import numpy as np
    import tensorflow as tf

    from models.reference import ReferenceModel

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    at = setting("gboard")
    shape = (at.configuration.batch_rows, at.configuration.sequence_length)
    batch = np.random.default_rng(7).integers(4, at.vocabulary.size, shape).astype(np.int32)
    reference = ReferenceModel(at.configuration, at.vocabulary.size, at.weights)
    inputs = tf.constant(batch), tf.constant(batch), tf.constant(0.1), tf.constant(1.0)
    return lambda: reference.train(*inputs).numpy()


def _in_turn_ms(python: Path, model: Model, tape: Any, rounds: int) -> tuple[list[float], list[float]]:
    """Steps of the runtime, in its environment's process, and of TensorFlow, in this one: A B A B."""
    command = [str(python), "-m", "benchmarks.device_child", "steps", str(model.program.parent)]
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


def _child(python: Path, what: str, model: Model) -> bytes:
    command = [str(python), "-m", "benchmarks.device_child", what, str(model.program.parent)]
    return subprocess.run(command, stdout=subprocess.PIPE, env=_one_thread(), check=True).stdout  # noqa: S603 - ourselves


def _one_thread() -> dict[str, str]:
    return os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def _installed_mb(environment: Path, requirements: Path) -> dict[str, float]:
    """MB on disk of each package that the requirements bring in, compiled files included, largest first."""
    site = next(environment.glob("lib/python3*/site-packages"))
    installed = {_plain(d.metadata["Name"]): d for d in importlib.metadata.distributions(path=[str(site)])}
    lines = (line.partition("#")[0].strip() for line in requirements.read_text().splitlines())
    wanted = [Requirement(line) for line in lines if line]
    sizes: dict[str, float] = {}
    while wanted:
        requirement = wanted.pop()
        name = _plain(requirement.name)
        if name in sizes or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        found = installed.get(name)
        if found is None:
            msg = f"{environment} lacks {name}, which {requirements} asks for; remove it, and it is made again"
            raise click.ClickException(msg)
        sizes[name] = sum(_size(Path(str(found.locate_file(file)))) for file in found.files or ()) / 1e6
        wanted += [Requirement(line) for line in found.requires or ()]
    own = sum(_size(path) for package in OWN for path in Path(package).rglob("*") if "__pycache__" not in path.parts)
    sizes["nightjar"] = own / 1e6
    return dict(sorted(sizes.items(), key=lambda pair: -pair[1]))


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _plain(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _package_rows(packages: dict[str, dict[str, float]]) -> Iterator[dict[str, Any]]:
    for runtime, sizes in packages.items():
        for name, size_mb in sizes.items():
            yield {"environment": runtime, "package": name, "installed_mb": size_mb}


@click.command()
@click.option("--runtime", "runtimes", multiple=True, type=click.Choice(list(REQUIREMENTS)), help="Default: both.")
@click.option("--rounds", default=ROUNDS, show_default=True, type=click.IntRange(1), help="Timed steps of each.")
@click.option("--json", "as_json", is_flag=True)
def main(*, runtimes: tuple[str, ...], rounds: int, as_json: bool) -> None:
    """Measure what an agent costs a device."""
    found = measure(list(runtimes or REQUIREMENTS), rounds)
    if as_json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    elif found["runtimes"]:
        show(TITLE, found["runtimes"], as_json=False, key="runtimes")
        show("installed packages", list(_package_rows(found["packages_mb"])), as_json=False, key="packages_mb")
    if not found["runtimes"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
