"""A coordinator's folder as a service leaves it: a configuration, a model, rounds, devices, reports."""

import contextlib
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec.structs import replace

from nightjar.coordinator.config_file import load_config
from nightjar.coordinator.engine.clock import WallClock
from nightjar.coordinator.mqtt.free_ports import free_ports
from nightjar.coordinator.records.inbox import Inbox
from nightjar.coordinator.records.rounds import StoredReport
from nightjar.coordinator.records.versions import VersionRecord
from nightjar.coordinator.rounds.lease import Lease, Presence
from nightjar.coordinator.rounds.round import Phase, open_round
from nightjar.coordinator.rounds.rules import RoundRules
from nightjar.coordinator.rounds.seats import Seat, SeatState
from nightjar.coordinator.storage.backup import ARTIFACTS
from nightjar.coordinator.storage.blobs import FileBlobs
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.engine import database_file
from nightjar.coordinator.storage.model_folder import import_model
from nightjar.coordinator.storage.tokens import TokenTable
from nightjar.coordinator.storage.view import DatabaseView
from nightjar.coordinator.tasks.record import TaskRecord
from nightjar.coordinator.tasks.settings import TaskSettings
from nightjar.coordinator.tasks.task import Task
from nightjar.coordinator.versions.quality_gate import VersionMetrics
from nightjar.coordinator.web.app import create_app
from nightjar.coordinator.web.ports import WebPorts
from nightjar.coordinator.web.server import serving, serving_commands
from nightjar.wire.identifiers import DeviceId
from tests.coordinator.model_folder import write_model

A, B = DeviceId("a"), DeviceId("b")
REPORT = b"a report of a"
RULES = RoundRules(
    goal=2,
    minimum=1,
    over_selection=1,
    selection_window_s=0,
    selection_deadline_s=60,
    report_deadline_s=60,
    lost_grace_s=10,
)
PAGE, BROKER = free_ports(2)
"""Of all sites: a reserved port holds a file open until this process ends, and select takes 1,024."""


class Site:
    """Round 1 committed version 1; round 2 has a report of a, and b is at work."""

    def __init__(self, folder: Path, database_url: str = "") -> None:
        self.config = folder / "coordinator.toml"
        self.data = folder / "data"
        write_model(folder / "model")
        self.config.write_text(
            f'port = {PAGE}\ndata_dir = "data"\ntransport = "plain"\n'
            f'[broker]\nport = {BROKER}\n[task]\nmodel = "model"\n'
        )
        self.data.mkdir()
        self.artifacts = FileBlobs(self.data / ARTIFACTS)
        manifest = self.manifest = import_model(folder / "model", self.artifacts)
        database = Database(database_url or f"sqlite:///{database_file(self.data)}")
        with database.transaction() as tx:
            state = Task(name="keyboard", number=1, created_s=90.0, committed=1)
            tx.save_task(TaskRecord(state=state, settings=TaskSettings()))
            tx.add_version(
                VersionRecord(
                    task="keyboard", version=0, manifest=manifest.sha256, metrics=VersionMetrics(0.1, 0.2, 6.0)
                )
            )
            tx.add_version(
                VersionRecord(
                    task="keyboard",
                    version=1,
                    manifest=manifest.sha256,
                    round=1,
                    metrics=VersionMetrics(0.25, 0.4, 5.0),
                )
            )
            first = open_round(1, 0, RULES, 7, 100.0, task="keyboard")
            tx.save_round(
                replace(
                    first,
                    phase=Phase.COMMITTED,
                    version=1,
                    seats={A: Seat(state=SeatState.REPORTED)},
                    closed_at_s=130.0,
                )
            )
            second = open_round(2, 1, RULES, 7, 200.0, task="keyboard")
            seats = {A: Seat(state=SeatState.REPORTED), B: Seat()}
            tx.save_round(
                replace(second, phase=Phase.REPORTING, seats=seats, working=1, reported=1, started_at_s=201.0)
            )
            tx.save_lease(Lease(device=A, presence=Presence.PRESENT, state="training", last_seen_s=203.0, examples=7))
            tx.save_lease(Lease(device=B, state="ineligible", reason="\x1b[31mred\x07", last_seen_s=202.0))
            tx.add_report(report(1), b"")
            tx.drop_frames(1)
            tx.add_report(report(2), REPORT)
        database.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[DatabaseView]:
        """What the service would write in its database, in a file here."""
        with (
            contextlib.closing(Database(f"sqlite:///{database_file(self.data)}")) as database,
            database.transaction() as tx,
        ):
            yield tx

    def listen_on(self, port: int) -> None:
        """Have the configuration name that port."""
        first, rest = self.config.read_text().split("\n", 1)
        assert first.startswith("port")
        self.config.write_text(f"port = {port}\n{rest}")


@contextlib.contextmanager
def web_half(site: Site, post: Callable[[Inbox, Database], None]) -> Iterator[None]:
    """The web half of a site's service on a free port; ``post`` does what the driver would."""
    database = Database(f"sqlite:///{database_file(site.data)}")
    ports = WebPorts(
        config=load_config(site.config, {}),
        repository=database,
        artifacts=FileBlobs(site.data / ARTIFACTS),
        clock=WallClock(),
        broker="none",
        troubles=list,
        tokens=TokenTable(database),
        post=lambda event: post(event, database),
    )
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    site.listen_on(port)
    app = create_app(ports)
    with serving(app, "127.0.0.1", port, listener), serving_commands(app, site.data):
        yield
    database.close()


def report(round_number: int) -> StoredReport:
    return StoredReport(
        round=round_number,
        device=A,
        attempt=1,
        sha256="0" * 64,
        size_bytes=len(REPORT),
        num_examples=3,
        steps=1,
        loss=4.5,
        seconds=1.0,
        norm=1.0,
        received_s=202.0,
    )
