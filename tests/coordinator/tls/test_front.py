import contextlib
import socket
import ssl
import struct
import threading
import time

import pytest
import urllib3

from nightjar.coordinator.config import CoordinatorConfig, TaskConfig
from nightjar.coordinator.tls.authority import Authority, new_request
from nightjar.coordinator.tls.contexts import FOLDER
from nightjar.coordinator.tls.files import refresh
from nightjar.coordinator.tls.front import SERIAL, TlsFront, behind_front
from nightjar.coordinator.web.server import serving
from nightjar.wire.errors import ConfigError
from tests.enrolment.in_this_process import InThisProcess

# Python leaves a socket open that was reset between its connection and its wrapping; the front resets many of these.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning")

NOW_S = 1.7e9
BIG = bytes(range(256)) * 20_000


class House:
    def __init__(self, folder) -> None:
        import time

        self.folder = folder
        self.signer = InThisProcess(folder / "authority", time.time())  # noqa: TID251 - handshakes know no other clock
        self.config = CoordinatorConfig(task=TaskConfig(model=folder), data_dir=folder)
        refresh(self.config, self.signer, [], self.signer.now_s)
        self.asked: list[dict] = []
        self.hold = threading.Event()

    @contextlib.contextmanager
    def front(self, most: int = 100, trusted_proxy: str = ""):
        with socket.create_server(("127.0.0.1", 0)) as behind:
            port = behind.getsockname()[1]
            front = TlsFront("127.0.0.1", 0, self.folder / FOLDER, port, most, trusted_proxy=trusted_proxy)
            try:
                with serving(behind_front(self.answer, front.peer), "127.0.0.1", port, behind):
                    self.behind, self.port = port, front.port
                    yield front
            finally:
                front.close()

    def answer(self, environ, start_response):
        self.asked.append(environ)
        body = environ["wsgi.input"].read()
        start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(BIG) or len(body)))])
        return [BIG]

    def context(self, authority: Authority | None = None, days: float = 1) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata="".join(self.signer.authority.certificates()))
        context.check_hostname = False
        key, csr = new_request()
        authority = authority or self.signer.authority
        path = self.folder / "client.pem"
        path.write_text(key + authority.certify_device(csr, "pi", days, self.signer.now_s))
        context.load_cert_chain(path)
        return context

    def bare(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata="".join(self.signer.authority.certificates()))
        context.check_hostname = False
        return context

    def get(self, context, source=None, **options):
        with urllib3.PoolManager(
            ssl_context=context, assert_hostname=False, retries=False, source_address=source
        ) as pool:
            return pool.request("POST", f"https://127.0.0.1:{self.port}/x", timeout=20, **options)


@pytest.fixture
def house(tmp_path):
    return House(tmp_path)


def test_the_application_knows_who_asks_whatever_the_headers_say(house):
    with house.front():
        answer = house.get(
            house.context(), body=BIG[:60_000], headers={"Nightjar-Serial": "1", "X-Forwarded-For": "192.0.2.9"}
        )
        assert answer.data == BIG
        assert house.get(house.bare()).status == 200
    known, unknown = house.asked
    assert known[SERIAL].isdigit()
    assert (unknown[SERIAL], unknown["REMOTE_ADDR"], unknown["wsgi.url_scheme"]) == ("", "127.0.0.1", "https")


def test_certificates_that_are_no_good_end_the_handshake(house, tmp_path):
    stranger = Authority(tmp_path / "other/authority")
    with house.front():
        for context in (house.context(stranger), house.context(days=-0.5)):
            with pytest.raises(urllib3.exceptions.HTTPError):
                house.get(context)
    assert not house.asked


def test_who_comes_round_the_front_is_refused(house):
    with house.front():
        answer = urllib3.request("GET", f"http://127.0.0.1:{house.behind}/x", headers={SERIAL: "5"}, retries=False)
    assert (answer.status, house.asked) == (421, [])


