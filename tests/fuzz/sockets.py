"""Fuzzes a coordinator and an agent that run as processes, over their sockets, with sequences of HTTP and MQTT.

An input is a script, as in :mod:`tests.fuzz.sequences`. Its bytes become raw requests at the coordinator's port and the
keyboard's, and raw MQTT packets to the broker: of devices, which the coordinator hears, and in the coordinator's place,
which the agent hears. Both processes mark the lines that they execute (:mod:`tests.fuzz.traced`); a script that brings
a new mark is kept in ``build/fuzz/sockets`` and mutated further.

After each script both processes live, and answer on HTTP and MQTT within a second; no traceback is in their logs; their
memory is bounded; and what was refused changed nothing: no request without a token or key, and no message that no
agent sends.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import random
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from flask import Flask

from nightjar.coordinator.mqtt.free_ports import free_ports
from nightjar.coordinator.storage.engine import database_file
from nightjar.edge_agent.keyboard.app import create_app as keyboard
from nightjar.wire import messages, topics
from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import Rejection, Status
from tests.coordinator.fake_device import POPULATION, FakeDevice
from tests.coordinator.web.test_api import Service
from tests.enrolment.flooder import packet, text
from tests.fuzz.decoders import FOUND, run, say
from tests.fuzz.sequences import CAUSES, DEVICES, FIELDS, JUNK, NOT_ASKED, STEPS, VALUES, Script
from tests.fuzz.targets import CONTROL
from tests.fuzz.traced import SIZE

ROOT = Path(__file__).parents[2]
CORPUS = FOUND / "sockets"
AGENT = DeviceId("agent")
WITHIN_S = 1.0
TRIES = 30
"""An answer has to come in time once in so many tries: on a machine that does ten other things some take longer."""
START_S, SILENCE_S = 180.0, 30.0
MOST_BYTES = 700 * 2**20
"""Resident memory of a process; each has some 150 MB after its start."""
SCRIPTS_OF_A_LIFE = 2000
CHANGED_BY_TOKENS = ("audit", "tokens", "claims", "credentials", "versions", "artifacts")
CHANGED_BY_REPORTS = ("reports", "report_frames", "chunks", "secure_sums", "counted_cohorts")
METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "get", "", "PRI")
PACKETS = (0x10, 0x20, 0x30, 0x32, 0x34, 0x3F, 0x40, 0x50, 0x62, 0x82, 0xA2, 0xC0, 0xE0, 0xF0, 0x00)


class Defect(Exception):  # noqa: N818 - it is what was found
    """A process did what it must not."""


class Traced:
    """A process of ours, its log, and the lines that it has executed."""

    def __init__(self, folder: Path, module: str, config: Path) -> None:
        self.name, self._log_path, self._map_path = module, folder / f"{module}.log", folder / f"{module}.map"
        self._map_path.write_bytes(bytes(SIZE))
        self._command = [sys.executable, "-m", "tests.fuzz.traced", str(self._map_path), module]
        self._command += ["serve" if module.endswith("coordinator") else "run", "--config", str(config)]
        self._seen = bytes(SIZE)
        self._read_bytes = 0
        with self._log_path.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, cwd=ROOT, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": str(ROOT)}
            )

    def new_lines(self) -> int:
        """How many lines were executed that were not before."""
        now, before = self._map_path.read_bytes(), self._seen
        if now == before:
            return 0
        self._seen = now
        return sum(now) - sum(before)

    def check(self) -> None:
        """It lives in bounded memory, and has not said what nobody expected."""
        with self._log_path.open("rb") as log:
            log.seek(self._read_bytes)
            said = log.read()
        self._read_bytes += len(said)
        if self.process.poll() is not None:
            raise Defect(f"{self.name} ended with {self.process.returncode}: {said[-3000:].decode(errors='replace')}")
        if b"Traceback (most recent call last)" in said:
            raise Defect(f"{self.name} logged a traceback: {said[-6000:].decode(errors='replace')}")
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        if pages * os.sysconf("SC_PAGE_SIZE") > MOST_BYTES:
            raise Defect(f"{self.name} takes {pages * os.sysconf('SC_PAGE_SIZE') >> 20} MB")

    def silent(self) -> str:
        """What its threads do, and what it said last."""
        self.process.send_signal(signal.SIGUSR1)
        time.sleep(1)
        return self._log_path.read_text(errors="replace")[-20_000:]

    def stop(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()


class Running:
    """A coordinator with its broker, an agent with a keyboard, and an honest device that watches."""

    def __init__(self, folder: Path) -> None:
        self._stack, self._folder = contextlib.ExitStack(), folder
        self._paths, self._keyboard_paths = paths_of(coordinator_app(folder)), paths_of(keyboard_app())
        page, self._broker, self._keyboard = free_ports(3)
        self._page = page
        config = folder / "coordinator.toml"
        config.write_text(
            f'port = {page}\ndata_dir = "data"\ntransport = "plain"\n[broker]\nport = {self._broker}\n[task]\n'
            'model = "model"\ngoal = 2\nminimum = 2\nover_selection = 1.0\nselection_deadline_s = 3600.0\n'
            'report_deadline_s = 3600.0\nretry_after_s = 0.2\n[task.codec]\nname = "dense-f32"\n'
            "[limits]\ncohort = 1\ndensity = 1.0\n"
        )
        settings = folder / "agent.toml"
        settings.write_text(
            f'device = "{AGENT}"\npopulation = "{POPULATION}"\ndata_dir = "agent"\n'
            f'coordinator_url = "http://127.0.0.1:{page}"\n[broker]\nport = {self._broker}\n'
            f"[keyboard]\nenabled = true\nport = {self._keyboard}\n[limits]\ncohort = 1\ndensity = 1.0\n"
        )
        try:
            self.coordinator = self._started("nightjar.coordinator", config)
            self._wait(lambda: status(self._get(page, "/healthz")) == 200, "the coordinator answers")
            self.agent = self._started("nightjar.edge_agent", settings)
            self._wait(lambda: status(self._get(self._keyboard, "/")) == 200, "the agent answers")
            self._honest = Honest("honest", self._broker)
            self._stack.callback(self._honest.close)
            self.new_lines()
        except BaseException:
            self._stack.close()
            raise

    def _started(self, module: str, config: Path) -> Traced:
        process = Traced(self._folder, module, config)
        self._stack.callback(process.stop)
        return process

    def _wait(self, holds: Callable[[], bool], what: str) -> None:
        until_s = time.monotonic() + START_S
        while True:
            with contextlib.suppress(OSError):
                if holds():
                    return
            if time.monotonic() > until_s:
                raise Defect(f"not within {START_S:g} s: {what}")
            time.sleep(0.2)

    def close(self) -> None:
        """End all of them."""
        self._stack.close()

    def new_lines(self) -> int:
        """How many lines of both were executed for the first time."""
        return self.coordinator.new_lines() + self.agent.new_lines()

    def run(self, script: Script) -> None:
        """Let the script happen; nothing of it may be taken, and both must be well afterwards."""
        before = self._kept()
        with contextlib.closing(Hostile(self._broker)) as hostile:
            for _ in range(STEPS):
                if script.over:
                    break
                match script.byte() % 6:
                    case 0 | 1:
                        self._send(self._page, request(script, self._paths), script)
                    case 2:
                        self._send(self._keyboard, request(script, self._keyboard_paths), script)
                    case 3 | 4:
                        hostile.send(publish(script))
                    case _:
                        hostile.send(raw(script))
        self._is_well()
        after = self._kept()
        for table, rows in before.items():
            if after[table] != rows:
                raise Defect(f"what was refused changed the table {table}")

    def _is_well(self) -> None:
        for process in (self.coordinator, self.agent):
            process.check()
        answers = {
            "the coordinator on HTTP": lambda: self._get(self._page, "/healthz"),
            "the agent on HTTP": lambda: self._get(self._keyboard, "/"),
            "the coordinator on MQTT": self._answered,
        }
        for who, ask in answers.items():
            took_s, answer = timed(ask)
            if status(answer) != 200:
                doing = self.agent.silent() if "agent" in who else self.coordinator.silent()
                raise Defect(f"{who} answers {answer[:2000]!r} after {took_s:.1f} s; {doing}")
            if took_s > WITHIN_S:
                raise Defect(f"{who} answers after {took_s:.1f} s")

    def _answered(self) -> bytes:
        self._honest.check_in(examples=0)  # too few: it is rejected at once
        with contextlib.suppress(AssertionError):
            self._honest.wait_for(Rejection, SILENCE_S)
            return b"HTTP/1.1 200 in a manner of speaking"
        return b""

    def _get(self, port: int, path: str) -> bytes:
        return self._send(port, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())

    def _send(self, port: int, data: bytes, script: Script | None = None) -> bytes:
        """The beginning of the answer to these bytes; empty if there is none."""
        received = b""
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", port), timeout=SILENCE_S) as connection,
        ):
            at = len(data) if script is None or script.byte() % 4 else len(data) // 2
            connection.sendall(data[:at])
            connection.sendall(data[at:])
            if script is not None:  # what came may be half a request; nobody is to wait for the rest of it
                connection.shutdown(socket.SHUT_WR)
            while len(received) < 1 << 16 and (more := connection.recv(1 << 16)):
                received += more
        answered = status(received)
        if answered >= 500 and answered not in (501, 503, 505):
            raise Defect(f"{data[:500]!r} was answered {received[:500]!r}")
        return received

    def _kept(self) -> dict[str, str]:
        """What no script may change: a hash of each table."""
        found = {}
        with reading(database_file(self._folder / "data")) as database:
            for table in (*CHANGED_BY_TOKENS, *CHANGED_BY_REPORTS):
                found[table] = digest(database, table)
        with reading(self._folder / "agent" / "agent.db") as database:
            for table in ("examples", "ledger", "outbox", "own_words"):
                found[f"agent.{table}"] = digest(database, table)
        return found


class Honest(FakeDevice):
    """A device that does not mind what the hostile client announces."""

    def _on_message(self, *heard: Any) -> None:
        with contextlib.suppress(RemoteProtocolError):
            super()._on_message(*heard)


class Hostile:
    """A client that says to the broker what it likes; it connects again when it is thrown out."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection: socket.socket | None = None

    def send(self, data: bytes) -> None:
        """Send bytes, once."""
        with contextlib.suppress(OSError):
            if self._connection is None:
                self._connection = socket.create_connection(("127.0.0.1", self._port), timeout=SILENCE_S)
                self._connection.sendall(packet(0x10, text("MQTT") + bytes([4, 2, 0, 60]) + text("hostile")))
                self._connection.recv(4)
            self._connection.sendall(data)
            return
        self.close()

    def close(self) -> None:
        """Leave without a word."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def request(script: Script, paths: tuple[str, ...]) -> bytes:
    """A request without a token or a key, or something like one."""
    path = "/".join(script.pick(VALUES) if part.startswith("<") else part for part in script.pick(paths).split("/"))
    if script.byte() % 3 == 0:
        path += f"?{script.pick(FIELDS)}={script.pick(VALUES)}"
    body = script.bytes()
    if script.byte() % 2:
        body = msgspec.json.encode({script.pick(FIELDS): script.pick(JUNK) for _ in range(script.byte() % 4)})
    headers = {"Host": script.pick(("127.0.0.1", "localhost", "elsewhere.example", "", "a:b:c")), "Connection": "close"}
    headers["Content-Length"] = script.pick((str(len(body)), str(len(body)), "-1", "99999999999", "x"))
    headers["Content-Type"] = script.pick(
        ("application/json", "application/x-www-form-urlencoded", "x", "multipart/form-data")
    )
    match script.byte() % 6:
        case 0:
            headers["Authorization"] = f"Bearer {script.bytes().decode('latin-1')}"
        case 1:
            headers["Cookie"] = f"session={script.bytes().decode('latin-1')}"
        case 2:
            headers["Range"] = script.pick(("bytes=0-", "bytes=-1", "bytes=9-1", "bytes=0-1,1-2", "x"))
        case 3:
            headers["Transfer-Encoding"] = script.pick(("chunked", "gzip", "chunked, chunked"))
        case _:
            pass
    head = f"{script.pick(METHODS)} {path} HTTP/1.1\r\n" + "".join(
        f"{name}: {value}\r\n" for name, value in headers.items()
    )
    whole = head.encode("latin-1", "replace") + b"\r\n" + body
    return whole if script.byte() % 3 else script.spoilt(whole)


def publish(script: Script) -> bytes:
    """A message that nobody honest sends, to the coordinator or to the agent."""
    kind = script.pick([*sorted(topics.UP_KINDS), "status", *sorted(topics.DOWN_KINDS), "announce"])
    device = script.pick(DEVICES)
    match kind:
        case "status":
            topic = f"{topics.ROOT}/{POPULATION}/status/{device}"
        case "announce":
            topic = topics.announce(POPULATION)
        case _ if kind in topics.DOWN_KINDS:
            topic = topics.down(POPULATION, AGENT, kind)
        case _:
            topic = f"{topics.ROOT}/{POPULATION}/up/0/{device}/{kind}"
    if script.byte() % 8 == 0:
        topic = script.spoilt(topic.encode()).decode(errors="replace")
    payload = script.spoilt(said(kind, script))
    level = script.byte() % 2
    behind = (1 + script.byte()).to_bytes(2, "big") if level else b""
    return packet(0x30 | level << 1, text(topic) + behind + payload)


def said(kind: str, script: Script) -> bytes:
    """A message of its kind as it could be, of a round that there is not."""
    match kind:
        case "dropout":
            return messages.encode(messages.Dropout(round=9, attempt=1, cause=script.pick(CAUSES)))
        case "query":
            return messages.encode(messages.Query(round=9, attempt=1, chunks=script.byte()))
        case "status":
            return messages.encode(Status(online=script.byte() % 2 == 0, state="training"))
        case _ if kind in CONTROL:
            text_of = msgspec.json.encode(CONTROL[kind])
            sealed = messages.Sealed(signed=text_of.decode())
            return msgspec.json.encode(sealed) if kind in messages.SIGNED else text_of
        case _:
            return script.bytes()


def raw(script: Script) -> bytes:
    """A packet of any type, its length perhaps not its own."""
    whole = packet(script.pick(PACKETS), script.bytes())
    return whole if script.byte() % 2 else whole[:1] + bytes([script.byte()]) + whole[2:]


def status(answer: bytes) -> int:
    """The status of an answer over HTTP; 0 if it is none."""
    found = re.match(rb"HTTP/1\.[01] (\d{3})", answer)
    return int(found[1]) if found else 0


def timed(ask: Callable[[], bytes]) -> tuple[float, bytes]:
    """The shortest time of some tries until an answer came, and the answer."""
    shortest_s, answer = math.inf, b""
    for _ in range(TRIES):
        begin_s = time.monotonic()
        answer = ask()
        shortest_s = min(shortest_s, time.monotonic() - begin_s)
        if shortest_s <= WITHIN_S and answer:
            break
    return shortest_s, answer


@contextlib.contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A database that another process writes."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=SILENCE_S)) as database:
        yield database


def digest(database: sqlite3.Connection, table: str) -> str:
    """A hash of all rows of a table."""
    rows = sorted(map(repr, database.execute(f"SELECT * FROM {table}")))
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def coordinator_app(folder: Path) -> Flask:
    """The coordinator's application, for its paths; it writes the model into the folder."""
    service = Service(folder)
    service.database.close()
    return service.app


