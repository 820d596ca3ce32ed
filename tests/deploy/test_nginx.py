"""The proxy's configuration, in a real nginx before an application that says what arrives."""

import contextlib
import hashlib
import http.client
import os
import queue
import re
import shutil
import ssl
import subprocess
import threading
import time
from pathlib import Path

import pytest
from flask import Flask, Response, request

from nightjar.coordinator.mqtt.broker import find_mosquitto, write_mosquitto_files
from nightjar.coordinator.mqtt.free_ports import free_ports
from nightjar.coordinator.mqtt.listeners import Listeners
from nightjar.coordinator.web.app import ARTIFACT_AGE_S
from nightjar.coordinator.web.server import serving
from nightjar.edge_agent.inbox import Arrived, LinkUp
from nightjar.edge_agent.shell.mqtt import BrokerAddress, MqttTransport
from tests.brokers import wait_for_port
from tests.deploy.certificates import write_certificate
from tests.processes import end

ROOT = Path(__file__).parents[2]
CONFIGURATION = (ROOT / "deploy" / "nginx.conf").read_text()
WEBSOCKET = re.search(r"```nginx\n(.*?)```", (ROOT / "docs" / "brokers.md").read_text(), re.DOTALL)[1]
STREAM = Path("/usr/lib/nginx/modules/ngx_stream_module.so")
NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
ARTIFACT = bytes(range(256)) * 4000
SHA256 = hashlib.sha256(ARTIFACT).hexdigest()
WITHOUT = pytest.mark.skipif(
    NGINX is None or not STREAM.exists(), reason="nginx is not installed: apt install nginx libnginx-mod-stream"
)


class Behind:
    """What stands for the coordinator."""

    def __init__(self) -> None:
        self.fetched = 0
        self.go_on = threading.Event()
        self.app = Flask(__name__)
        self.app.get("/artifacts/<sha256>")(self.artifact)
        self.app.get("/live")(self.live)
        self.app.get("/who")(self.who)
        self.app.post("/who", endpoint="post")(self.who)
        self.app.get("/metrics")(self.who)

    def artifact(self, sha256: str) -> Response:
        self.fetched += 1
        headers = {"Cache-Control": f"public, immutable, max-age={ARTIFACT_AGE_S}", "Accept-Ranges": "bytes"}
        return Response(ARTIFACT, headers=headers)

    def live(self) -> Response:
        def events():
            yield "data: first\n\n"
            assert self.go_on.wait(60)
            yield "data: second\n\n"

        return Response(events(), content_type="text/event-stream")

    def who(self) -> str:
        return f"{request.remote_addr} {request.scheme}"


