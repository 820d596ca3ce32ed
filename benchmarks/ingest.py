"""Reports per second through mosquitto: stored and receipted by the coordinator, beside a subscriber that discards.

Both drain the same burst from the same broker with the same settings, in turn: every connection sends one report at the
same moment. The bare subscriber is paho that counts and forgets; it is what this machine could do at most. Devices of
one process share payloads, but every report has its own header and is stored by itself.

The first bursts on each side are not counted, but for what they lose: memory, database and disk are used for the first
time. ``cold_reports_per_s`` is the very first one's rate.

Rates need a machine that does nothing else; on a busy one look at the CPU time a report costs the coordinator.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import click
import numpy as np
import paho.mqtt.client as paho
import psutil
from paho.mqtt.enums import CallbackAPIVersion

from benchmarks.emulated_fleet import Fired, Fleet, Update, together
from benchmarks.measuring import cpu_time_s, median, quantile, show
from coordinator.shell.broker import find_mosquitto
from coordinator.shell.free_ports import free_ports
from models.configurations import configuration
from models.folder import write_model_folder
from models.vocabulary import FIRST_WORD, Vocabulary
from wire.codec import codec_for
from wire.messages import CodecChoice
from wire.parameters import ParameterLayout

TITLE = "ingest through mosquitto (medians over bursts)"
REPORT_BYTES = 20_000
PAYLOADS = 16
FLEETS = 2
WARM_UP = 2
"""Bursts on each side that are not counted."""
BARE = "bare"
SEED = 7
SAMPLE_S = 0.05
START_TIMEOUT_S = 60.0
AVERAGING_TIMEOUT_S = 900.0
"""Thousands of reports, on a machine that may have better things to do."""


def updates(layout: ParameterLayout, report_bytes: int) -> Update:
    """Real topk-8 payloads of a made-up update, as dense as the wanted size allows."""
    codec = codec_for(CodecChoice(name="topk-8"))
    rng = np.random.default_rng(SEED)
    rows = np.exp(rng.standard_normal(layout.size))  # heavy tails, as real updates have
    deltas = [(rng.standard_normal(layout.size) * rows).astype(np.float32) for _ in range(PAYLOADS)]
    density = 0.01
    for _ in range(6):  # the size is nearly proportional to the density
        chosen = codec_for(CodecChoice(name="topk-8", density=density))
        one = Update(codec.wire_id, layout.fingerprint, (chosen.encode(deltas[0], layout, rng),))
        density *= report_bytes / len(one.frame(0, 1, 1, 0))
    chosen = codec_for(CodecChoice(name="topk-8", density=density))
    return Update(codec.wire_id, layout.fingerprint, tuple(chosen.encode(delta, layout, rng) for delta in deltas))


def write_model(folder: Path, name: str = "gboard") -> ParameterLayout:
    """A model of full size whose program nobody runs."""
    shape = configuration(name)
    vocabulary = Vocabulary(tuple(f"word{number}" for number in range(shape.max_vocabulary - FIRST_WORD)))
    layout = shape.layout(vocabulary.size)
    write_model_folder(folder, shape, vocabulary, b"a program", np.zeros(layout.size, np.float32))
    return layout


@contextlib.contextmanager
def process(arguments: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A command of the coordinator while the block runs."""
    with log.open("ab") as file:
        child = subprocess.Popen([sys.executable, "-m", "coordinator", *arguments], stdout=file, stderr=file)  # noqa: S603
    try:
        yield child
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(120)


def wait_for_port(port: int) -> None:
    """Until somebody listens there.

    Raises:
        TimeoutError: nobody does.
    """
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    msg = f"nothing listens on port {port}"
    raise TimeoutError(msg)


def wait_for_text(path: Path, text: str, writer: subprocess.Popen[bytes], timeout_s: float = START_TIMEOUT_S) -> None:
    """Until a process has written it into its log.

    Raises:
        TimeoutError: it does not, or has ended.
    """
    deadline = time.monotonic() + timeout_s
    while text not in path.read_text():
        if time.monotonic() > deadline or writer.poll() is not None:
            msg = f"{path} does not say {text!r}:\n{path.read_text()[-2000:]}"
            raise TimeoutError(msg)
        time.sleep(0.05)


