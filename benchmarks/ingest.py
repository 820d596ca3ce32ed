"""Measures how fast a coordinator stores and acknowledges reports, alone and while it averages another round.

All phones have an open TLS connection with their own certificate before the clock starts; each sends one report, all at
once or spread evenly over ``--within`` seconds. Everything has the default settings: mosquitto, SQLite,
``synchronous = FULL``; reports are of the gboard model and have 20 kB. The first burst is a warm-up; only its losses
count. Then bursts come in pairs: one alone, and right after it one for a round of another task while the reports of the
first are averaged. ``averaged_throughout`` says whether averaging lasted as long as the second burst.

Load and service share the machine. Results are medians over the bursts.
"""

from __future__ import annotations

import contextlib
import resource
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np

from nightjar.benchmarks import service
from nightjar.benchmarks.emulated_fleet import Fired, Fleet, Update, together
from nightjar.benchmarks.measuring import cpu_time_s, quantile, show
from nightjar.benchmarks.service import say
from nightjar.coordinator.commands.service_call import ask_service
from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.config_file import load_config
from nightjar.simulation.demo.processes import Service, stopping
from nightjar.wire.codec import codec_for
from nightjar.wire.messages import CodecChoice
from nightjar.wire.parameters import ParameterLayout

TITLE = "reports stored and receipted (medians over bursts)"
MODEL = "gboard"
REPORT_BYTES = 20_000
PAYLOADS = 16
SEED = 7
AVERAGING_TIMEOUT_S = 1800.0
"""Time limit for averaging thousands of reports on a busy machine."""


@dataclass(frozen=True, slots=True)
class Burst:
    """Measurements of one burst."""

    round: int
    seconds: float  # from the first report to the last receipt
    waits_s: list[float]  # from each report to its receipt
    accepted: int  # receipts with the verdict accepted or duplicate
    resent: int
    cpu_s: float  # of the coordinator's main process
    averaged_throughout: bool  # whether another round was still being averaged at the last receipt


def updates(layout: ParameterLayout, report_bytes: int) -> Update:
    """Real topk-8 payloads of synthetic updates, with the density that gives the wanted size."""
    codec = codec_for(CodecChoice(name="topk-8"))
    rng = np.random.default_rng(SEED)
    rows = np.exp(rng.standard_normal(layout.size))  # heavy tails, like real updates
    deltas = [(rng.standard_normal(layout.size) * rows).astype(np.float32) for _ in range(PAYLOADS)]
    density = 0.01
    for _ in range(6):  # the size is nearly proportional to the density
        chosen = codec_for(CodecChoice(name="topk-8", density=density))
        one = Update(codec.wire_id, layout.fingerprint, (chosen.encode(deltas[0], layout, rng),))
        density *= report_bytes / len(one.frame(0, 1, 1, 0))
    chosen = codec_for(CodecChoice(name="topk-8", density=density))
    return Update(codec.wire_id, layout.fingerprint, tuple(chosen.encode(delta, layout, rng) for delta in deltas))


def everybody(connections: int) -> dict[str, Any]:
    """Settings of a task that selects all connections for one round, as soon as they have checked in."""
    return {
        "rounds": 1,
        "goal": connections,
        "minimum": connections,
        "over_selection": 1.0,
        "selection_window_s": 0.0,
        "selection_deadline_s": 600.0,
        "report_deadline_s": 1800.0,
        "retry_after_s": 1.0,
        "codec": {"name": "topk-8"},
    }


class Bursts:
    """A running coordinator and all phones, connected, which spread their reports over ``within_s``."""

    def __init__(
        self,
        config: CoordinatorConfig,
        serving: Service,
        fleets: Sequence[Fleet],
        task: dict[str, Any],
        within_s: float,
    ) -> None:
        self._config, self._serving, self._fleets, self._task = config, serving, fleets, task
        self._within_s = within_s

    def new_task(self, name: str) -> None:
        """Create a task; the phones that check in next take part in its only round."""
        ask_service(self._config, "POST", "/tasks", {**self._task, "name": name})

    def burst(self, beside: Burst | None = None) -> Burst:
        """Wait until all phones are selected, then let them report.

        The round of the burst ``beside`` may be averaged at the same time.
        """
        number = together(self._fleets, "check_in")[0]
        before_s = cpu_time_s(self._serving.pid)
        fired: list[Fired] = together(self._fleets, "fire", self._within_s)
        cpu_s = cpu_time_s(self._serving.pid) - before_s
        return Burst(
            round=number,
            seconds=max(one.ended_s for one in fired) - min(one.begun_s for one in fired),
            waits_s=[wait for one in fired for wait in one.waits_s],
            accepted=sum(one.verdicts.get("accepted", 0) + one.verdicts.get("duplicate", 0) for one in fired),
            resent=sum(one.resent for one in fired),
            cpu_s=cpu_s,
            averaged_throughout=beside is not None and self._row(beside.round)["phase"] == "committing",
        )

    def stored(self, burst: Burst) -> int:
        """Number of reports in the version of a burst's round; waits until the round is committed.

        Raises:
            TimeoutError: the round was not committed in time.
        """
        deadline_s = time.monotonic() + AVERAGING_TIMEOUT_S
        while (row := self._row(burst.round))["phase"] != "committed":
            if time.monotonic() > deadline_s or not self._serving.running:
                msg = f"round {burst.round} is {row['phase']}:\n{self._serving.tail(40)}"
                raise TimeoutError(msg)
            time.sleep(0.25)
        return int(row["accepted"])

    def _row(self, number: int) -> dict[str, Any]:
        rows: list[dict[str, Any]] = ask_service(self._config, "GET", "/rounds?limit=5")["items"]
        return next(row for row in rows if row["number"] == number)