def test_who_comes_round_the_front_from_the_port_of_a_device_is_refused(house):
    """Another user of the machine takes a second loopback address, where the ports of our connections are free."""
    with house.front(), urllib3.PoolManager(ssl_context=house.context(), assert_hostname=False) as pool:
        assert pool.request("POST", f"https://127.0.0.1:{house.port}/x").status == 200  # and it stays open
        port = int(house.asked[-1]["REMOTE_PORT"])
        with urllib3.HTTPConnectionPool("127.0.0.1", house.behind, source_address=("127.0.0.2", port)) as round_it:
            answer = round_it.request("GET", "/x", retries=False)
    assert (answer.status, len(house.asked)) == (421, 1)


def test_plain_text_is_refused_and_a_silent_client_hinders_nobody(house):
    with house.front(), socket.create_connection(("127.0.0.1", house.port)):
        with pytest.raises(urllib3.exceptions.HTTPError):
            urllib3.request("GET", f"http://127.0.0.1:{house.port}/x", timeout=20, retries=False)
        assert house.get(house.context()).status == 200


def test_open_connections_of_a_dropped_certificate_end_and_others_go_on(house):
    with house.front() as front, contextlib.ExitStack() as stack:
        pools = []
        for context in (house.context(), house.context()):
            pool = stack.enter_context(urllib3.PoolManager(ssl_context=context, assert_hostname=False))
            connection = stack.enter_context(pool.connection_from_url(f"https://127.0.0.1:{house.port}"))
            connection.urlopen("GET", "/x", retries=False)
            pools.append(connection)
        serial = house.asked[0][SERIAL]
        kept = [pool._get_conn() for pool in pools]
        front.drop([serial])
        assert kept[0].sock.recv(1) == b""
        kept[1].request("GET", "/x")
        assert kept[1].getresponse().status == 200
        for one in kept:
            one.close()


