"""Restarts in the middle of a round, as systemd does them: nobody is refused, and no device notices."""

import contextlib
import http.client
import json
import queue
import re
import socket
import threading
import time

import pytest

from tests.faults.world import Coordinator, Phones, check_ledger, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.slow]

PATIENCE_S = 120


class Activated(Coordinator):
    """Started on a listening socket that outlives it, and watched, as systemd does."""

    def __init__(self, folder, broker_port, **task):
        super().__init__(folder, broker_port, **task)
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=1024)
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._line.bind(str(folder / "n"))
        self._heard = queue.SimpleQueue()
        self._ear = threading.Thread(target=self._listen, daemon=True)
        self._ear.start()
        self._given = (self._listener.fileno(),)
        script = (
            f"NOTIFY_SOCKET='{folder / 'n'}' WATCHDOG_USEC=120000000 LISTEN_FDS=1 LISTEN_PID=$$ "
            f'exec "$@" 3<&{self._listener.fileno()}'
        )
        self._command = ["bash", "-c", script, "bash", *self._command]

    def _listen(self):
        with contextlib.suppress(OSError):
            while (heard := self._line.recv(100)) != b"over":
                self._heard.put(heard.decode())

    def wait_for(self, message):
        while self._heard.get(timeout=PATIENCE_S) != message:
            pass

    def restart(self):
        """As ``systemctl restart``; how long nobody was served."""
        before = time.monotonic()
        assert self.stop() == 0
        self.start()
        self.wait_for("STOPPING=1")
        self.wait_for("READY=1")
        return time.monotonic() - before

    def __exit__(self, *arguments):
        super().__exit__(*arguments)
        self._listener.close()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
            last.sendto(b"over", str(self.folder / "n"))
        self._ear.join(PATIENCE_S)
        self._line.close()


class Visitors:
    """Many that fetch all the time, each time on a connection of their own."""

    def __init__(self, port, paths):
        self.refused, self.longest_s, self.answered = [], 0.0, 0
        self._port, self._over = port, threading.Event()
        self._threads = [threading.Thread(target=self._visit, args=(path,)) for path in paths]

    def _visit(self, path):
        while not self._over.wait(0.02):
            began = time.monotonic()
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_S)
                connection.request("GET", path)
                answer = connection.getresponse()
                answer.read()
                connection.close()
                if answer.status != 200 and path != "/healthz":
                    self.refused.append((path, answer.status))
            except (OSError, http.client.HTTPException) as error:
                self.refused.append((path, repr(error)))
            self.longest_s = max(self.longest_s, time.monotonic() - began)
            self.answered += 1

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)


def current_artifact(coordinator):
    state = coordinator.wait_until(lambda state: state["versions"], "a version")
    return f"/artifacts/{state['versions'][-1]['manifest']}"


def test_restarted_in_mid_round_no_request_fails_and_no_report_is_lost(tmp_path, mosquitto):
    coordinator = Activated(tmp_path / "c", mosquitto.port, rounds=3, goal=3, minimum=3)
    phones = Phones(tmp_path / "phones", [f"phone-{i}" for i in range(3)], mosquitto.port, coordinator.url)
    phones.hold("training")
    with coordinator, phones:
        coordinator.wait_for("READY=1")
        coordinator.wait_for("WATCHDOG=1")
        coordinator.wait_until(lambda state: (state["round"] or {}).get("phase") == "reporting", "a round under way")
        paths = ["/healthz", "/api/v1/counters", current_artifact(coordinator), current_artifact(coordinator)]
        with Visitors(coordinator.port, paths) as visitors:
            gaps_s = [coordinator.restart()]
            state = coordinator.wait_until(lambda state: state["round"], "the page")
            assert state["round"]["number"] == 1, "the round that was open goes on"
            phones.let_go("training")
            coordinator.wait_until(lambda state: state["counters"]["rounds_committed"] >= 1, "a round")
            gaps_s.append(coordinator.restart())
            coordinator.wait_done()
        assert visitors.refused == []
        print(json.dumps({"gaps_s": gaps_s, "longest_s": visitors.longest_s, "answered": visitors.answered}))
        assert visitors.longest_s < PATIENCE_S
    assert phones.starts == 1, "no agent needed a restart"
    assert coordinator.starts == 3
    ledger = check_ledger(coordinator, phones)
    assert (ledger["committed"], ledger["abandoned"], ledger["reports"]) == (3, 0, 9)
    assert len(re.findall("event=coordinator_stopping", coordinator.log())) == 3


def test_a_coordinator_that_is_killed_leaves_its_visitors_waiting_and_not_refused(tmp_path, mosquitto):
    coordinator = Activated(tmp_path / "c", mosquitto.port)
    with coordinator:
        coordinator.wait_for("READY=1")
        coordinator.kill()
        waiting = http.client.HTTPConnection("127.0.0.1", coordinator.port, timeout=PATIENCE_S)
        waiting.request("GET", "/api/v1/counters")
        coordinator.start()
        with waiting.getresponse() as answer:
            assert answer.status == 200
            answer.read()
        waiting.close()
        wait_until(lambda: (coordinator.get("/healthz") or b"").startswith(b'{"ok":true'), coordinator.log)
