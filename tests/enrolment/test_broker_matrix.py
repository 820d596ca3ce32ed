"""Every kind of credential at every broker that we set up or describe, and what a device with a sound one may do.

It publishes and hears its own topics in its own population, in packets that are not too large, under its own client id.
"""

import contextlib
import queue
import socket
import ssl
import threading

import numpy as np
import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from nightjar.coordinator.config import BrokerConfig, BrokerKind, CoordinatorConfig, EnrolmentConfig, TaskConfig
from nightjar.coordinator.engine.clock import WallClock
from nightjar.coordinator.engine.driver import Driver
from nightjar.coordinator.enrolment.revocation import end_session
from nightjar.coordinator.mqtt.broker_child import BrokerChild
from nightjar.coordinator.mqtt.client import MqttSessions
from nightjar.coordinator.mqtt.free_ports import free_ports
from nightjar.coordinator.records.inbox import BrokerConnected, MessageArrived
from nightjar.coordinator.tls.authority import Authority, new_request
from nightjar.coordinator.tls.contexts import FOLDER
from nightjar.coordinator.tls.files import ACCESS, refresh, refuse
from nightjar.wire import messages
from nightjar.wire.codec.codecs import to_name
from nightjar.wire.frame import MAX_PACKET_BYTES, MAX_PUBLISH_BYTES
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.topics import DOWN_KINDS, UP_KINDS
from tests.brokers import BY_HAND, KINDS, HandMade, hang_up, use_tls
from tests.coordinator.fakes import POPULATION, World
from tests.coordinator.model_folder import write_model
from tests.enrolment.in_this_process import InThisProcess

pytestmark = pytest.mark.broker

REFUSED = ["no certificate", "claim as password", "expired", "revoked", "another authority", "a server's"]
ME, OTHER, UNSIGNED = "pi-a", "pi-b", "pi-c"
ALL_TOPICS = [
    *(f"nightjar/1/demo/up/{shard}/{who}/{kind}" for who in (ME, OTHER) for kind in UP_KINDS for shard in (0, 7)),
    *(f"nightjar/1/demo/down/{who}/{kind}" for who in (ME, OTHER) for kind in DOWN_KINDS),
    *(f"nightjar/1/demo/status/{who}" for who in (ME, OTHER)),
    *(f"nightjar/1/other/{rest}/{ME}/{kind}" for rest, kind in (("up/0", "report"), ("down", "receipt"))),
    f"nightjar/1/other/status/{ME}",
    f"nightjar/1/demo/up/0/{ME}/another-kind",
    f"nightjar/1/demo/up/x/{ME}/report",
    "nightjar/1/other/announce",
    "nightjar/1/demo/announce",
    "nightjar/1/demo/elsewhere",
    "nightjar/2/demo/announce",
    "something/else",
]
MAY_SAY = {f"nightjar/1/demo/up/0/{ME}/{kind}" for kind in UP_KINDS} | {f"nightjar/1/demo/status/{ME}"}
MAY_HEAR = {t for t in ALL_TOPICS if f"demo/down/{ME}/" in t} | {"nightjar/1/demo/announce"}
REPORT = f"nightjar/1/demo/up/0/{ME}/report"
MARKER = (f"nightjar/1/demo/up/0/{OTHER}/report", b"the end")
ALL_FILTERS = ["#", "nightjar/#", "+/+/+/+/+/+", "nightjar/1/demo/down/+/+", *ALL_TOPICS]