class Site:
    def __init__(self, folder: Path, *more_hosts: int) -> None:
        """``more_hosts``: ports of coordinators beside the first."""
        self.folder, (self.port, self.plain_port, self.behind_port, self.broker_port, passed) = folder, free_ports(5)
        self.behind = Behind()
        chain = write_certificate(folder / "certificates")
        self.context = ssl.create_default_context(cafile=str(chain))
        (folder / "cache").mkdir()
        changes = {
            "server coordinator:8080;": "".join(
                f"server 127.0.0.1:{port} max_fails=0;" for port in (*more_hosts, self.behind_port)
            ),
            "        location / {": f"{WEBSOCKET}\n        location / {{",
            "mosquitto:9001": f"127.0.0.1:{self.broker_port}",
            "listen 8443": f"listen 127.0.0.1:{passed}",
            "proxy_pass coordinator:8443": f"proxy_pass 127.0.0.1:{self.behind_port}",
            "/etc/nginx/certificates": str(folder / "certificates"),
            "/var/cache/nginx": str(folder / "cache"),
            "/run/nginx.pid": str(folder / "nginx.pid"),
            "/dev/stderr": str(folder / "error.log"),
            "/dev/stdout": str(folder / "access.log"),
            "listen 443 ssl": f"listen 127.0.0.1:{self.port} ssl",
            "listen 80": f"listen 127.0.0.1:{self.plain_port}",
            "client_header_timeout 10s": "client_header_timeout 2s",
            # A test says which address it comes from.
            "server_tokens off;": "server_tokens off; set_real_ip_from 127.0.0.1; real_ip_header Test-Address;",
        }
        text = CONFIGURATION
        for old, new in changes.items():
            assert old in text, old
            text = text.replace(old, new)
        # Where it is started by root its children are nobody, who cannot enter a test's folder.
        folders = "".join(
            f"{kind}_temp_path {folder / kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        text = text.replace("server_tokens off;", f"server_tokens off; {folders}")
        text = f"load_module {STREAM};\n{text}"
        if os.geteuid() == 0:
            text = f"user root;\n{text}"
        (folder / "nginx.conf").write_text(text)
        self.command = [NGINX, "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")]

    def __enter__(self):
        self.process = subprocess.Popen([*self.command, "-g", "daemon off;"], stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not self._answers():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise AssertionError((self.folder / "error.log").read_text())
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        end(self.process, 60)

    def _answers(self):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.plain_port, timeout=10)
            connection.request("GET", "/")
            with connection.getresponse():
                return True
        except OSError:
            return False
        finally:
            connection.close()

    def connect(self):
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=self.context)

    def ask(self, path, method="GET", body=None, **headers):
        connection = self.connect()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body=body, headers=named)
        with connection.getresponse() as answer:
            found = answer.status, answer.read(), answer.headers
        connection.close()
        return found


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    made = Site(tmp_path_factory.mktemp("nginx"))
    with serving(made.behind.app, "127.0.0.1", made.behind_port, trusted_proxy="127.0.0.1"), made:
        yield made
        made.behind.go_on.set()


