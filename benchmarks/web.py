"""Measures the coordinator's pages and API lists with a large database while reports arrive.

The coordinator runs in its own process; its own code has filled the database. The pages are on the port without client
certificates; everything else is the default transport. Requests are sent at a fixed rate whether or not earlier ones
were answered (open loop), so a page that hangs does not reduce the load. Meanwhile a few phones report over TLS.
Afterwards slow clients hold connections open, and ``/healthz`` is requested.

The targets: p99 under 150 ms for every page and list at 20 requests/s; idle memory under 200 MB.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import click
import urllib3

from nightjar.benchmarks import service
from nightjar.benchmarks.emulated_fleet import Fleet, together
from nightjar.benchmarks.filled_database import Size, fill
from nightjar.benchmarks.ingest import MODEL, everybody, updates
from nightjar.benchmarks.measuring import print_json, quantile, show
from nightjar.benchmarks.service import say
from nightjar.coordinator.access import Role, new_token
from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.engine.clock import WallClock
from nightjar.coordinator.storage.blobs import FileBlobs
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.engine import database_url
from nightjar.coordinator.storage.tokens import TokenTable
from nightjar.models.manifest import Manifest
from nightjar.simulation.demo.processes import stopping
from nightjar.wire.parameters import ParameterLayout

REQUESTS_PER_S = 20.0
PHONES = 50
BURST_EVERY_S = 2.0
"""Each phone reports once in this time."""
SLOW_CLIENTS = 300
HEALTH_REQUESTS = 200
IDLE_S = 5.0
REPORT_BYTES = 12_000
STOP_TIMEOUT_S = 120.0

PAGES = (
    "/",
    "/rounds",
    "/rounds?phase=abandoned",
    "/rounds/{round}",
    "/rounds/{round}?state=dropped",
    "/devices",
    "/devices?name=device-05",
    "/devices?doing=waiting",
    "/devices?blocked=true",
    "/devices/device-{device:06}",
    "/models",
    "/models/{version}",
    "/tasks",
    "/tasks/keyboard",
    "/audit",
    "/tokens",
    "/api/v1/tasks",
    "/api/v1/rounds",
    "/api/v1/versions",
    "/api/v1/devices",
    "/api/v1/audit",
    "/api/v1/tokens",
)
"""Every page, and every API list with its default limit."""


def ask(url: str, paths: Sequence[str], token: str, requests: int) -> dict[str, list[float]]:
    """Request all paths in turn at the fixed rate; returns path -> latencies in ms."""
    pool = urllib3.PoolManager(maxsize=32, headers={"Authorization": f"Bearer {token}"})
    times: dict[str, list[float]] = {path: [] for path in paths}

    def one(path: str) -> None:
        begun_s = time.perf_counter()
        answer = pool.request("GET", url + path, timeout=60.0, retries=False)
        times[path].append((time.perf_counter() - begun_s) * 1e3)
        if answer.status != 200:
            msg = f"{path} answered {answer.status}: {answer.data[:300]!r}"
            raise RuntimeError(msg)

    with ThreadPoolExecutor(32) as threads:
        begun_s = time.monotonic()
        asked = []
        for number in range(requests * len(paths)):
            time.sleep(max(begun_s + number / REQUESTS_PER_S - time.monotonic(), 0))
            asked.append(threads.submit(one, paths[number % len(paths)]))
        for each in asked:
            each.result()
    return times


def ask_aside(*arguments: Any) -> dict[str, list[float]]:
    """Run :func:`ask` in a child process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as child:
        return child.submit(ask, *arguments).result()


@contextlib.contextmanager
def reports_coming_in(config: CoordinatorConfig, folder: Path, layout: ParameterLayout) -> Iterator[list[int]]:
    """Let a few phones report within the block; yields a list with the number of accepted reports."""
    names = [f"reporter-{number:03}" for number in range(PHONES)]
    credentials = service.certify(config, names, folder / "devices")
    fleet = Fleet(config.broker.port, names, updates(layout, REPORT_BYTES), 0, credentials=credentials)
    accepted, ended = [0], threading.Event()

    def run() -> None:
        while not ended.is_set():
            begun_s = time.monotonic()
            together([fleet], "check_in")
            (fired,) = together([fleet], "fire")
            accepted[0] += fired.verdicts.get("accepted", 0)
            ended.wait(max(begun_s + BURST_EVERY_S - time.monotonic(), 0))

    together([fleet], "connect")
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield accepted
    finally:
        ended.set()
        thread.join()
        fleet.close()