class Place:
    """A broker that asks for certificates, the coordinator's connection to it, and credentials of every kind."""

    def __init__(self, folder, kind: str) -> None:
        self.folder, self.kind = folder, kind
        (self.port,) = free_ports(1)
        self.signer = InThisProcess(folder / "data" / "authority", WallClock().now_s())
        broker = BrokerConfig(kind=BrokerKind(kind), port=self.port, password="of the coordinator")
        self.config = CoordinatorConfig(
            task=TaskConfig(model=folder), data_dir=folder / "data", broker=broker, enrolment=EnrolmentConfig()
        )
        self.contexts = {
            ME: self.context(ME),
            OTHER: self.context(OTHER),
            UNSIGNED: self.context(UNSIGNED),
            "no certificate": self.trusting(),
            "claim as password": self.trusting(),
            "expired": self.context("expired", days=-0.5),
            "revoked": self.context("revoked"),
            "another authority": self.context("stranger", Authority(folder / "other")),
            "a server's": self.context(ME, server=True),
        }
        refresh(self.config, self.signer, [self.serials["revoked"]], WallClock().now_s())
        # As while the authority does not sign:
        refuse(self.config, [self.serials["revoked"], self.serials[UNSIGNED]], [UNSIGNED])
        self.child = BrokerChild(broker, folder / "data" / "broker", folder / "data" / FOLDER)
        self.service, self.tls = self.child.service, self.trusting()
        if kind == "mosquitto":  # the coordinator of the test hears what is not its population's, too
            with (folder / "data" / FOLDER / ACCESS).open("a") as access:
                access.write(f"user {self.service.username}\n{HEARS_ALL}")
            self.child.reload()
            wait_until_all_is_heard(self)

    serials: dict[str, str] = {}

    def close(self) -> None:
        self.child.close()

    def device(self, name, **named):
        return client(self.port, self.contexts[name], **{"client_id": name, **named})

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


class PlaceByHand:
    """A mosquitto as we tell others to configure it."""

    def __init__(self, folder, _kind: str) -> None:
        self._broker = HandMade(folder, [ME, OTHER], HEARS_ALL_AS_COORDINATOR)
        self.tls = None
        self.service = BrokerConfig(
            kind=BrokerKind.EXTERNAL, port=self._broker.inside, username="coordinator", password="coordinator"
        )
        self.close = self._broker.close

    def device(self, name, **named):
        return client(self._broker.port, None, **{"client_id": name, **named, "username": name, "password": name})


HEARS_ALL = "topic readwrite #\n"
HEARS_ALL_AS_COORDINATOR = f"\nuser coordinator\n{HEARS_ALL}"


@pytest.fixture(scope="module", params=KINDS + BY_HAND)
def site(request, tmp_path_factory):
    made = Place if request.param in {"embedded", "mosquitto"} else PlaceByHand
    found = made(tmp_path_factory.mktemp("site"), request.param)
    yield found
    found.close()


with_certificates = pytest.mark.parametrize("site", KINDS, indirect=True)


class Client:
    def __init__(self, port, tls, *, client_id="", username="", password="", will="") -> None:
        self.heard: queue.Queue[tuple[str, bytes]] = queue.Queue()
        self.retained: set[str] = set()
        self.up, self.lost, self.granted = threading.Event(), threading.Event(), threading.Event()
        self.settled = threading.Event()  # let in, or not
        client = paho.Client(
            CallbackAPIVersion.VERSION2, client_id=client_id, protocol=paho.MQTTv311, reconnect_on_failure=False
        )
        client.username_pw_set(username, password) if username else None
        use_tls(client, tls) if tls else None
        client.will_set(will, b"gone", qos=1, retain=True) if will else None
        client.on_connect = lambda _c, _u, _f, reason, _p: self._answered(let_in=not reason.is_failure)
        client.on_disconnect = lambda *_: (self.lost.set(), self.settled.set())
        client.on_message = lambda _c, _u, message: self._hear(message)
        client.on_subscribe = lambda *_: self.granted.set()
        self.client = client
        client.connect_timeout = 60.0
        client.connect("127.0.0.1", port, keepalive=30)
        client.loop_start()

    def _answered(self, *, let_in: bool) -> None:
        if let_in:
            self.up.set()
        self.settled.set()

    def _hear(self, message: paho.MQTTMessage) -> None:
        if message.retain:
            self.retained.add(message.topic)
        self.heard.put((message.topic, message.payload))

    def said(self, topic: str, payload: bytes, *, retain: bool = False) -> paho.MQTTMessageInfo:
        return self.client.publish(topic, payload, qos=1, retain=retain)

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
def coordinator(site, client_id="c"):
    service = site.service
    with client(
        service.port, site.tls, client_id=client_id, username=service.username, password=service.password
    ) as made:
        assert made.up.wait(60)
        yield made


