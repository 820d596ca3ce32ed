"""``python -m benchmarks.round``: what a round costs beside its training.

A real coordinator, a real broker and real agents (many in one process) on this machine; the agents' training takes no
time. Every phone's report is needed, so the slowest counts. ``announce_to_committed_s`` begins when a version is
announced and ends when the next is committed: the phones' return, selection, assignments, downloads, encoding, upload,
receipts, averaging, publishing. ``selected_to_committed_s`` begins with the assignments. The longest training among a
round's reports is taken off both.

Every phone has a disk of its own in the field, so theirs are in memory here where that is possible. It has a processor
of its own as well; here all share the same, and what their work costs is printed beside: downloading, decoding and
encoding for a hundred phones cannot take less than ``phones_cpu_s`` divided by the number of processors. And it has an
interpreter of its own: fifty phones that take turns with one spend two fifths of their time on taking turns (samples of
the kernel), so a dozen share one.
"""

from __future__ import annotations

import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click
import msgspec
import psutil
from rich.console import Console

from benchmarks.measuring import cpu_time_s, median, quantile, show
from benchmarks.setting import BUILD, SEED
from coordinator.core.round import TERMINAL, Phase, Round
from coordinator.shell.database import database_file
from models.configurations import ModelConfiguration
from models.folder import write_model_folder
from models.initial import initial_weights
from models.vocabulary import Vocabulary
from simulation.demo.configuration import LOOPBACK, free_ports, write_toml
from simulation.demo.processes import Service, stopping
from simulation.phones import Setting
from wire.errors import UnavailableError

POPULATION = "benchmark"
PATIENCE_S = 300.0
SMALL, WORDS = ModelConfiguration("small", max_vocabulary=1000, embedding=8, hidden=8), 100
"""What a model costs by its size, other benchmarks measure: the codec's, the device's."""
WARM_UP = 2
"""Rounds that are not counted: every phone fetches the whole model once."""

IN_MEMORY = Path("/dev/shm")  # noqa: S108 - Linux has it; where it is missing the phones share the disk

_PYTHON = [sys.executable, "-m"]
_console = Console(stderr=True)


@dataclass(slots=True)
class _Running:
    """What runs, and the processor time that it has used at the end of each round.

    Attributes:
        data: the coordinator's folder.
        coordinator: process id.
        phones: process ids.
        used_s: rounds ended -> processor seconds of (coordinator and its children, phones).
    """

    data: Path
    coordinator: int
    phones: Sequence[int]
    used_s: dict[int, tuple[float, float]] = field(default_factory=dict)

    def note(self, rounds: int) -> None:
        """Note what was used, if this many rounds are new."""
        if rounds not in self.used_s:
            own = psutil.Process(self.coordinator)
            serving = sum(cpu_time_s(one.pid) for one in (own, *own.children(recursive=True)))
            self.used_s[rounds] = (serving, sum(cpu_time_s(pid) for pid in self.phones))

    def per_round_s(self) -> tuple[float, float]:
        """Means over the rounds that are measured."""
        first, last = min(n for n in self.used_s if n >= WARM_UP), max(self.used_s)
        count = max(last - first, 1)
        before, after = self.used_s[first], self.used_s[last]
        return (after[0] - before[0]) / count, (after[1] - before[1]) / count


@click.command()
@click.option("--phones", default=100, show_default=True, type=click.IntRange(1, 1000), help="Emulated phones.")
@click.option("--rounds", default=10, show_default=True, type=click.IntRange(1), help="Rounds that are measured.")
@click.option("--processes", default=8, show_default=True, type=click.IntRange(1, 64), help="That share the phones.")
@click.option("--json", "as_json", is_flag=True, help="One line of JSON.")
def main(phones: int, rounds: int, processes: int, *, as_json: bool) -> None:
    """Measure rounds of emulated phones with training that takes no time."""
    folder = BUILD / "benchmark-round"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with _running(folder.absolute(), phones, rounds + WARM_UP, min(processes, phones)) as running:
        ended = _wait(running, rounds + WARM_UP)
        trained_s = _longest_training_s(running.data)
    coordinator_s, phones_s = running.per_round_s()
    rows = [_row(state, trained_s[state.number]) for state in ended[WARM_UP:] if state.phase is Phase.COMMITTED]
    if not rows:
        msg = f"no round was committed; the logs are in {folder}"
        raise UnavailableError(msg)
    result = {
        "phones": phones,
        "rounds": len(rows),
        "abandoned": sum(state.phase is Phase.ABANDONED for state in ended),
        "announce_to_committed_s": median([row["announce_to_committed_s"] for row in rows]),
        "announce_to_committed_p90_s": quantile([row["announce_to_committed_s"] for row in rows], 0.9),
        "selected_to_committed_s": median([row["selected_to_committed_s"] for row in rows]),
        "coordinator_cpu_s": coordinator_s,
        "phones_cpu_s": phones_s,
        "reports": median([row["reports"] for row in rows]),
    }
    show("A round without its training, medians (emulated phones)", [result], as_json=as_json, key="rounds")