def keyboard_app() -> Flask:
    """The keyboard's application, for its paths: it answers nothing."""
    nothing: Any = None
    return keyboard(nothing, nothing, nothing, nothing, "")


def paths_of(app: Flask) -> tuple[str, ...]:
    """The paths of an application, but files and a stream of events that ends after minutes."""
    return tuple(sorted(rule.rule for rule in app.url_map.iter_rules() if rule.endpoint not in NOT_ASKED))


class Guided:
    """Scripts that brought a line which none before them had executed, and those that are tried."""

    def __init__(self, seed: int) -> None:
        self._rng, self.lines = random.Random(seed), 0
        CORPUS.mkdir(parents=True, exist_ok=True)
        seeds = [path for folder in (CORPUS, FOUND / "sequences") if folder.is_dir() for path in folder.iterdir()]
        self._pool = [path.read_bytes()[:400] for path in sorted(seeds)] or [bytes(8)]
        self._untried = list(self._pool)

    def next(self) -> bytes:
        """A script of before, changed; first each of them as it is."""
        if self._untried:
            return self._untried.pop()
        rng = self._rng
        script = bytearray(rng.choice(self._pool) if rng.random() < 0.7 else rng.randbytes(rng.randrange(1, 200)))
        if rng.random() < 0.3:
            other = rng.choice(self._pool)
            script = script[: rng.randrange(len(script) + 1)] + other[rng.randrange(len(other) + 1) :]
        for _ in range(rng.randrange(6) if script else 0):
            script[rng.randrange(len(script))] = rng.randrange(256)
        return bytes(script[:400])

    def learn(self, script: bytes, new_lines: int) -> None:
        """Keep a script that led anywhere new."""
        self.lines += new_lines
        if new_lines:
            self._pool.append(script)
            (CORPUS / hashlib.sha256(script).hexdigest()[:16]).write_bytes(script)