def wait_until_all_is_heard(site) -> None:
    """A broker reads its access list some time after it was told."""
    with coordinator(site) as ear:
        ear.listen("#")
        for _ in range(600):
            ear.said("nightjar/1/other/announce", b"")
            with contextlib.suppress(queue.Empty):
                ear.heard.get(timeout=0.1)
                return
    pytest.fail("the access list was not read")


@with_certificates
@pytest.mark.parametrize("credential", REFUSED)
def test_nobody_gets_in_without_a_sound_certificate(site, credential):
    login = {"username": ME, "password": "njc_x"} if credential == "claim as password" else {"username": ME}
    try:
        with client(site.port, site.contexts[credential], client_id=ME, **login) as made:
            assert made.settled.wait(60)
            assert not made.up.is_set()
    except (ssl.SSLError, ConnectionError):
        pass  # already in the handshake


@with_certificates
def test_a_stranger_does_not_fill_the_disk_with_what_the_broker_says_of_him(site):
    log = site.folder / "data" / "broker" / "broker.log"
    before = log.stat().st_size
    for _ in range(400):
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", site.port), timeout=60) as plain,
            site.contexts["no certificate"].wrap_socket(plain) as wrapped,
        ):
            wrapped.recv(1)
    with site.device(ME) as known:  # the broker has handled them by now, and still works
        assert known.up.wait(60)
    assert log.stat().st_size - before < 20_000


@with_certificates
def test_whose_revocation_nobody_has_signed_yet_hears_and_says_nothing(site):
    with coordinator(site) as ear, site.device(OTHER) as other:
        ear.listen("nightjar/#")
        assert other.up.wait(60)
        with contextlib.suppress(ssl.SSLError, ConnectionError), site.device(UNSIGNED) as out:
            assert out.settled.wait(60)
            if out.up.is_set():  # mosquitto knows certificates from the signed list only
                out.listen(f"nightjar/1/demo/down/{UNSIGNED}/+", "nightjar/1/demo/announce")
                ear.said(f"nightjar/1/demo/down/{UNSIGNED}/receipt", b"yours?")
                ear.said("nightjar/1/demo/announce", b"everybody's?")
                ear.until("nightjar/1/demo/announce", b"everybody's?")
                out.said(f"nightjar/1/demo/up/0/{UNSIGNED}/report", b"mine?").wait_for_publish(60)
                out.said(f"nightjar/1/demo/status/{UNSIGNED}", b"mine?").wait_for_publish(60)
            assert out.heard.empty()
        other.said(*MARKER)
        assert ear.until(*MARKER) == set()


@with_certificates
def test_a_password_opens_the_coordinators_door_and_a_certificate_does_not(site):
    service = site.service
    wrong = {"username": service.username, "password": "wrong"}
    for login in (wrong, {"username": ME}, {"username": ME, "password": service.password}):
        with client(service.port, site.contexts[ME], client_id="x", **login) as made:
            assert made.settled.wait(60)
            assert not made.up.is_set()
    with coordinator(site):
        pass


@with_certificates
def test_plain_text_gets_no_answer(site):
    bare = paho.Client(CallbackAPIVersion.VERSION2, client_id=ME, protocol=paho.MQTTv311)
    heard = threading.Event()
    bare.on_connect = lambda *_: heard.set()
    gone = threading.Event()
    bare.on_disconnect = lambda *_: gone.set()
    bare.connect("127.0.0.1", site.port)
    bare.loop_start()
    assert gone.wait(60)
    assert not heard.is_set()
    hang_up(bare)