@contextmanager
def _running(folder: Path, phones: int, rounds: int, processes: int) -> Iterator[_Running]:
    """Broker, coordinator and phones."""
    ports = free_ports(0)
    shape = SMALL
    vocabulary = Vocabulary(tuple(f"word{number}" for number in range(WORDS)))
    weights = initial_weights(shape, vocabulary.size, SEED)
    write_model_folder(folder / "model", shape, vocabulary, b"training takes no time here", weights)
    table = {
        "population": POPULATION,
        "data_dir": "data",
        "port": ports.page,
        "transport": "plain",
        "broker": {"kind": "auto", "port": ports.broker},
        "task": {
            "model": "model",
            "rounds": rounds,
            "goal": phones,
            "minimum": phones,
            "over_selection": 1.0,
            "selection_window_s": 0.0,
            "retry_after_s": 0.1,
        },
    }
    config = write_toml(folder / "coordinator.toml", table)
    coordinator = Service(
        "coordinator", [*_PYTHON, "coordinator", "serve", "--config", str(config)], folder / "coordinator.log"
    )
    disks = tempfile.TemporaryDirectory(prefix="nightjar-round-", dir=IN_MEMORY if IN_MEMORY.is_dir() else None)
    names = [f"phone-{number:04d}" for number in range(phones)]
    agents = []
    for part in range(processes):
        setting = Setting(
            folder=disks.name,
            names=tuple(names[part::processes]),
            population=POPULATION,
            broker_port=ports.broker,
            url=f"http://{LOOPBACK}:{ports.page}",
        )
        path = folder / f"phones-{part}.json"
        path.write_bytes(msgspec.json.encode(setting))
        agents.append(
            Service(f"phones-{part}", [*_PYTHON, "simulation.phones", str(path)], folder / f"phones-{part}.log")
        )
    with disks, stopping([[coordinator], agents]):
        for service in (coordinator, *agents):
            service.start()
        yield _Running(folder / "data", coordinator.pid, [agent.pid for agent in agents])


def _wait(running: _Running, rounds: int) -> list[Round]:
    """The rounds, once so many have ended."""
    ended: list[Round] = []
    deadline_s = time.monotonic() + PATIENCE_S
    with _console.status("") as status:
        while len(ended) < rounds:
            if time.monotonic() > deadline_s:
                where = running.data.parent
                msg = f"{len(ended)} of {rounds} rounds ended within {PATIENCE_S:g} s; the logs are in {where}"
                raise UnavailableError(msg)
            time.sleep(0.1)
            ended = _ended(running.data)
            running.note(len(ended))
            status.update(f"{len(ended)} of {rounds} rounds")
    return ended[:rounds]


def _ended(data: Path) -> list[Round]:
    path = database_file(data)
    if not path.exists():
        return []
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        try:
            rows = database.execute("SELECT state FROM rounds ORDER BY number").fetchall()
        except sqlite3.OperationalError:
            return []  # its tables are being made
    states = [msgspec.json.decode(state, type=Round) for (state,) in rows]
    return [state for state in states if state.phase in TERMINAL]


def _longest_training_s(data: Path) -> dict[int, float]:
    with closing(sqlite3.connect(f"file:{database_file(data)}?mode=ro", uri=True)) as database:
        return dict(database.execute("SELECT round, max(seconds) FROM reports GROUP BY round").fetchall())


def _row(state: Round, trained_s: float) -> dict[str, float]:
    begun_s, ended_s = state.started_at_s or 0.0, state.closed_at_s or 0.0
    return {
        "announce_to_committed_s": ended_s - state.opened_at_s - trained_s,
        "selected_to_committed_s": ended_s - begun_s - trained_s,
        "reports": state.reported,
    }


if __name__ == "__main__":
    main()