def health_ms(port: int) -> float:
    """Latency of ``/healthz`` on a new connection, ms."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        begun_s = time.perf_counter()
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = b""
        while got := connection.recv(4096):
            answer += got
        seconds = time.perf_counter() - begun_s
    if not answer.startswith(b"HTTP/1.1 200 "):
        msg = f"/healthz answered {answer[:200]!r}"
        raise RuntimeError(msg)
    return seconds * 1e3


@contextlib.contextmanager
def slow_clients(port: int, path: str, token: str) -> Iterator[None]:
    """Open connections that read nothing, send half a request, or keep an event stream open."""
    requests = (
        f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST /api/v1/tokens HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
        f"GET /live HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n",
    )
    with contextlib.ExitStack() as stack:
        for number in range(SLOW_CLIENTS):
            one = stack.enter_context(socket.socket())
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.connect(("127.0.0.1", port))
            one.sendall(requests[number % len(requests)].encode())
        time.sleep(1.0)
        yield


def measure(size: Size, requests: int, folder: Path) -> dict[str, Any]:
    """Run the benchmark; returns all results."""
    layout = service.write_model(folder / "model", MODEL)
    path = service.write_configuration(folder, {**everybody(PHONES), "rounds": 0})
    serving = service.coordinator(path)
    with stopping([[serving]]):
        config = service.start(serving, path)  # the first start imports the model
        serving.stop(STOP_TIMEOUT_S)
        token, weights, found = prepare(config, size)
        service.start(serving, path)
        say(f"{found}; idle for {IDLE_S:g} s")
        time.sleep(IDLE_S)
        idle = service.resident_mb(serving.pid)
        paths = [
            each.format(round=found.rounds // 2, version=found.rounds // 2, device=size.devices // 2) for each in PAGES
        ]
        with reports_coming_in(config, folder, layout) as accepted:
            ask_aside(config.page_url, paths, token, 2)
            say(f"{requests} requests for each of {len(paths)} paths, {REQUESTS_PER_S:g} a second")
            before, begun_s = accepted[0], time.monotonic()
            times = ask_aside(config.page_url, paths, token, requests)
            rate = (accepted[0] - before) / (time.monotonic() - begun_s)
        say(f"{rate:.0f} reports/s arrived meanwhile")
        with slow_clients(config.page_port, f"/artifacts/{weights.sha256}", token):
            health = [health_ms(config.page_port) for _ in range(HEALTH_REQUESTS)]
    pages = [
        {
            "path": each,
            "requests": len(times[each]),
            "p50_ms": median(times[each]),
            "p99_ms": quantile(times[each], 0.99),
        }
        for each in paths
    ]
    return {
        "pages": pages,
        "health_p99_ms_with_slow_clients": quantile(health, 0.99),
        "idle_rss_mb": idle,
        "reports_per_s_meanwhile": rate,
        "devices": found.devices,
        "rounds": found.rounds,
        "reports": found.reports,
    }


def prepare(config: CoordinatorConfig, size: Size) -> tuple[str, Any, Size]:
    """Fill the database; returns a token, the weights of version 0, and the number of rows."""
    now_s = WallClock().now_s()
    database = Database(database_url(config))
    try:
        with database.transaction() as tx:
            record = tx.version(0)
        if record is None:
            msg = "the coordinator imported no model"
            raise RuntimeError(msg)
        artifacts = FileBlobs(config.data_dir / "artifacts")
        weights = Manifest.decode(artifacts.get(record.manifest)).weights
        begun_s = time.monotonic()
        fill(database, size, config.task.name, weights.sha256, now_s)
        characters, token = new_token("benchmark", Role.ADMIN, now_s, 86400.0)
        TokenTable(database).add(token, "benchmark")
        with database.transaction() as tx:
            found = Size(tx.devices_since(float("-inf")), tx.last_round_number(), tx.accepted_reports())
        say(f"filled in {time.monotonic() - begun_s:.0f} s")
    finally:
        database.close()
    return characters, weights, found


@click.command()
@click.option("--devices", default=100_000, show_default=True)
@click.option("--rounds", default=1000, show_default=True)
@click.option("--reports", default=1_000_000, show_default=True)
@click.option("--requests", default=100, show_default=True, help="Requests per path.")
@click.option("--json", "as_json", is_flag=True)
def main(*, devices: int, rounds: int, reports: int, requests: int, as_json: bool) -> None:
    """Measure the coordinator's pages and API lists with a large database."""
    service.need_mosquitto()
    with tempfile.TemporaryDirectory(prefix="nightjar-web-") as folder:
        found = measure(Size(devices, rounds, reports), requests, Path(folder))
    if as_json:
        print_json(found)
        return
    show("pages and lists, 20 requests/s while reports arrive", found.pop("pages"))
    show("other results", [found])


if __name__ == "__main__":
    main()
