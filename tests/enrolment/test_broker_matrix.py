"""Every kind of credential at both brokers, and what a device with a sound one may say and hear: its own topics."""

import contextlib
import queue
import ssl
import threading

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from coordinator.config import BrokerConfig, BrokerKind, CoordinatorConfig, EnrolmentConfig, TaskConfig
from coordinator.enrolment.authority import Authority, new_request
from coordinator.enrolment.premises import FOLDER, refresh
from coordinator.shell.broker_child import BrokerChild
from coordinator.shell.clock import WallClock
from coordinator.shell.free_ports import free_ports
from tests.brokers import KINDS, hang_up
from tests.enrolment.world import InThisProcess
from wire.topics import DOWN_KINDS, UP_KINDS

pytestmark = pytest.mark.broker

REFUSED = ["no certificate", "claim as password", "expired", "revoked", "another authority", "a server's"]
ME, OTHER = "pi-a", "pi-b"
ALL_TOPICS = [
    *(f"nightjar/1/demo/up/{shard}/{who}/{kind}" for who in (ME, OTHER) for kind in UP_KINDS for shard in (0, 7)),
    *(f"nightjar/1/demo/down/{who}/{kind}" for who in (ME, OTHER) for kind in DOWN_KINDS),
    *(f"nightjar/1/demo/status/{who}" for who in (ME, OTHER)),
    "nightjar/1/demo/announce",
    "nightjar/1/demo/elsewhere",
    "nightjar/2/demo/announce",
    "something/else",
]
MAY_SAY = {t for t in ALL_TOPICS if f"/{ME}/" in t and "/up/" in t} | {f"nightjar/1/demo/status/{ME}"}
MAY_HEAR = {t for t in ALL_TOPICS if f"/down/{ME}/" in t} | {"nightjar/1/demo/announce"}
ALL_FILTERS = ["#", "nightjar/#", "+/+/+/+/+/+", "nightjar/1/demo/down/+/+", *ALL_TOPICS]


class Place:
    """A broker that asks for certificates, the coordinator's connection to it, and credentials of every kind."""

    def __init__(self, folder, kind: str) -> None:
        self.folder = folder
        (self.port,) = free_ports(1)
        self.signer = InThisProcess(folder / "data" / "authority", WallClock().now_s())
        broker = BrokerConfig(kind=BrokerKind(kind), port=self.port, password="of the coordinator")
        self.config = CoordinatorConfig(
            task=TaskConfig(model=folder), data_dir=folder / "data", broker=broker, enrolment=EnrolmentConfig()
        )
        self.contexts = {
            ME: self.context(ME),
            OTHER: self.context(OTHER),
            "no certificate": self.trusting(),
            "claim as password": self.trusting(),
            "expired": self.context("expired", days=-0.5),
            "revoked": self.context("revoked"),
            "another authority": self.context("stranger", Authority(folder / "other", WallClock().now_s())),
            "a server's": self.context(ME, server=True),
        }
        refresh(self.config, self.signer, [self.serials["revoked"]], WallClock().now_s())
        self.child = BrokerChild(broker, folder / "data" / "broker", folder / "data" / FOLDER)

    serials: dict[str, str] = {}

    def trusting(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata="".join(self.signer.authority.certificates()))
        context.check_hostname = False
        return context

    def context(self, name, authority=None, days=90.0, *, server=False) -> ssl.SSLContext:
        from cryptography import x509

        authority, now_s = authority or self.signer.authority, WallClock().now_s()
        key, csr = new_request()
        pem = (
            authority.certify_server(csr, [name], days, now_s)
            if server
            else authority.certify_device(csr, name, days, now_s)
        )
        self.serials[name] = str(x509.load_pem_x509_certificate(pem.encode()).serial_number)
        path = self.folder / f"{name}-{days}-{server}.pem"
        path.write_text(key + pem)
        context = self.trusting()
        context.load_cert_chain(path)
        return context


@pytest.fixture(scope="module", params=KINDS)
def place(request, tmp_path_factory):
    found = Place(tmp_path_factory.mktemp("place"), request.param)
    yield found
    found.child.close()


class Client:
    def __init__(self, port, tls, *, client_id="", username="", password="") -> None:
        self.heard: queue.Queue[tuple[str, bytes]] = queue.Queue()
        self.up, self.lost, self.granted = threading.Event(), threading.Event(), threading.Event()
        self.settled = threading.Event()  # let in, or not
        client = paho.Client(CallbackAPIVersion.VERSION2, client_id=client_id, protocol=paho.MQTTv311)
        client.username_pw_set(username, password) if username else None
        client.tls_set_context(tls)
        client.on_connect = lambda _c, _u, _f, reason, _p: self._answered(let_in=not reason.is_failure)
        client.on_disconnect = lambda *_: (self.lost.set(), self.settled.set())
        client.on_message = lambda _c, _u, message: self.heard.put((message.topic, message.payload))
        client.on_subscribe = lambda *_: self.granted.set()
        self.client = client
        client.connect_timeout = 60.0
        client.connect("127.0.0.1", port, keepalive=30)
        client.loop_start()

    def _answered(self, *, let_in: bool) -> None:
        if let_in:
            self.up.set()
        self.settled.set()

    def said(self, topic: str, payload: bytes) -> None:
        self.client.publish(topic, payload, qos=1)

    def listen(self, *filters: str) -> None:
        for each in filters:
            self.granted.clear()
            self.client.subscribe(each, qos=1)
            assert self.granted.wait(60)

    def until(self, topic: str, payload: bytes) -> set[str]:
        """Topics of what came before that, which came as well."""
        found: set[str] = set()
        while (message := self.heard.get(timeout=60)) != (topic, payload):
            found.add(message[0])
        return found

    def close(self) -> None:
        hang_up(self.client)


