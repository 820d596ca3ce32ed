"""Measures what connected phones cost that do nothing, and how fast check-ins are answered, through mosquitto.

All phones have an open TLS connection with their own certificate. First they are idle: each pings as often as an agent
does. Then they check in, one after the other at a fixed rate, while no task wants devices, so that each check-in is
stored and answered with a rejection: what happens to most check-ins of a large population. The pages and the database
are the default ones.

Load and service share the machine, so times have the load generator in them; processor times do not.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any

import click

from nightjar.benchmarks import service
from nightjar.benchmarks.emulated_fleet import Answered, Update, together
from nightjar.benchmarks.ingest import raise_descriptor_limit
from nightjar.benchmarks.measuring import cpu_time_s, quantile, show, time_ms
from nightjar.benchmarks.service import say
from nightjar.coordinator.commands.service_call import ask_service
from nightjar.coordinator.config_file import load_config
from nightjar.simulation.demo.processes import stopping

TITLE = "connected phones, and check-ins answered"
TASK = "keyboard"


def measure(connections: int, rate: float, seconds: float, folder: Path) -> dict[str, Any]:
    """One row: connecting, idle for ``seconds``, and check-ins at ``rate`` per second for ``seconds``."""
    say(f"{connections:,} connections: certificates")
    service.write_model(folder / "model", "tiny")
    path = service.write_configuration(folder, {"name": TASK})
    config = load_config(path, {})
    fleets = service.fleets(config, connections, Update(0, "", ()), folder)
    serving = service.coordinator(path)
    with contextlib.ExitStack() as stack:
        stack.enter_context(stopping([[serving]]))
        for fleet in fleets:
            stack.callback(fleet.close)
        service.start(serving, path)
        ask_service(config, "POST", f"/tasks/{TASK}/pause", {"reason": "check-ins are measured"})
        (ours, *_), (*_, broker) = service.processes(serving)
        empty_mb = service.resident_mb(broker)

        def processor_s() -> tuple[float, float]:
            return cpu_time_s(broker), cpu_time_s(ours)

        say(f"{connections:,} connections: connecting")
        connect_s = time_ms(lambda: together(fleets, "connect")) / 1e3
        connected_mb = service.resident_mb(broker)
        marks = [processor_s()]
        together(fleets, "idle", seconds)
        marks.append(processor_s())
        say(f"{connections:,} connections: {rate:g} check-ins a second")
        asked: list[Answered] = together(fleets, "ask", rate / len(fleets), seconds)
        marks.append(processor_s())
        coordinator_mb = service.resident_mb(ours)
    idle, busy = ([end - begin for begin, end in zip(*marks[at : at + 2], strict=True)] for at in (0, 1))
    waits_ms = [1e3 * wait for one in asked for wait in one.waits_s]
    sent = sum(one.sent for one in asked)
    return {
        "connections": connections,
        "transport": service.TRANSPORT,
        "connects_per_s": connections / connect_s,
        "broker_kib_per_connection": 1e3 * (connected_mb - empty_mb) / 1.024 / connections,
        "broker_rss_mb": connected_mb,
        "coordinator_rss_mb": coordinator_mb,
        "broker_idle_cpu": idle[0] / seconds,
        "coordinator_idle_cpu": idle[1] / seconds,
        "check_ins": sent,
        "check_ins_per_s": sent / max(one.seconds for one in asked),
        "unanswered": sent - len(waits_ms),
        "answers_p50_ms": quantile(waits_ms, 0.5),
        "answers_p99_ms": quantile(waits_ms, 0.99),
        "broker_cpu_us_per_check_in": 1e6 * busy[0] / sent,
        "coordinator_cpu_us_per_check_in": 1e6 * busy[1] / sent,
    }


@click.command()
@click.option("--connections", type=click.IntRange(2), default=20_000, show_default=True)
@click.option("--rate", type=click.FloatRange(min=1), default=500.0, show_default=True, help="Check-ins a second.")
@click.option("--seconds", type=click.FloatRange(min=1), default=30.0, show_default=True, help="Idle, and asking.")
@click.option("--json", "as_json", is_flag=True)
def main(*, connections: int, rate: float, seconds: float, as_json: bool) -> None:
    """Measure idle connections and check-ins."""
    service.need_mosquitto()
    raise_descriptor_limit(connections)
    with tempfile.TemporaryDirectory(prefix="nightjar-connections-") as folder:
        row = measure(connections, rate, seconds, Path(folder))
    show(TITLE, [row], as_json=as_json)


if __name__ == "__main__":
    main()