def test_a_device_says_only_what_is_its_own(site):
    with coordinator(site) as ear, site.device(ME) as me:
        ear.listen("nightjar/#", "something/#")
        assert me.up.wait(60)
        for topic in ALL_TOPICS:
            me.said(topic, b"mine?")
        marker = (REPORT, b"the end")
        me.said(*marker)
        assert ear.until(*marker) == MAY_SAY


def test_a_device_hears_only_what_is_its_own(site):
    with coordinator(site) as voice, site.device(ME) as me:
        assert me.up.wait(60)
        me.listen(*ALL_FILTERS)
        for topic in ALL_TOPICS:
            voice.said(topic, b"yours?")
        marker = (f"nightjar/1/demo/down/{ME}/receipt", b"the end")
        voice.said(*marker)
        assert me.until(*marker) == MAY_HEAR


def test_nobody_takes_the_name_or_the_session_of_another(site):
    with site.device(ME) as me:
        assert me.up.wait(60)
        with site.device(OTHER, client_id=ME, username=ME) as thief, coordinator(site) as ear:
            ear.listen("nightjar/#")
            assert thief.up.wait(60)
            thief.said(REPORT, b"forged")
            thief.said(*MARKER)
            assert ear.until(*MARKER) == set()
        assert not me.lost.is_set()


def test_a_device_does_not_take_the_coordinators_session(site):
    with coordinator(site, "nightjar-coordinator-demo-9") as ear:
        ear.listen("nightjar/1/demo/up/#")
        with site.device(OTHER, client_id="nightjar-coordinator-demo-9") as thief:
            assert thief.up.wait(60)
            thief.said(*MARKER)
            ear.until(*MARKER)
        assert not ear.lost.is_set()


def test_the_largest_packet_of_ours_passes(site):
    with coordinator(site) as ear, site.device(ME) as me:
        ear.listen("nightjar/#")
        assert me.up.wait(60)
        message = (REPORT, bytes(MAX_PUBLISH_BYTES))
        me.said(*message)
        assert ear.until(*message) == set()


@pytest.mark.parametrize("retained", [False, True])
def test_who_sends_a_larger_packet_than_the_limit_is_hung_up_on_and_nobody_gets_it(site, retained):
    status = f"nightjar/1/demo/status/{ME}"
    with coordinator(site) as ear, site.device(OTHER) as other:
        ear.listen("nightjar/#")
        with site.device(ME) as me:
            assert me.up.wait(60)
            me.said(status, bytes(MAX_PACKET_BYTES), retain=retained)
            assert me.lost.wait(60)
        assert other.up.wait(60)
        other.said(*MARKER)
        assert status not in ear.until(*MARKER)
        assert not ear.lost.is_set()
    with coordinator(site) as late:
        late.listen(status, MARKER[0])
        late.said(*MARKER)
        assert status not in late.retained


def leave_retained(site, left: dict[str, bytes]) -> None:
    with coordinator(site) as ear, site.device(ME) as me:
        ear.listen(REPORT)
        assert me.up.wait(60)
        for topic, payload in left.items():
            me.said(topic, payload, retain=True)
        marker = (REPORT, b"the end")
        me.said(*marker)
        ear.until(*marker)


def test_a_device_leaves_nothing_retained_but_on_topics_of_its_own(site):
    leave_retained(site, dict.fromkeys(ALL_TOPICS, b"for ever"))
    with coordinator(site) as late:
        late.listen("nightjar/#", "something/#", MARKER[0])
        late.said(*MARKER)
        late.until(*MARKER)
        assert late.retained <= MAY_SAY  # and the coordinator clears all but the status: see below
        assert f"nightjar/1/demo/status/{ME}" in late.retained