@contextlib.contextmanager
def client(*arguments, **named):
    made = Client(*arguments, **named)
    try:
        yield made
    finally:
        made.close()


@contextlib.contextmanager
def coordinator(place):
    service = place.child.service
    with client(
        service.port, place.trusting(), client_id="c", username=service.username, password=service.password
    ) as made:
        assert made.up.wait(60)
        yield made


@pytest.mark.parametrize("credential", REFUSED)
def test_nobody_gets_in_without_a_sound_certificate(place, credential):
    login = {"username": ME, "password": "njc_x"} if credential == "claim as password" else {"username": ME}
    try:
        with client(place.port, place.contexts[credential], client_id=ME, **login) as made:
            assert made.settled.wait(60)
            assert not made.up.is_set()
    except (ssl.SSLError, ConnectionError):
        pass  # already in the handshake


def test_a_password_opens_the_coordinators_door_and_a_certificate_does_not(place):
    service = place.child.service
    wrong = {"username": service.username, "password": "wrong"}
    for login in (wrong, {"username": ME}, {"username": ME, "password": service.password}):
        with client(service.port, place.contexts[ME], client_id="x", **login) as made:
            assert made.settled.wait(60)
            assert not made.up.is_set()
    with coordinator(place):
        pass


def test_plain_text_gets_no_answer(place):
    bare = paho.Client(CallbackAPIVersion.VERSION2, client_id=ME, protocol=paho.MQTTv311)
    heard = threading.Event()
    bare.on_connect = lambda *_: heard.set()
    gone = threading.Event()
    bare.on_disconnect = lambda *_: gone.set()
    bare.connect("127.0.0.1", place.port)
    bare.loop_start()
    assert gone.wait(60)
    assert not heard.is_set()
    hang_up(bare)


def test_a_device_says_only_what_is_its_own(place):
    with coordinator(place) as ear, client(place.port, place.contexts[ME], client_id=ME) as me:
        ear.listen("nightjar/#")
        assert me.up.wait(60)
        for topic in ALL_TOPICS:
            me.said(topic, b"mine?")
        marker = (f"nightjar/1/demo/up/0/{ME}/report", b"the end")
        me.said(*marker)
        assert ear.until(*marker) == MAY_SAY


def test_a_device_hears_only_what_is_its_own(place):
    with coordinator(place) as voice, client(place.port, place.contexts[ME], client_id=ME) as me:
        assert me.up.wait(60)
        me.listen(*ALL_FILTERS)
        for topic in ALL_TOPICS:
            voice.said(topic, b"yours?")
        marker = (f"nightjar/1/demo/down/{ME}/receipt", b"the end")
        voice.said(*marker)
        assert me.until(*marker) == MAY_HEAR


def test_nobody_takes_the_name_or_the_session_of_another(place):
    with client(place.port, place.contexts[ME], client_id=ME) as me:
        assert me.up.wait(60)
        with client(place.port, place.contexts[OTHER], client_id=ME, username=ME) as thief, coordinator(place) as ear:
            ear.listen("nightjar/#")
            assert thief.up.wait(60)
            thief.said(f"nightjar/1/demo/up/0/{ME}/report", b"forged")
            thief.said(f"nightjar/1/demo/up/0/{OTHER}/report", b"the end")
            assert ear.until(f"nightjar/1/demo/up/0/{OTHER}/report", b"the end") == set()
        assert not me.lost.is_set()


def test_a_last_will_for_another_devices_topic_is_not_published(place):
    with coordinator(place) as ear:
        ear.listen("nightjar/#")
        forged = paho.Client(CallbackAPIVersion.VERSION2, client_id=ME, protocol=paho.MQTTv311)
        forged.tls_set_context(place.contexts[ME])
        forged.will_set(f"nightjar/1/demo/status/{OTHER}", b"gone", qos=1)
        settled = threading.Event()
        forged.on_connect = forged.on_disconnect = lambda *_: settled.set()
        forged.connect("127.0.0.1", place.port, keepalive=5)
        forged.loop_start()
        assert settled.wait(60)
        forged.loop_stop()
        if forged.socket() is not None:
            forged.socket().close()
        forged.reinitialise()
        with client(place.port, place.contexts[OTHER], client_id=OTHER) as other:
            assert other.up.wait(60)
            marker = (f"nightjar/1/demo/status/{OTHER}", b"the end")
            other.said(*marker)
            assert ear.until(*marker) == set()