class Memory:
    """Resident memory of processes over time."""

    def __init__(self, **pids: int) -> None:
        self._processes = {name: psutil.Process(pid) for name, pid in pids.items()}
        self._begun_s = time.monotonic()
        self._ended = threading.Event()
        self.curve: list[dict[str, float]] = []
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        self._ended.set()
        self._thread.join()

    def peak_mb(self, name: str) -> float:
        """The most that a process held."""
        return max(sample[name] for sample in self.curve)

    def _watch(self) -> None:
        while not self._ended.wait(SAMPLE_S):
            sample = {"s": round(time.monotonic() - self._begun_s, 2)}
            with contextlib.suppress(psutil.NoSuchProcess):
                for name, one in self._processes.items():
                    sample[name] = round(one.memory_info().rss / 1e6, 1)
                self.curve.append(sample)


def drain(pipe: Connection, port: int) -> None:
    """The bare subscriber: for each number that comes through the pipe, when that many messages had come."""
    count, wanted, done = 0, 0, threading.Event()

    def discard(_client: Any, _data: Any, _message: Any) -> None:
        nonlocal count
        count += 1
        if count == wanted:
            done.set()

    client = paho.Client(CallbackAPIVersion.VERSION2, client_id="bare", protocol=paho.MQTTv311)
    client.username_pw_set("bare")
    client.on_connect = lambda one, *_: one.subscribe(f"nightjar/1/{BARE}/up/0/+/+", qos=1)
    client.on_subscribe = lambda *_: pipe.send(True)
    client.on_message = discard
    client.connect("127.0.0.1", port)
    client.loop_start()
    with contextlib.suppress(EOFError):
        while True:
            count, wanted = 0, pipe.recv()
            done.clear()
            pipe.send(True)
            done.wait()
            pipe.send(time.monotonic())


def bare_burst(fleets: Sequence[Fleet], port: int, connections: int) -> float:
    """Messages a second that the bare subscriber drains."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    subscriber = context.Process(target=drain, args=(theirs, port), daemon=True)
    subscriber.start()
    try:
        ours.recv()
        ours.send(connections)
        ours.recv()
        together(fleets, "load")
        fired: list[Fired] = together(fleets, "fire", BARE, False)
        ended_s: float = ours.recv()
    finally:
        subscriber.terminate()
        subscriber.join()
    return connections / (ended_s - min(one.begun_s for one in fired))


def write_configuration(folder: Path, port: int, web_port: int, connections: int) -> Path:
    """A coordinator that selects all connections, as soon as they are there."""
    path = folder / "coordinator.toml"
    path.write_text(
        f'port = {web_port}\ndata_dir = "data"\nlog = "info"\ntransport = "plain"\n'
        f'[broker]\nkind = "external"\nport = {port}\n'
        f'[task]\nmodel = "model"\ngoal = {connections}\nminimum = {connections}\nover_selection = 1.0\n'
        "selection_window_s = 0.0\nselection_deadline_s = 120.0\nreport_deadline_s = 600.0\nretry_after_s = 1.0\n"
        'max_update_norm = 1e9\n[task.codec]\nname = "topk-8"\n'
    )
    return path


def stored(folder: Path, round_number: int) -> int:
    """Reports of a round in the coordinator's database."""
    with contextlib.closing(sqlite3.connect(folder / "data" / "coordinator.sqlite")) as database:
        found = database.execute("SELECT count(*) FROM reports WHERE round = ?", (round_number,)).fetchone()
    return int(found[0])


