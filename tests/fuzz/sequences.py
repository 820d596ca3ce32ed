"""Fuzzes a running coordinator and a running agent with sequences of messages, requests, losses and kills.

An input is a script: its bytes choose what happens next and what the hostile part of it is (:class:`Script`). The
coordinator is the driver with its database and the web application; the agent is the driver with its store. What they
would reach over sockets is handed to them, so that a sequence takes milliseconds. A defect is an exception that
nothing expected, an answer of 500, or a coordinator or agent that does not do an honest device's next step afterwards.

``python -m tests.fuzz.sequences`` mutates scripts; ``tests.fuzz.guided --sequences`` lets libFuzzer do it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import structlog

from nightjar.coordinator.access import Role
from nightjar.coordinator.records.inbox import BrokerConnected, BrokerDisconnected, MessageArrived
from nightjar.edge_agent.core.eligibility import Condition
from nightjar.edge_agent.inbox import Arrived
from nightjar.wire import messages, topics
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import Assignment
from tests.coordinator.fake_device import report_frame
from tests.coordinator.fakes import POPULATION
from tests.coordinator.model_folder import LAYOUT
from tests.coordinator.web.test_api import Service
from tests.edge_agent.fakes import Phone
from tests.fuzz.decoders import FOUND, run, say
from tests.fuzz.targets import CONTROL

T = TypeVar("T")

STEPS = 24
"""Most steps of a script."""
SCRIPTS_OF_A_LIFE = 100
"""Scripts before the next coordinator and agent: some states are only reached by many."""
DEVICES = ("a", "b", "c", "nobody", "A b", "\N{LATIN SMALL LETTER A WITH DIAERESIS}", "x" * 200)
CAUSES = tuple(messages.DropoutCause)
NOT_ASKED = {"static", "pages.live"}
"""Endpoints that are not fuzzed: files, and a stream of events that ends after minutes."""
VALUES = ("a", "0", "1", "keyboard", "7", "9" * 20, "%2e%2e", "%00", "x" * 300, "-1")
FIELDS = (
    *("name", "reason", "task", "add", "remove", "role", "days", "hours", "uses", "prefix", "device", "settings"),
    *("labels", "approval", "version", "share", "text", "model", "codec", "plan", "mode", "goal", "minimum", "csr"),
    *("claim", "json"),
)
JUNK: tuple[Any, ...] = (
    *(None, True, 0, -1, 1, 2**31, 2**63, -(2**63), 1e308, -1e-308, 0.5, 1.0),
    *(
        "",
        "a",
        "0",
        "../../etc/passwd",
        "\x00",
        "\N{PILE OF POO}",
        "'; DROP TABLE rounds; --",
        "x" * 5000,
        "1e999",
        "nan",
    ),
    *([], [[[]]], {}, {"a": {"b": 1}}, [0] * 300, {"name": "topk-4", "density": 1e9}),
)


class Defect(Exception):  # noqa: N818 - it is what was found
    """Something answered as it must not."""


class Script:
    """Choices that are read from bytes, and zeros after them, so every input is a script."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def over(self) -> bool:
        """Whether all bytes are read."""
        return self._at >= len(self._data)

    def byte(self) -> int:
        """The next byte."""
        value = 0 if self.over else self._data[self._at]
        self._at += 1
        return value

    def pick(self, options: Sequence[T]) -> T:
        """One of them."""
        return options[self.byte() % len(options)]

    def bytes(self) -> bytes:
        """Some bytes as they are."""
        size = self.byte()
        taken = self._data[self._at : self._at + size]
        self._at += size
        return taken

    def spoilt(self, payload: bytes) -> bytes:
        """A message with something wrong, or as it is."""
        match self.byte() % 6:
            case 0:
                return payload
            case 1:
                return payload[: self.byte() * len(payload) // 255]
            case 2 if payload:
                at = self.byte() * (len(payload) - 1) // 255
                return payload[:at] + bytes([self.byte()]) + payload[at + 1 :]
            case 3:
                return self.bytes()
            case _:
                return self._with_junk(payload)

    def _with_junk(self, payload: bytes) -> bytes:
        try:
            found = json.loads(payload)
        except ValueError:
            return payload + self.bytes()
        inside = found
        while isinstance(inside, dict) and inside:
            key = self.pick(sorted(inside))
            if not isinstance(inside[key], dict) or self.byte() % 2:
                inside[key] = self.pick(JUNK)
                if self.byte() % 8 == 0:
                    del inside[key]
                break
            inside = inside[key]
        return json.dumps(found).encode()


class FuzzedCoordinator:
    """A coordinator with three honest devices, strangers, and people with and without tokens."""

    def __init__(self, folder: Path) -> None:
        self.service = Service(folder, unlimited=True)
        self.service.app.config["PROPAGATE_EXCEPTIONS"] = True
        self.world = self.service.world
        self.tokens = [None, "", "x" * 43, *(self.service.token(role) for role in Role)]
        rules = list(self.service.app.url_map.iter_rules())
        self._routes = [(rule.rule, sorted(rule.methods or ())) for rule in rules if rule.endpoint not in NOT_ASKED]

    def close(self) -> None:
        """Free what it holds."""
        self.service.database.close()

    def run(self, script: Script) -> None:
        """Let the script happen; then an honest device must be heard."""
        for _ in range(STEPS):
            if script.over:
                break
            step = script.pick((self._message, self._message, self._request, self._request, self._elsewhere))
            step(script)
        self.world.driver.handle(BrokerConnected())
        self.world.listen()
        self.world.check_in("honest")
        if self.world.tables.leases.get(DeviceId("honest")) is None:
            raise Defect("an honest device is not heard any more")
        answer = self.service.ask("GET", "/api/v1/rounds")
        if answer.status_code != 200:
            raise Defect(f"GET /api/v1/rounds answers {answer.status_code} afterwards")

    def _message(self, script: Script) -> None:
        device, kind = script.pick(DEVICES), script.pick([*sorted(topics.UP_KINDS), "status"])
        if kind == "status":
            topic = f"nightjar/1/{POPULATION}/status/{device}"
        else:
            topic = f"nightjar/1/{POPULATION}/up/{script.pick((0, 0, 1, 99))}/{device}/{kind}"
        if script.byte() % 16 == 0:
            topic = script.spoilt(topic.encode()).decode(errors="replace")
        payload = script.spoilt(self._honest(device, kind, script))
        self.world.driver.handle(MessageArrived(topic, payload, script.byte() % 8 == 0, lambda: None))

    def _honest(self, device: str, kind: str, script: Script) -> bytes:
        assigned = self.world.transport.to(device, Assignment)
        number, attempt = (assigned[-1].round, assigned[-1].attempt) if assigned else (1, 1)
        match kind:
            case "check-in":
                said = messages.CheckIn(agent_version="0.1.0", runtime="none", examples=10, codecs=("topk-4",))
                return messages.encode(said)
            case "report" if assigned:
                delta = np.full(LAYOUT.size, script.byte() / 100, np.float32)
                return report_frame(assigned[-1], delta, LAYOUT)
            case "dropout":
                return messages.encode(messages.Dropout(round=number, attempt=attempt, cause=script.pick(CAUSES)))
            case "query":
                return messages.encode(messages.Query(round=number, attempt=attempt, chunks=script.byte()))
            case "status":
                return messages.encode(messages.Status(online=script.byte() % 2 == 0, state="training"))
            case _:
                return script.bytes()

    def _request(self, script: Script) -> None:
        rule, methods = script.pick(self._routes)
        path = ""
        for part in rule.split("/"):
            value = script.pick(
                ("a", "0", "1", "keyboard", "7", "99999999999999999999", "%2e%2e", "%00", "x" * 300, "-1")
            )
            path += "/" + (value if part.startswith("<") else part)
        options: dict[str, Any] = {}
        if script.byte() % 3 == 0:
            name = script.pick(("before", "after", "version", "labels", "state", "limit", "q", "device", "until"))
            options["query_string"] = {name: str(script.pick(JUNK))[:2000]}
        match script.byte() % 4:
            case 0:
                options["json"] = {script.pick(FIELDS): script.pick(JUNK) for _ in range(script.byte() % 4)}
            case 1:
                options["data"] = {script.pick(FIELDS): str(script.pick(JUNK)) for _ in range(script.byte() % 4)}
            case 2:
                options |= {"data": script.bytes(), "content_type": script.pick(("application/json", "text/x", ""))}
        method = script.pick([*methods, "PATCH"])
        answer = self.service.ask(method, path.replace("//", "/"), script.pick(self.tokens), **options)
        if answer.status_code >= 500 and answer.status_code != 503:
            raise Defect(f"{method} {path} {options} answers {answer.status_code}")

    def _elsewhere(self, script: Script) -> None:
        match script.byte() % 7:
            case 0:
                self.world.tick(script.pick((0.1, 3.0, 61.0, 700.0, 90_000.0)))
            case 1:
                self.world.tick(-script.pick((0.1, 61.0, 90_000.0)))
            case 2 | 3:
                self.world.work()
            case 4:
                self.world.driver.handle(BrokerDisconnected())
                self.world.driver.handle(BrokerConnected())
            case 5:
                self.world.start()  # killed, and started again
            case _:
                self.world.check_in("a", "b", "c")


class FuzzedAgent:
    """An agent that hears whatever its coordinator may say."""

    def __init__(self, folder: Path) -> None:
        self.phone = Phone(folder)
        self.phone.driver.begin()

    def close(self) -> None:
        """Free what it holds."""
        self.phone.database.close()

    def run(self, script: Script) -> None:
        """Let the script happen; then it must still say that it is there."""
        phone = self.phone
        for _ in range(STEPS):
            if script.over:
                break
            match script.byte() % 8:
                case 0 | 1 | 2 | 3:
                    self._hear(script)
                case 4:
                    phone.pass_time(script.pick((0.5, 60.0, 600.0, 90_000.0)))
                case 5:
                    if phone.worker.jobs:
                        phone.work()
                case 6:
                    phone.conditions.lost ^= {script.pick([c for c in Condition if c is not Condition.HAS_EXAMPLES])}
                case _:
                    phone.kill()
        phone.conditions.lost.clear()
        while phone.worker.jobs:
            phone.work()
        phone.pass_time(90_000.0)
        phone.pass_time(1.0)
        phone.kill()
        if not phone.transport.of("status"):
            raise Defect("the agent says nothing any more")

    def _hear(self, script: Script) -> None:
        kind = script.pick([*sorted(topics.DOWN_KINDS), "announce"])
        payload = script.spoilt(self._honest(kind, script))
        if kind in messages.SIGNED:
            payload = msgspec.json.encode(messages.Sealed(signed=payload.decode(errors="replace")))
            payload = script.spoilt(payload) if script.byte() % 4 == 0 else payload
        where = topics.announce(POPULATION)
        if kind != "announce":
            where = topics.down(POPULATION, DeviceId("phone"), kind)
        self.phone.driver.handle(Arrived(where, payload))

    def _honest(self, kind: str, script: Script) -> bytes:
        if kind not in CONTROL:
            return script.bytes()
        said = dict(CONTROL[kind])
        if "manifest" in said:
            said["manifest"] = self.phone.model.sha256
        if "round" in said:
            said["round"] = script.byte() % 4 + 1
        return json.dumps(said).encode()


def quiet() -> None:
    """No log lines: there are thousands for each second."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


class Sequences:
    """Runs scripts on a coordinator and an agent in turn; a defect leaves all scripts of their life in a file."""

    def __init__(self) -> None:
        self.steps, self._scripts = Counter[str](), []
        self._begin()

    def attempt(self, data: bytes) -> None:
        """One script, for the coordinator if its first byte is even.

        Raises:
            Exception: whatever nothing expected; ``build/fuzz/sequence-*`` holds the scripts that led there.
        """
        if len(self._scripts) == SCRIPTS_OF_A_LIFE:
            self.close()
            self._begin()
        self._scripts.append(data)
        name, target = self._targets[(data[0] if data else 0) % len(self._targets)]
        try:
            target(Script(data[1:]))
        except BaseException as error:
            FOUND.mkdir(parents=True, exist_ok=True)
            written = msgspec.msgpack.encode(self._scripts)
            path = FOUND / f"sequence-{hashlib.sha256(written).hexdigest()[:12]}"
            path.write_bytes(written)
            sys.stderr.write(f"fuzz: the {name} raised {type(error).__name__}; the scripts are in {path}\n")
            raise
        self.steps[name] += 1

    def _begin(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="nightjar-fuzz-")
        here = Path(self._folder.name)
        (here / "agent").mkdir()
        self._scripts = []
        self._coordinator, self._agent = FuzzedCoordinator(here), FuzzedAgent(here / "agent")
        self._targets: list[tuple[str, Callable[[Script], None]]] = [
            ("coordinator", self._coordinator.run),
            ("agent", self._agent.run),
        ]

    def close(self) -> None:
        """End the coordinator and the agent."""
        self._coordinator.close()
        self._agent.close()
        self._folder.cleanup()


def fuzz(runs: int, seed: int) -> None:
    """So many scripts, each new or a mutation of an earlier one."""
    quiet()
    rng, pool, begin_s = random.Random(seed), [bytes(8)], time.monotonic()
    with contextlib.closing(Sequences()) as sequences:
        for number in range(runs):
            script = bytearray(rng.choice(pool) if rng.random() < 0.5 else rng.randbytes(rng.randrange(1, 200)))
            for _ in range(rng.randrange(4)):
                script[rng.randrange(len(script))] = rng.randrange(256)
            sequences.attempt(bytes(script))
            pool = [*pool[-200:], bytes(script)]
            if number % 1000 == 999:
                say(f"fuzz: {number + 1:,} of {runs:,} sequences in {time.monotonic() - begin_s:.0f} s")
    counts = ", ".join(f"{count:,} of the {name}" for name, count in sorted(sequences.steps.items()))
    say(f"fuzz: {runs:,} sequences in {time.monotonic() - begin_s:.0f} s: {counts}")


def replay(path: str) -> None:
    """Run the scripts of a life again."""
    with contextlib.closing(Sequences()) as sequences:
        for script in msgspec.msgpack.decode(Path(path).read_bytes(), type=list[bytes]):
            sequences.attempt(script)


if __name__ == "__main__":
    run(__doc__, fuzz, replay, 20_000, "sequences")
