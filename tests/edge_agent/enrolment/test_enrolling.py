"""Who may answer in the coordinator's place, and what an answer may change."""

import ssl
import threading
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer

import msgspec
import pytest

from nightjar.coordinator.config import CoordinatorConfig, TaskConfig
from nightjar.coordinator.engine.clock import WallClock
from nightjar.coordinator.tls.contexts import FOLDER
from nightjar.coordinator.tls.files import broker_pair, coordinator_pair, refresh
from nightjar.edge_agent.enrolment.enrolling import enrol, refreshed
from nightjar.edge_agent.enrolment.identity import EnrolledIdentity, held_identity, keep
from nightjar.edge_agent.enrolment.keys import next_key
from nightjar.wire.enrolment import Enrolled
from nightjar.wire.errors import ConfigError, UnavailableError
from tests.enrolment.in_this_process import InThisProcess

OURS, THEIRS = "a" * 64, "e" * 64


class Answering(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.server.answer)))
        self.end_headers()
        self.wfile.write(self.server.answer)

    def log_message(self, *_):
        pass


class Household:
    """The files of a coordinator's servers, and a device that enrolled there."""

    def __init__(self, folder):
        now_s = WallClock().now_s()
        authority = InThisProcess(folder / "authority", now_s)
        config = CoordinatorConfig(task=TaskConfig(model=folder), data_dir=folder / "coordinator")
        refresh(config, authority, [], now_s)
        self.tls, self.data_dir = config.data_dir / FOLDER, folder / "device"
        key, csr = next_key(self.data_dir)
        self.certificate = authority.authority.certify_device(csr, "pi", 90.0, now_s)
        self.authorities, self.expires_s = authority.authority.certificates(), now_s + 1e6
        self.held = EnrolledIdentity(**self.said(), coordinator_url="https://127.0.0.1:1")
        keep(self.data_dir, self.held, key + self.certificate.encode())

    def said(self, **changes):
        same = {"device": "pi", "population": "demo", "authorities": self.authorities, "coordinator_key": OURS}
        times = {"expires_s": self.expires_s, "renew_s": self.expires_s}
        return same | times | {"broker_host": "127.0.0.1", "broker_port": 8883} | changes

    @contextmanager
    def answering(self, pair_of, **changes):
        """The device's identity, as if its coordinator were who answers with this certificate."""
        server = HTTPServer(("127.0.0.1", 0), Answering)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*pair_of(self.tls))
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.answer = msgspec.json.encode(Enrolled(certificate=self.certificate, **self.said(**changes)))
        thread = threading.Thread(target=partial(server.serve_forever, 0.01))
        thread.start()
        try:
            url = f"https://127.0.0.1:{server.server_address[1]}"
            yield msgspec.structs.replace(self.held, coordinator_url=url)
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


@pytest.fixture
def household(tmp_path):
    return Household(tmp_path)


def test_a_brokers_certificate_is_not_accepted_as_the_coordinators(household):
    with (
        household.answering(broker_pair, coordinator_key=THEIRS, broker_host="evil.example") as identity,
        pytest.raises(UnavailableError, match=r"coordinator\.nightjar\.internal"),
    ):
        refreshed(household.data_dir, identity)
    assert held_identity(household.data_dir) == household.held


def test_an_answer_changes_addresses_and_never_the_key_that_signs_orders(household):
    with household.answering(coordinator_pair, coordinator_key=THEIRS, broker_host="pi.local") as identity:
        found = refreshed(household.data_dir, identity)
    assert found == held_identity(household.data_dir)
    assert (found.broker_host, found.coordinator_key) == ("pi.local", OURS)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://127.0.0.1:1", "Connection refused"),
        ("https://nightjar.invalid", ""),  # whose words depend on the resolver
        ("https://127.0.0.1:99999", "Failed to parse: https://127.0.0.1:99999"),
    ],
)
def test_why_a_coordinator_cannot_be_reached_is_told_without_objects_of_python(household, url, why):
    with pytest.raises(UnavailableError) as failed:
        refreshed(household.data_dir, msgspec.structs.replace(household.held, coordinator_url=url))
    assert f"does not answer: {why}" in str(failed.value)
    assert "HTTPSConnection" not in str(failed.value)
    assert "(" not in str(failed.value)


def test_a_claim_that_cannot_be_looked_at_is_told_in_words(tmp_path):
    """Proven before: a damaged card, whose kernel does not even say what a file is, ended it with a traceback."""
    with pytest.raises(ConfigError, match=r"no claim to read at .*: File name too long"):
        enrol(tmp_path, tmp_path / ("n" * 300))