def measure_one(connections: int, bursts: int, within_s: float, folder: Path) -> list[dict[str, Any]]:
    """Two rows: alone, and during averaging."""
    say(f"{connections:,} connections: certificates")
    update = updates(service.write_model(folder / "model", MODEL), REPORT_BYTES)
    task = everybody(connections)
    path = service.write_configuration(folder, task)
    config = load_config(path, {})
    fleets = service.fleets(config, connections, update, folder)
    serving = service.coordinator(path)
    alone: list[Burst] = []
    beside: list[Burst] = []
    lost = {False: 0, True: 0}
    with contextlib.ExitStack() as stack:
        stack.enter_context(stopping([[serving]]))
        for fleet in fleets:
            stack.callback(fleet.close)
        service.start(serving, path)
        say(f"{connections:,} connections: connecting")
        together(fleets, "connect")
        shots = Bursts(config, serving, fleets, task, within_s)
        cold = shots.burst()
        lost[False] += connections - min(shots.stored(cold), cold.accepted)
        for number in range(1, bursts + 1):
            for kind, found in (("alone", alone), ("beside", beside)):
                shots.new_task(f"{kind}-{number}")
                found.append(shots.burst(alone[-1] if kind == "beside" else None))
                say(
                    f"{connections:,} connections, burst {number} of {bursts}, {kind}: "
                    f"{found[-1].seconds:.2f} s to the last receipt"
                )
            for found in (alone, beside):
                lost[found is beside] += connections - min(shots.stored(found[-1]), found[-1].accepted)
        (ours, *_), brokers = service.processes(serving)
        memory = {
            "coordinator_peak_rss_mb": service.peak_mb(ours),
            "broker_peak_rss_mb": max(service.peak_mb(one) for one in brokers),
        }
    return [
        {
            "connections": connections,
            "transport": service.TRANSPORT,
            "during_averaging": during,
            "averaged_throughout": all(one.averaged_throughout for one in found),
            "sent_within_s": within_s,
            "report_bytes": len(update.frame(0, 1, 1, 0)),
            "reports_per_s": connections / median([one.seconds for one in found]),
            "all_receipted_s": median([one.seconds for one in found]),
            "receipts_p50_ms": 1e3 * median([quantile(one.waits_s, 0.5) for one in found]),
            "receipts_p99_ms": 1e3 * median([quantile(one.waits_s, 0.99) for one in found]),
            "reports_lost": lost[during],
            "reports_resent": sum(one.resent for one in found),
            "coordinator_cpu_us_per_report": 1e6 * median([one.cpu_s for one in found]) / connections,
            **memory,
            "bursts": bursts,
        }
        for during, found in ((False, alone), (True, beside))
    ]


def raise_descriptor_limit(connections: int) -> None:
    """Raise the limit of file descriptors: the broker needs one per connection, and inherits our limit.

    Raises:
        click.ClickException: this machine does not allow as many.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + 200
    if soft < needed:
        try:
            most = hard if hard == resource.RLIM_INFINITY else max(hard, needed)  # root may raise that as well
            resource.setrlimit(resource.RLIMIT_NOFILE, (needed, most))
        except (OSError, ValueError) as error:
            msg = f"{connections} connections need {needed} file descriptors; this machine allows {hard} (ulimit -Hn)"
            raise click.ClickException(msg) from error


@click.command()
@click.option("--connections", "sizes", multiple=True, type=click.IntRange(1), default=(1000, 5000), show_default=True)
@click.option(
    "--within",
    "within_s",
    type=click.FloatRange(0),
    default=0.0,
    show_default=True,
    help="Seconds over which the reports are spread evenly; 0 for all at once.",
)
@click.option("--bursts", type=click.IntRange(1), default=1, show_default=True, help="Pairs of bursts.")
@click.option("--json", "as_json", is_flag=True)
def main(*, sizes: tuple[int, ...], within_s: float, bursts: int, as_json: bool) -> None:
    """Measure how fast reports are stored and acknowledged, alone and while another round is averaged."""
    service.need_mosquitto()
    raise_descriptor_limit(max(sizes))
    rows = []
    for connections in sizes:
        with tempfile.TemporaryDirectory(prefix="nightjar-ingest-") as folder:
            rows += measure_one(connections, bursts, within_s, Path(folder))
    show(TITLE, rows, as_json=as_json)


if __name__ == "__main__":
    main()
