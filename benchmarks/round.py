"""``python -m nightjar.benchmarks.round``: measures the cost of a round without training, with the shipped models.

A real coordinator with the default transport and real agents (many per process) run on this machine, with certificates,
TLS, databases on disk and the default codec. Only training is replaced: it takes no time and returns noise of the size
of a real update (:class:`nightjar.benchmarks.phones.LikeTraining`). Versions are not evaluated. A round needs the
reports of all phones, so the slowest one determines its length.

``wall_s`` is the time from the announcement of a version to the commit of the next: check-in, selection, assignments,
downloads, encoding, upload, receipts, averaging, publishing. Unlike in the field, phones and service share the CPUs and
the disk, so the CPU time of each is printed as well.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import click
import msgspec
from rich.console import Console

from nightjar.benchmarks import service
from nightjar.benchmarks.measuring import cpu_time_s, quantile, show
from nightjar.benchmarks.phones import PhoneSetting
from nightjar.benchmarks.setting import BUILD
from nightjar.coordinator.commands.service_call import ask_service
from nightjar.host.children import python_command
from nightjar.models.configurations import CONFIGURATIONS
from nightjar.simulation.demo.processes import Service, stopping
from nightjar.simulation.demo.trust import enrol_phones
from nightjar.wire.errors import UnavailableError

TITLE = "a round without its training, medians"
PATIENCE_S = 900.0
"""Time limit for one round on a busy machine."""
WARM_UP = 2
"""Rounds that are not counted, because every phone first downloads the whole model."""
LOOK_EVERY_S = 0.05
_ACCEPTED = re.compile(r"event=reports_accepted round=(\d+)")

_console = Console(stderr=True)


@click.command()
@click.option(
    "--model", "models", multiple=True, type=click.Choice(list(CONFIGURATIONS)), help="Default: tiny and gboard."
)
@click.option("--phones", default=100, show_default=True, type=click.IntRange(1, 1000), help="Emulated phones.")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Measured rounds.")
@click.option("--processes", default=8, show_default=True, type=click.IntRange(1, 64), help="Processes for the phones.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
def main(*, models: tuple[str, ...], phones: int, rounds: int, processes: int, as_json: bool) -> None:
    """Measure rounds of emulated phones without training."""
    runs = [measure(model, phones, rounds, min(processes, phones)) for model in models or ("tiny", "gboard")]
    show(TITLE, runs, as_json=as_json)


def measure(model: str, phones: int, rounds: int, processes: int) -> dict[str, Any]:
    """Results for one model; all phones are in each round.

    Raises:
        UnavailableError: a round was not committed in time.
    """
    folder = (BUILD / f"benchmark-round-{model}").absolute()
    shutil.rmtree(folder, ignore_errors=True)
    layout = service.write_model(folder / "model", model)
    settings = {
        "rounds": rounds + WARM_UP,
        "goal": phones,
        "minimum": phones,
        "over_selection": 1.0,
        "selection_window_s": 0.0,
        "retry_after_s": 0.1,
    }
    path = service.write_configuration(folder, settings)
    names = [f"phone-{number:04d}" for number in range(phones)]
    with _console.status(f"{model}: certificates"):
        enrol_phones(path, {name: folder / "phones" / name for name in names})
    serving = service.coordinator(path)
    agents = [_agents(folder, part, names[part::processes]) for part in range(processes)]
    try:
        with stopping([[serving], agents]):
            config = service.start(serving, path)
            for agent in agents:
                agent.start()
            used_s = list(_used_s(serving, agents, rounds + WARM_UP))
            rows = ask_service(config, "GET", f"/rounds?limit={rounds + WARM_UP + 10}")["items"]
    finally:
        shutil.rmtree(folder / "phones", ignore_errors=True)
    spent = [[after - before for before, after in zip(*pair, strict=True)] for pair in itertools.pairwise(used_s)]
    coordinator_s, broker_s, phones_s, _ = zip(*spent[WARM_UP - 1 :], strict=True)
    committed = sorted((row for row in rows if row["phase"] == "committed"), key=lambda row: row["number"])[WARM_UP:]
    return {
        "model": model,
        "parameters": layout.size,
        "devices": phones,
        "transport": service.TRANSPORT,
        "rounds": len(committed),
        "abandoned": sum(row["phase"] == "abandoned" for row in rows),
        "reports": median([row["accepted"] for row in committed]),
        "report_bytes_median": median([row["report_bytes_median"] for row in committed]),
        "wall_s_median": median([row["seconds"] for row in committed]),
        "wall_s_p90": quantile([row["seconds"] for row in committed], 0.9),
        "coordinator_cpu_s_median": median(coordinator_s),
        "coordinator_cpu_s_after_a_tenth_median": median([since_s for *_, since_s in used_s[WARM_UP:]]),
        "broker_cpu_s_median": median(broker_s),
        "phones_cpu_s_median": median(phones_s),
    }


def _agents(folder: Path, part: int, names: list[str]) -> Service:
    setting = PhoneSetting(folder=str(folder / "phones"), names=tuple(names), population="demo")
    path = folder / f"phones-{part}.json"
    path.write_bytes(msgspec.json.encode(setting))
    return Service(
        f"phones-{part}", python_command("-m", "nightjar.benchmarks.phones", str(path)), folder / f"phones-{part}.log"
    )


def _used_s(serving: Service, agents: list[Service], rounds: int) -> Iterator[tuple[float, float, float, float]]:
    """CPU time at the end of each committed round.

    Yields:
        Seconds of the coordinator, the broker and the phones since their start; and of the coordinator since a tenth of
        the round's reports arrived.

    Raises:
        UnavailableError: a round was not committed in time.
    """
    for done in range(1, rounds + 1):
        deadline_s = time.monotonic() + PATIENCE_S
        at_a_tenth_s: float | None = None
        with _console.status(f"{done} of {rounds} rounds"):
            # Asking the API would cost CPU time of the measured process.
            while (log := serving.log.read_text()).count("event=round_committed") < done:
                if at_a_tenth_s is None and len(set(_ACCEPTED.findall(log))) == done:
                    at_a_tenth_s = _cpu_s(service.processes(serving)[0])
                if time.monotonic() > deadline_s or not all(one.running for one in (serving, *agents)):
                    msg = f"round {done} of {rounds} was not committed; the logs are in {serving.log.parent}"
                    raise UnavailableError(msg)
                time.sleep(LOOK_EVERY_S)
        ours, brokers = service.processes(serving)
        coordinator_s = _cpu_s(ours)
        since_s = 0.0 if at_a_tenth_s is None else coordinator_s - at_a_tenth_s
        yield coordinator_s, _cpu_s(brokers), _cpu_s([agent.pid for agent in agents]), since_s


def _cpu_s(pids: list[int]) -> float:
    spent = 0.0
    for pid in pids:
        with contextlib.suppress(OSError):  # the process has ended
            spent += cpu_time_s(pid)
    return spent


if __name__ == "__main__":
    main()
