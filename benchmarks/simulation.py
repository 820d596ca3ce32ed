"""Measures simulated rounds of a fleet under a virtual clock: results, time and memory.

Each run has its own process, because the peak memory of a process never falls. CPU time is given as well as wall time,
because wall time depends on the load of other users. The speed of the laboratory stands beside
(:mod:`nightjar.benchmarks.engines`).
"""

from __future__ import annotations

import json
import resource
import subprocess
from typing import Any

import click

from nightjar.benchmarks import engines
from nightjar.benchmarks.measuring import print_json, show
from nightjar.host.children import python_command

TITLE = "rounds of a simulated fleet, virtual clock"
ROUNDS, SEED = 50, 1
ENGINE_ROUNDS, ENGINE_REPEATS = 3, 3
KEYS = (
    "devices", "rounds_committed", "dropout_rate", "reports_accepted", "reports_lost", "reports_counted_twice",
    "peak_messages_per_s", "wall_seconds", "peak_memory_mb",
)  # fmt: skip


def measure(fleets: tuple[int, ...]) -> list[dict[str, Any]]:
    """Two rows for each fleet size: without faults, and with all of them."""
    return [_run(devices, faults) for devices in fleets for faults in ("none", "all")]


def _run(devices: int, faults: str) -> dict[str, Any]:
    options = ["--devices", str(devices), "--rounds", str(ROUNDS), "--seed", str(SEED), "--faults", faults, "--json"]
    before_s = _children_s()
    run = subprocess.run(  # noqa: S603 - ourselves
        python_command("-m", "nightjar.simulation", "rounds", *options), stdout=subprocess.PIPE, check=True
    )
    result = json.loads(run.stdout)
    return {"faults": faults, **{key: result[key] for key in KEYS}, "processor_seconds": _children_s() - before_s}


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@click.command()
@click.option("--devices", "fleets", multiple=True, type=click.IntRange(2), default=(1_000,), show_default=True)
@click.option("--json", "as_json", is_flag=True)
def main(*, fleets: tuple[int, ...], as_json: bool) -> None:
    """Measure simulated rounds (--devices may be given several times), and the laboratory beside other engines."""
    rows, beside = measure(fleets), engines.measure(ENGINE_ROUNDS, ENGINE_REPEATS)
    if as_json:
        print_json({"simulation": rows, **beside})
        return
    show(TITLE, rows)
    missing = f", not installed: {', '.join(beside['missing'])}" if beside["missing"] else ""
    said = f"ours costs {100 * beside['overhead']:.1f} % more than its steps{missing}"
    show(f"{engines.TITLE}; {said}", beside["engines"])


if __name__ == "__main__":
    main()
