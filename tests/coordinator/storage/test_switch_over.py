"""A PostgreSQL primary is demoted and left read-only, while its standby takes its place behind the same address.

Two real servers with synchronous streaming replication, and a small proxy that people's load balancer or virtual
address stands for: connections that are open stay with the former primary, new ones go to its standby.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from nightjar.coordinator.mqtt.free_ports import free_ports
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.lead import LeaderElection
from nightjar.coordinator.storage.tables import reports
from nightjar.wire.errors import UnavailableError
from nightjar.wire.identifiers import DeviceId
from tests.coordinator.storage.postgresql import programs
from tests.coordinator.storage.records import start, stored
from tests.processes import end

pytestmark = [pytest.mark.postgresql, pytest.mark.slow]

WITHIN_S = 30.0
USER = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []


def folder_of_programs() -> Path:
    """Where all of them are: ``initdb`` may be a link on the PATH."""
    return (programs() / "initdb").resolve().parent


class Address:
    """Passes connections on to one of several ports."""

    def __init__(self, target: int) -> None:
        self.target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._sockets = [self._listener]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self._sockets.append(near)
                far = socket.create_connection(("127.0.0.1", self.target))
                self._sockets.append(far)
                for source, sink in ((near, far), (far, near)):
                    self._threads.append(threading.Thread(target=self._pass, args=(source, sink), daemon=True))
                    self._threads[-1].start()

    @staticmethod
    def _pass(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        for each in self._sockets:
            each.close()


class Server:
    """One of the two servers; ``of`` is the primary that it follows."""

    def __init__(self, folder: Path, port: int, of: "Server | None" = None) -> None:
        self.data, self.port = folder / f"data-{port}", port
        if of is None:
            self._run("initdb", "-D", self.data, "-U", "nightjar", "--auth=trust", "--no-sync", "-E", "UTF8")
            with (self.data / "postgresql.auto.conf").open("a") as settings:
                settings.write("synchronous_commit = remote_apply\nfsync = off\n")
        else:
            source = f"host=127.0.0.1 port={of.port} user=nightjar application_name=standby"
            self._run("pg_basebackup", "-D", self.data, "-R", "-X", "stream", "-d", source)
        settings = ["-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={folder}"]
        self._process = subprocess.Popen(
            [*USER, folder_of_programs() / "postgres", "-D", self.data, "-p", str(port), *settings],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            until(lambda: self.ask("SELECT 1") == 1)
        except BaseException:
            self.close()
            raise

    def _run(self, program: str, *arguments: object) -> None:
        subprocess.run(
            [*USER, folder_of_programs() / program, *arguments], check=True, capture_output=True, cwd=self.data.parent
        )

    def ask(self, query: str) -> object:
        """The first value of an answer; None while the server cannot be reached."""
        engine = sa.create_engine(url(self.port), isolation_level="AUTOCOMMIT")
        try:
            with engine.connect() as connection:
                result = connection.exec_driver_sql(query)
                return result.scalar() if result.returns_rows else None
        except sa.exc.OperationalError:
            return None
        finally:
            engine.dispose()

    def close(self) -> None:
        end(self._process, 60)


def url(port: int) -> str:
    return f"postgresql+psycopg://nightjar@127.0.0.1:{port}/postgres"


def until(holds, within_s: float = 120.0) -> None:
    deadline_s = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline_s, "it did not come to it"
        time.sleep(0.1)


@pytest.fixture
def pair():
    if programs() is None:
        pytest.skip("PostgreSQL is not installed: apt install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    if USER:
        shutil.chown(folder, "postgres")
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        first, second = free_ports(2)
        primary = Server(folder, first)
        stack.callback(primary.close)
        standby = Server(folder, second, primary)
        stack.callback(standby.close)
        primary.ask("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
        primary.ask("SELECT pg_reload_conf()")
        until(lambda: primary.ask("SELECT sync_state FROM pg_stat_replication") == "sync")
        address = Address(primary.port)
        stack.callback(address.close)
        yield primary, standby, address


def switch_over(primary: Server, standby: Server, address: Address) -> None:
    primary.ask("ALTER SYSTEM SET default_transaction_read_only = on")
    primary.ask("SELECT pg_reload_conf()")
    until(lambda: primary.ask("SHOW transaction_read_only") == "on")
    address.target = standby.port
    standby.ask("SELECT pg_promote()")
    until(lambda: standby.ask("SELECT pg_is_in_recovery()") is False)


def test_writes_go_on_within_seconds_and_every_accepted_report_is_there(pair):
    primary, standby, address = pair
    accepted: list[str] = []
    with contextlib.closing(Database(url(address.port))) as database:
        start(database)

        def accept(name: str) -> bool:
            try:
                with database.transaction() as tx:
                    tx.add_report(stored(DeviceId(name)), b"frame")
            except UnavailableError:
                return False
            accepted.append(name)
            return True

        for number in range(20):
            assert accept(f"before-{number}")
        switch_over(primary, standby, address)
        began_s = time.monotonic()
        until(lambda: accept("first-after"), WITHIN_S)
        assert time.monotonic() - began_s < WITHIN_S
        for number in range(20):
            assert accept(f"after-{number}"), "one new connection is not enough: the pool is"
    engine = sa.create_engine(url(standby.port))
    with engine.connect() as connection:
        assert {*connection.scalars(sa.select(reports.c.device))} == {*accepted}
    engine.dispose()


def test_a_leader_on_the_former_primary_notices_that_it_leads_nobody(pair):
    primary, standby, address = pair
    lost: list[str] = []
    noticed = threading.Event()

    def lose(reason: str) -> None:
        lost.append(reason)
        noticed.set()

    election = LeaderElection(url(address.port), lose)
    election.start()
    try:
        assert election.wait(60)
        switch_over(primary, standby, address)
        assert noticed.wait(WITHIN_S)
        assert "read-only" in lost[0]
    finally:
        election.close()
    follower = LeaderElection(url(address.port), lose)
    follower.start()
    try:
        assert follower.wait(60), "the server in its place has a lock of its own"
    finally:
        follower.close()