@WITHOUT
def test_nginx_takes_the_configuration_without_a_warning(tmp_path):
    done = subprocess.run([*Site(tmp_path).command, "-t"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "warn" not in done.stderr + (tmp_path / "error.log").read_text()


@WITHOUT
def test_plain_http_leads_to_https(site):
    connection = http.client.HTTPConnection("127.0.0.1", site.plain_port, timeout=60)
    connection.request("GET", "/rounds?before=3", headers={"Host": "nightjar.example"})
    with connection.getresponse() as answer:
        assert (answer.status, answer.headers["Location"]) == (301, "https://nightjar.example/rounds?before=3")
    connection.close()


@WITHOUT
def test_nobody_can_say_to_be_somebody_else(site):
    status, said, headers = site.ask("/who", X_Forwarded_For="203.0.113.7", X_Forwarded_Proto="http")
    assert (status, said) == (200, b"127.0.0.1 https")
    assert headers["Strict-Transport-Security"]


@WITHOUT
def test_an_artifact_is_fetched_once_and_then_served_from_the_cache_in_parts_as_well(site):
    for _ in range(3):
        assert site.ask(f"/artifacts/{SHA256}")[:2] == (200, ARTIFACT)
    status, part, headers = site.ask(f"/artifacts/{SHA256}", Range="bytes=1000-1999")
    assert (status, part) == (206, ARTIFACT[1000:2000])
    assert headers["Content-Range"] == f"bytes 1000-1999/{len(ARTIFACT)}"
    assert "immutable" in headers["Cache-Control"]
    assert site.behind.fetched == 1


@WITHOUT
def test_live_events_are_handed_on_at_once(site):
    connection = site.connect()
    connection.request("GET", "/live")
    with connection.getresponse() as answer:
        assert answer.readline() == b"data: first\n", "while the second is not even made"
        site.behind.go_on.set()
        assert answer.read().endswith(b"data: second\n\n")
    connection.close()


@WITHOUT
def test_the_metrics_are_not_for_everybody(site):
    assert site.ask("/metrics")[0] == 404


@WITHOUT
def test_what_is_larger_than_the_coordinator_takes_is_refused_before_it(site):
    assert site.ask("/who", "POST", b"x" * 70_000)[0] == 413
    assert site.ask("/who", "POST", b"x" * 1000)[0] == 200


@pytest.mark.slow
@WITHOUT
def test_a_head_that_is_too_large_is_refused_before_it_and_one_that_drips_is_ended(site):
    assert site.ask("/who", X="x" * 7000, Y="y" * 7000, Z="z" * 7000)[0] == 400
    assert site.ask("/who", X="x" * 7000)[0] == 200
    with contextlib.closing(site.connect()) as connection:
        connection.connect()
        connection.sock.settimeout(60)
        connection.sock.sendall(b"GET /who HTTP/1.1\r\nHost: loc")
        assert connection.sock.recv(1) == b""


@WITHOUT
def test_an_ipv6_network_has_one_limit_for_all_its_addresses(site):
    """Any client has 2^64 addresses; with a limit for each there was none."""
    connection = site.connect()
    for number in range(10_000):  # as fast as this machine can
        connection.request("GET", "/who", headers={"Test-Address": f"2001:db8::a0a:{number:x}"})
        with connection.getresponse() as answer:
            answer.read()
        if answer.status == 429:
            break
    connection.close()
    assert answer.status == 429
    assert site.ask("/who", Test_Address="2001:db8:0:1::1")[0] == 200


@WITHOUT
def test_one_address_cannot_take_all_the_time(site):
    connection = site.connect()
    statuses = []
    while 429 not in statuses and len(statuses) < 10_000:  # as fast as this machine can
        connection.request("GET", "/who")
        with connection.getresponse() as answer:
            answer.read()
            statuses.append(answer.status)
    connection.close()
    assert set(statuses) == {200, 429}
    assert site.ask(f"/artifacts/{SHA256}")[0] == 200, "devices have a limit of their own"


@WITHOUT
def test_no_token_and_no_query_is_logged(site):
    site.ask("/somewhere?secret=hush", Authorization="Bearer nj_hush")
    deadline = time.monotonic() + 60
    while not re.search(r'"GET /somewhere" (404|429)', logged := (site.folder / "access.log").read_text()):
        assert time.monotonic() < deadline, logged
        time.sleep(0.05)
    assert "hush" not in logged


@WITHOUT
@pytest.mark.skipif(not find_mosquitto(), reason="mosquitto is not installed on this machine")
def test_an_agent_reaches_the_broker_through_port_443(site, tmp_path):
    inside = write_mosquitto_files(Listeners("127.0.0.1", free_ports(1)[0], "", ""), tmp_path)
    websocket = f"listener {site.broker_port} 127.0.0.1\nprotocol websockets\nmax_inflight_messages"
    inside.write_text(inside.read_text().replace("max_inflight_messages", websocket, 1))
    broker = subprocess.Popen([find_mosquitto(), "-c", inside], stderr=subprocess.DEVNULL)
    posted = queue.Queue()
    address = BrokerAddress("127.0.0.1", site.port, "phone", tls=site.context, websocket=True)
    agent = MqttTransport(address, "phone", ("echo",), ("status", b""), posted.put)
    try:
        wait_for_port(site.broker_port)
        agent.start()
        assert posted.get(timeout=60) == LinkUp()
        assert agent.publish("echo", bytes(100_000))
        assert posted.get(timeout=60) == Arrived("echo", bytes(100_000))
    finally:
        agent.close("status", b"")
        broker.terminate()
        broker.wait(60)


@WITHOUT
def test_a_change_that_one_host_refuses_goes_to_the_host_that_leads(tmp_path):
    follower, (port,) = Flask("follower"), free_ports(1)
    refused = []
    follower.post("/who", endpoint="post")(lambda: (refused.append(1) or "ask the leader", 503))
    site = Site(tmp_path, port)
    with serving(follower, "127.0.0.1", port), serving(site.behind.app, "127.0.0.1", site.behind_port), site:
        asked = http.client.HTTPSConnection("127.0.0.1", site.port, timeout=60, context=site.context)
        for _ in range(6):
            asked.request("POST", "/who", b"{}")
            with asked.getresponse() as answer:
                assert answer.status == 200
                answer.read()
        asked.close()
    assert refused
