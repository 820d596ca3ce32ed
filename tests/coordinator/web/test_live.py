import contextlib
import socket
import threading
import urllib.request

import pytest

from nightjar.coordinator.access import Role
from nightjar.coordinator.web import live
from nightjar.coordinator.web.live import MOST_STREAMS, Pulse
from nightjar.wire.errors import UnavailableError
from tests.coordinator.web.conftest import Served

pytestmark = pytest.mark.slow


def pulse_of(*states, **options):
    left = list(states)
    return Pulse(lambda: left.pop(0) if len(left) > 1 else left[0], poll_s=0.0, **options)


def test_the_revision_changes_when_there_is_something_new_and_only_then():
    pulse = pulse_of("a", "a", "b")
    first = pulse.revision()
    assert pulse.revision() == first
    assert pulse.revision() != first


def test_another_process_has_other_revisions():
    assert pulse_of("a").revision() != pulse_of("a").revision()


def test_it_is_found_out_once_for_all_who_ask():
    asked = []
    pulse = Pulse(lambda: asked.append(1), poll_s=60.0)
    assert len({pulse.revision() for _ in range(5)}) == 1
    assert len(asked) == 1


def test_a_database_that_cannot_be_read_is_something_new():
    def read():
        raise UnavailableError("locked")

    pulse = Pulse(read, poll_s=0.0)
    assert pulse.revision() == pulse.revision()


def test_whoever_waits_is_told_at_once_when_everything_ends():
    pulse = Pulse(lambda: 1, poll_s=30.0)
    threading.Timer(0.05, pulse.close).start()
    assert pulse.wait(pulse.revision(), 600.0) == pulse.revision()


@pytest.fixture
def served(tmp_path):
    made = Served(tmp_path, lived=False)
    with made.on():
        yield made
    made.close()


def stream(stack, served, query=""):
    one = stack.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=60))
    one.sendall(f"GET /live{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return one


def read_until(one, text):
    came = b""
    while text not in came:
        got = one.recv(4096)
        assert got, came
        came += got
    return came


def test_news_arrive_with_their_revision_and_whoever_has_it_hears_nothing(served, monkeypatch):
    monkeypatch.setattr(live, "AT_MOST_EVERY_S", 0.0)
    monkeypatch.setattr(live, "HEARTBEAT_S", 0.2)
    now = served.service.app.extensions["pulse"].revision()
    with contextlib.ExitStack() as stack:
        one = stream(stack, served, f"?seen={now}")
        came = read_until(one, b"event: beat")
        assert b"Content-Type: text/event-stream" in came
        assert b"data: changed" not in came
        served.service.world.check_in("b")
        assert b"id: " in read_until(one, b"data: changed")


def test_streams_never_hold_up_anybody_else_and_there_are_no_more_than_so_many(served):
    with contextlib.ExitStack() as stack:
        for _ in range(MOST_STREAMS):
            read_until(stream(stack, served), b"retry: ")
        with urllib.request.urlopen(f"{served.url}/healthz", timeout=60) as answer:
            assert answer.status == 200
        assert b" 503 " in read_until(stream(stack, served), b"\r\n")
    answer = served.service.ask("GET", "/rounds", served.tokens[Role.VIEWER])
    assert answer.status_code == 200


def test_who_hangs_up_makes_room_at_once(served):
    for _ in range(3):
        with contextlib.ExitStack() as stack:
            for _ in range(MOST_STREAMS // 2):
                read_until(stream(stack, served), b"retry: ")
        slots = served.service.app.extensions["pulse"].slots
        taken = [slots.acquire(timeout=60) for _ in range(MOST_STREAMS)]
        assert all(taken)
        for _ in taken:
            slots.release()


def test_an_end_of_the_service_ends_the_streams(tmp_path):
    served = Served(tmp_path, lived=False)
    with contextlib.ExitStack() as stack:
        with served.on():
            one = stream(stack, served)
            read_until(one, b"data: changed")
        while one.recv(4096):
            pass
    served.close()