def test_what_comes_beyond_the_limit_is_closed(house):
    with (
        house.front(most=1),
        socket.create_connection(("127.0.0.1", house.port)) as plain,
        house.context().wrap_socket(plain) as held,
    ):
        held.sendall(b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert held.recv(12) == b"HTTP/1.1 200"
        with pytest.raises(urllib3.exceptions.HTTPError):
            house.get(house.context())


def test_it_reads_its_certificate_again_for_connections_from_then_on(house):
    with house.front() as front:
        house.get(house.bare())
        house.signer.authority.rotate()
        refresh(house.config, house.signer, [], house.signer.now_s)
        front.reload()
        assert (
            house.get(house.context()).status == 200
        )  # a certificate of the new authority, with a server of the former
        house.signer.authority.retire()
        refresh(house.config, house.signer, [], house.signer.now_s)
        front.reload()
        assert house.get(house.context()).status == 200


def test_a_client_that_resets_gives_its_place_back_at_once(house):
    """Proven before: its place stayed taken for 29 s, so that some resets a second closed the port."""
    with house.front(most=1) as front:
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", house.port)) as plain:
                held = house.context().wrap_socket(plain)
                held.sendall(b"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n")
                held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                held.close()
            deadline_s = time.monotonic() + 5
            while front._tasks:
                assert time.monotonic() < deadline_s
                time.sleep(0.005)
        assert house.get(house.context()).status == 200


@pytest.mark.parametrize("handshake", [False, True])
def test_one_address_without_a_certificate_keeps_no_device_out(house, handshake):
    """Proven before with 40 places: 40 clients that send a byte now and then had all of them for 72 s."""
    context, strangers = house.context(), house.bare()
    with house.front(most=40), contextlib.ExitStack() as stack:
        for _ in range(60):
            plain = stack.enter_context(socket.create_connection(("127.0.0.1", house.port)))
            if handshake:
                with contextlib.suppress(OSError):
                    stack.enter_context(strangers.wrap_socket(plain)).sendall(b"G")
        assert house.get(context, source=("127.0.0.2", 0)).status == 200


@pytest.mark.parametrize("handshake", [False, True])
def test_strangers_from_many_addresses_keep_no_device_out(house, handshake):
    """With a share for each address alone, twenty addresses had all places."""
    context, strangers = house.context(), house.bare()
    with house.front(most=40) as front, contextlib.ExitStack() as stack:
        for number in range(60):
            plain = stack.enter_context(
                socket.create_connection(("127.0.0.1", house.port), source_address=(f"127.0.1.{number + 1}", 0))
            )
            if handshake:
                stack.enter_context(strangers.wrap_socket(plain)).sendall(b"G")
        assert house.get(context).status == 200
        assert len(front._tasks) <= 40


def test_the_longest_of_the_address_with_the_most_makes_room(house):
    with house.front(most=8) as front, contextlib.ExitStack() as stack:
        few, *many = (
            stack.enter_context(socket.create_connection(("127.0.0.1", house.port), source_address=(source, 0)))
            for source in ("127.0.0.2", *["127.0.0.3"] * 6)
        )
        for each in (many[0], few):
            each.settimeout(5)
        with contextlib.suppress(ConnectionResetError):
            assert many[0].recv(1) == b"", "ended for the last one"
        with house.bare().wrap_socket(few):
            assert len(front._tasks) == 6


def test_a_request_that_drips_is_ended(house, monkeypatch):
    monkeypatch.setattr("nightjar.coordinator.web.server.REQUEST_S", 0.2)
    with (
        house.front(),
        socket.create_connection(("127.0.0.1", house.port)) as plain,
        house.bare().wrap_socket(plain) as held,
    ):
        held.settimeout(0.05)
        ended, began_s = False, time.monotonic()
        while not ended and time.monotonic() - began_s < 20:
            try:
                held.sendall(b"G")
                ended = held.recv(1) == b""
            except TimeoutError:
                continue
            except OSError:
                ended = True
        assert ended


def ask_with_a_line(house, line: bytes) -> bytes:
    """The head of the answer to a request after a line of the PROXY protocol."""
    with socket.create_connection(("127.0.0.1", house.port), timeout=20) as plain:
        plain.sendall(line)
        with house.bare().wrap_socket(plain) as secured:
            secured.sendall(b"GET /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            return secured.recv(12)


def test_a_trusted_proxy_names_the_client(house):
    with house.front(trusted_proxy="127.0.0.1"):
        assert ask_with_a_line(house, b"PROXY TCP4 192.0.2.7 198.51.100.1 56324 8443\r\n") == b"HTTP/1.1 200"
        assert ask_with_a_line(house, b"PROXY TCP6 2001:db8::7 2001:db8::1 56324 8443\r\n") == b"HTTP/1.1 200"
        assert house.get(house.bare()).status == 200
    assert [each["REMOTE_ADDR"] for each in house.asked] == ["192.0.2.7", "2001:db8::7", "127.0.0.1"]


@pytest.mark.parametrize(
    ("trusted", "line"),
    [
        ("", b"PROXY TCP4 192.0.2.7 198.51.100.1 56324 8443\r\n"),
        ("192.0.2.1", b"PROXY TCP4 192.0.2.7 198.51.100.1 56324 8443\r\n"),
        ("*", b"PROXY TCP4 example 198.51.100.1 56324 8443\r\n"),
        ("*", b"PROXY \xff\r\n"),
        ("*", b"P" * 200),
    ],
)
def test_other_lines_end_the_connection_and_name_nobody(house, trusted, line):
    with house.front(trusted_proxy=trusted):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            ask_with_a_line(house, line)
        assert house.get(house.bare()).status == 200
    assert [each["REMOTE_ADDR"] for each in house.asked] == ["127.0.0.1"]


def test_a_proxys_client_that_says_nothing_is_ended(house, monkeypatch):
    monkeypatch.setattr("nightjar.coordinator.tls.front.HANDSHAKE_S", 0.2)
    with house.front(trusted_proxy="*"), socket.create_connection(("127.0.0.1", house.port), timeout=20) as silent:
        assert silent.recv(1) == b""


def test_a_taken_port_is_said(house):
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ConfigError, match="give another port"):
        TlsFront("127.0.0.1", taken.getsockname()[1], house.folder / FOLDER, 1, 1)