def measure_one(connections: int, bursts: int, folder: Path, update: Update, port: int, broker: int) -> dict[str, Any]:
    """One row: so many connections, so many bursts on each side, in turn."""
    names = [f"phone-{number:05d}" for number in range(connections)]
    share = -(-connections // FLEETS)
    fleets = [Fleet(port, names[at : at + share], update, at) for at in range(0, connections, share)]
    (web_port,) = free_ports(1)
    log = folder / "coordinator.log"
    log.touch()
    rates, bare_rates, waits, cpu_s, lost, resent = [], [], [], [], 0, 0
    try:
        say(f"{connections:,} connections: connecting")
        together(fleets, "connect")
        configuration_path = write_configuration(folder, port, web_port, connections)
        with process(["serve", "--config", str(configuration_path)], log) as coordinator:
            wait_for_text(log, "broker_connected", coordinator)
            memory = Memory(coordinator=coordinator.pid, broker=broker)
            for burst in range(1 - WARM_UP, bursts + 1):
                bare_rates.append(bare_burst(fleets, port, connections))
                number = together(fleets, "check_in")[0]
                begun_cpu_s = cpu_time_s(coordinator.pid)
                fired: list[Fired] = together(fleets, "fire", "demo", True)
                cpu_s.append(cpu_time_s(coordinator.pid) - begun_cpu_s)
                seconds = max(one.ended_s for one in fired) - min(one.begun_s for one in fired)
                rates.append(connections / seconds)
                waits.append([wait for one in fired for wait in one.waits_s])
                resent += sum(one.resent for one in fired)
                accepted = sum(one.verdicts.get("accepted", 0) + one.verdicts.get("duplicate", 0) for one in fired)
                lost += connections - min(stored(folder, number), accepted)
                which = f"burst {burst} of {bursts}" if burst > 0 else "warming up"
                say(
                    f"{connections:,} connections, {which}: {rates[-1]:,.0f} reports/s, bare {bare_rates[-1]:,.0f}, "
                    f"{lost} lost; averaging"
                )
                wait_for_text(log, f"event=round_committed round={number} ", coordinator, AVERAGING_TIMEOUT_S)
            memory.close()
    finally:
        for fleet in fleets:
            fleet.close()
    waited_s = [wait for of_burst in waits[WARM_UP:] for wait in of_burst]
    rate, bare_rate = median(rates[WARM_UP:]), median(bare_rates[WARM_UP:])
    return {
        "connections": connections,
        "report_bytes": len(update.frame(0, 1, 1, 0)),
        "reports_per_s": rate,
        "bare_subscriber_per_s": bare_rate,
        "ratio_to_bare_subscriber": rate / bare_rate,
        "cold_reports_per_s": rates[0],
        "reports_lost": lost,
        "reports_resent": resent,
        "p50_ms": 1e3 * quantile(waited_s, 0.5),
        "p99_ms": 1e3 * quantile(waited_s, 0.99),
        "coordinator_cpu_us_per_report": 1e6 * median(cpu_s[WARM_UP:]) / connections,
        "coordinator_rss_mb": memory.peak_mb("coordinator"),
        "broker_rss_mb": memory.peak_mb("broker"),
        "bursts": bursts,
        "memory_curve": memory.curve,
    }


def measure(sizes: Sequence[int], bursts: int) -> list[dict[str, Any]]:
    """Rows for each number of connections."""
    raise_descriptor_limit(max(sizes))
    rows = []
    with tempfile.TemporaryDirectory(prefix="nightjar-ingest-") as where:
        for connections in sizes:
            folder = Path(where) / str(connections)
            folder.mkdir()
            update = updates(write_model(folder / "model"), REPORT_BYTES)
            (port,) = free_ports(1)
            arguments = ["broker", "--kind", "mosquitto", "--port", str(port), "--data", str(folder / "broker")]
            with process(arguments, folder / "broker.log") as broker:
                wait_for_port(port)
                rows.append(measure_one(connections, bursts, folder, update, port, broker.pid))
    return rows


def raise_descriptor_limit(connections: int) -> None:
    """The broker needs a file descriptor for each connection, and inherits our limit.

    Raises:
        click.ClickException: this machine does not allow so many.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + 200
    if hard != resource.RLIM_INFINITY and hard < needed:
        msg = f"{connections} connections need {needed} file descriptors; this machine allows {hard} (ulimit -Hn)"
        raise click.ClickException(msg)
    if soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def say(line: str) -> None:
    """Progress for a person; the result alone goes to standard output."""
    click.echo(line, err=True)


def plot(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw the memory of coordinator and broker over time."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(len(rows), 1, squeeze=False, figsize=(8, 3 * len(rows)), layout="constrained")
    for axis, row in zip(axes[:, 0], rows, strict=True):
        for name in ("coordinator", "broker"):
            axis.plot([at["s"] for at in row["memory_curve"]], [at[name] for at in row["memory_curve"]], label=name)
        axis.set(title=f"{row['connections']:,} connections", xlabel="s", ylabel="resident memory, MB", ylim=(0, None))
        axis.legend()
    figure.savefig(path, dpi=150)


@click.command()
@click.option("--connections", "sizes", multiple=True, type=click.IntRange(1), default=(1000, 5000), show_default=True)
@click.option(
    "--bursts", type=click.IntRange(1), default=3, show_default=True, help="Bursts on each side; medians are printed."
)
@click.option("--json", "as_json", is_flag=True)
@click.option("--plot", "plot_path", type=click.Path(path_type=Path), help="Draw memory over time into this file.")
def main(*, sizes: tuple[int, ...], bursts: int, as_json: bool, plot_path: Path | None) -> None:
    """Measure reports a second, stored and receipted, beside a bare subscriber."""
    if find_mosquitto() is None:
        msg = "mosquitto is not installed: apt install mosquitto"
        raise click.ClickException(msg)
    rows = measure(sizes, bursts)
    if plot_path is not None:
        plot(rows, plot_path)
    if not as_json:
        rows = [{name: value for name, value in row.items() if name != "memory_curve"} for row in rows]
    show(TITLE, rows, as_json=as_json, key="runs")


if __name__ == "__main__":
    main()