def test_what_is_left_retained_for_the_coordinator_is_not_obeyed_and_is_cleared(site, tmp_path):
    world = World(write_model(tmp_path), tmp_path)
    check_in = messages.encode(messages.CheckIn(agent_version="0.1.0", runtime="none", examples=10, codecs=to_name()))
    leave_retained(
        site, {f"nightjar/1/demo/up/0/{ME}/check-in": check_in, f"nightjar/1/demo/status/{ME}": b"no status"}
    )
    posted: queue.Queue = queue.Queue()
    transport = MqttSessions(site.service, POPULATION, 1, posted.put, site.tls)
    world.driver = Driver(
        world.config,
        world.repository,
        world.artifacts,
        transport,
        world.worker,
        world.clock,
        np.random.default_rng(0),
    )
    transport.start()
    try:
        with coordinator(site) as voice:
            voice.listen(MARKER[0])
            while transport.trouble:
                world.driver.handle(posted.get(timeout=60))
            # What is retained comes with the subscription, so before this.
            voice.said(f"nightjar/1/demo/up/0/{OTHER}/check-in", check_in)
            while OTHER not in world.tables.leases:
                world.driver.handle(posted.get(timeout=60))
            assert ME not in world.tables.leases
            transport.publish(*MARKER)  # the broker reads it behind what clears the topics
            voice.until(*MARKER)
    finally:
        transport.close()
    with coordinator(site) as late:
        late.listen("nightjar/1/demo/up/#", "nightjar/1/demo/status/#", MARKER[0])
        late.said(*MARKER)
        late.until(*MARKER)
        assert late.retained == set()


def test_what_comes_while_the_coordinator_is_away_waits_for_it_and_is_not_taken_for_retained(site):
    def until(kind, **fields):
        """The next such event; every message is acknowledged."""
        while True:
            event = posted.get(timeout=60)
            if isinstance(event, MessageArrived):
                event.acknowledge()
            if isinstance(event, kind) and all(getattr(event, name) == wanted for name, wanted in fields.items()):
                return event

    posted: queue.Queue = queue.Queue()
    first = MqttSessions(site.service, POPULATION, 1, posted.put, site.tls)
    first.start()
    until(BrokerConnected)
    first.close()
    leave_retained(site, {})
    second = MqttSessions(site.service, POPULATION, 1, posted.put, site.tls)
    second.start()
    assert not until(MessageArrived, topic=REPORT, payload=b"the end").retained
    second.close()


@with_certificates
def test_a_device_whose_session_is_ended_leaves_no_status(site):
    status = f"nightjar/1/demo/status/{ME}"
    with coordinator(site) as ear, site.device(ME, will=status) as me:
        ear.listen(status)
        assert me.up.wait(60)
        me.said(status, b"here", retain=True)
        if site.kind == "embedded":  # which hangs up on revoked devices by itself
            me.client.socket().shutdown(socket.SHUT_RDWR)
            ear.until(status, b"gone")
        end_session(site.service, site.tls, POPULATION, DeviceId(ME))
        ear.until(status, b"")
    with coordinator(site) as late:
        late.listen(status, MARKER[0])
        assert late.retained == set()


@with_certificates
def test_a_last_will_for_another_devices_topic_is_not_published(site):
    with coordinator(site) as ear:
        ear.listen("nightjar/1/demo/status/#")
        forged = paho.Client(CallbackAPIVersion.VERSION2, client_id=ME, protocol=paho.MQTTv311)
        use_tls(forged, site.contexts[ME])
        forged.will_set(f"nightjar/1/demo/status/{OTHER}", b"gone", qos=1)
        settled = threading.Event()
        forged.on_connect = forged.on_disconnect = lambda *_: settled.set()
        forged.connect("127.0.0.1", site.port, keepalive=5)
        forged.loop_start()
        assert settled.wait(60)
        forged.loop_stop()
        if forged.socket() is not None:
            forged.socket().close()
        forged.reinitialise()
        with client(site.port, site.contexts[OTHER], client_id=OTHER) as other:
            assert other.up.wait(60)
            marker = (f"nightjar/1/demo/status/{OTHER}", b"the end")
            other.said(*marker)
            assert ear.until(*marker) == set()