@contextlib.contextmanager
def running() -> Iterator[Running]:
    """Both processes, in a folder of their own."""
    with (
        tempfile.TemporaryDirectory(prefix="nightjar-fuzz-") as folder,
        contextlib.closing(Running(Path(folder))) as found,
    ):
        yield found


def attempt(found: Running, scripts: list[bytes]) -> None:
    """Run the last of the scripts of a life; a defect leaves all of them in a file."""
    try:
        found.run(Script(scripts[-1]))
    except BaseException:
        FOUND.mkdir(parents=True, exist_ok=True)
        written = msgspec.msgpack.encode(scripts)
        path = FOUND / f"sockets-{hashlib.sha256(written).hexdigest()[:12]}"
        path.write_bytes(written)
        sys.stderr.write(f"fuzz: the scripts are in {path}\n")
        raise


def fuzz(runs: int, seed: int) -> None:
    """So many scripts."""
    guided, begin_s, done = Guided(seed), time.monotonic(), 0
    while done < runs:
        with running() as found:
            scripts: list[bytes] = []
            for _ in range(min(SCRIPTS_OF_A_LIFE, runs - done)):
                scripts.append(guided.next())
                attempt(found, scripts)
                guided.learn(scripts[-1], found.new_lines())
                done += 1
                if done % 100 == 0:
                    say(f"fuzz: {done:,} of {runs:,} over sockets in {time.monotonic() - begin_s:.0f} s")
    say(
        f"fuzz: {runs:,} over sockets in {time.monotonic() - begin_s:.0f} s, {guided.lines:,} new lines after the start"
    )


def replay(path: str) -> None:
    """Run the scripts of a life again."""
    with running() as found:
        for script in msgspec.msgpack.decode(Path(path).read_bytes(), type=list[bytes]):
            attempt(found, [script])


if __name__ == "__main__":
    run(__doc__, fuzz, replay, 2_000, "sequences over sockets")
