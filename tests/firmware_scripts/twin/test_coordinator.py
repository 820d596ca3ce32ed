import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from nightjar.firmware_scripts.twin.coordinator import Coordinator
from nightjar.wire.errors import ConfigError, UnavailableError

ROUNDS = [
    {"number": 4, "phase": "selection"},
    {"number": 3, "phase": "committed"},
    {"number": 2, "phase": "abandoned"},
    {"number": 1, "phase": "committed"},
]
SEATS = {
    1: [{"device": "porch", "state": "reported"}],
    2: [{"device": "porch", "state": "reported"}],
    3: [{"device": "porch", "state": "dropped"}, {"device": "attic", "state": "reported"}],
}


@pytest.fixture
def served():
    """A coordinator's API, as far as a twin asks it; what is asked for with a token needs the right one."""
    answers = {
        "/api/v1/devices/porch": {"state": "training", "reason": ""},
        "/api/v1/rounds?limit=1": {"items": ROUNDS[:1]},
        "/api/v1/rounds?limit=20": {"items": ROUNDS},
        **{f"/api/v1/rounds/{number}": {"seats": seats} for number, seats in SEATS.items()},
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            if self.headers.get("Authorization") == "Bearer wrong":
                self.send_error(403)
            elif self.path not in answers:
                self.send_error(404)
            else:
                data = json.dumps(answers[self.path]).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_only_a_report_in_a_committed_round_counts(served):
    coordinator = Coordinator(served, "", "")
    assert coordinator.counted("attic", 0) == 3
    assert coordinator.counted("porch", 0) == 1
    assert coordinator.counted("porch", 1) is None  # what counted before the twin was switched on is not its merit
    assert coordinator.newest_round() == 4


def test_a_device_that_nobody_heard_of_is_none(served):
    coordinator = Coordinator(served, "", "")
    assert coordinator.device("porch") == {"state": "training", "reason": ""}
    assert coordinator.device("cellar") is None


def test_a_coordinator_that_wants_a_token_is_said_with_the_variable(served):
    with pytest.raises(UnavailableError, match="NIGHTJAR_TOKEN"):
        Coordinator(served, "", "wrong").device("porch")


def test_one_that_is_not_there_is_said():
    with pytest.raises(UnavailableError, match="does not answer"):
        Coordinator("http://127.0.0.1:1", "", "").device("porch")


@pytest.mark.parametrize(("url", "authority"), [("ftp://x", ""), ("127.0.0.1:8080", ""), ("https://x", "no PEM")])
def test_what_cannot_be_used_is_refused(url, authority):
    with pytest.raises(ConfigError):
        Coordinator(url, authority, "")
