"""A device without a model: it speaks the protocol over a real broker and reports whatever update it is given."""

import contextlib
import queue
import threading
import time
from collections.abc import Iterator

import numpy as np
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from nightjar.wire import frame, messages, topics
from nightjar.wire.codec import codec_for
from nightjar.wire.codec.codecs import to_name
from nightjar.wire.identifiers import DeviceId, Population
from nightjar.wire.messages import Assignment, CheckIn, Message, Receipt, Status
from nightjar.wire.parameters import ParameterLayout
from tests.brokers import hang_up, use_tls

POPULATION = Population("demo")
PATIENCE_S = 120.0
"""For a machine that does ten other things."""


class FakeDevice:
    def __init__(
        self, name: str, port: int, *, username: str = "device", password: str | None = None, tls=None
    ) -> None:
        self.name = DeviceId(name)
        self.arrived: queue.Queue[Message] = queue.Queue()
        self.refused = False
        self.subscribed, self.lost = threading.Event(), threading.Event()
        self._client = paho.Client(CallbackAPIVersion.VERSION2, client_id=name, protocol=paho.MQTTv311)
        self._client.username_pw_set(username, password)
        if tls is not None:
            use_tls(self._client, tls)
        will = messages.encode(Status(online=False))
        self._client.will_set(topics.status(POPULATION, self.name), will, qos=1, retain=True)
        self._client.on_connect = self._on_connect
        self._client.on_message = self._on_message
        self._client.on_subscribe = lambda *_: self.subscribed.set()
        self._client.on_disconnect = lambda *_: self.lost.set()
        self._client.connect_timeout = PATIENCE_S
        self._client.connect("127.0.0.1", port, keepalive=10)
        self._client.loop_start()

    def _on_connect(self, client, _data, _flags, code, _props) -> None:
        self.refused = code.is_failure
        client.subscribe([(pattern, 1) for pattern in topics.device_filters(POPULATION, self.name)])
        self._publish_raw(topics.status(POPULATION, self.name), messages.encode(Status(online=True)), retain=True)

    def _on_message(self, _client, _data, message) -> None:
        match topics.parse(message.topic):
            case topics.DownTopic(device=self.name, kind=kind):
                self.arrived.put(messages.decode(kind, message.payload))
            case topics.AnnounceTopic():
                self.arrived.put(messages.decode("announce", message.payload))
            case other:
                self.arrived.put(other)

    def check_in(self, examples: int = 10) -> None:
        self.send(CheckIn(agent_version="0.1.0", runtime="none", examples=examples, codecs=to_name()))

    def send(self, message: Message) -> None:
        self.publish(messages.KINDS[type(message)], messages.encode(message))

    def publish(self, kind: str, payload: bytes) -> None:
        self._publish_raw(topics.up(POPULATION, self.name, kind, 1), payload)

    def _publish_raw(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        self._client.publish(topic, payload, qos=1, retain=retain)

    def wait_for(self, kind: type, timeout_s: float = PATIENCE_S):
        """The next message of that kind; others are thrown away."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                message = self.arrived.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"{self.name} got no {kind.__name__} in {timeout_s} s") from None
            if isinstance(message, kind):
                return message

    def wait_for_assignment(self, timeout_s: float = PATIENCE_S) -> Assignment:
        """Check in until selected."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            self.check_in()
            with contextlib.suppress(AssertionError):
                return self.wait_for(Assignment, 2.0)
        raise AssertionError(f"{self.name} was not selected in {timeout_s} s")

    def report_until_receipt(self, assignment: Assignment, report: bytes, again_after_s: float = 3.0) -> Receipt:
        """What an agent does: the same bytes again until an answer comes."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for payload in frame.publishes(report, assignment.round, assignment.attempt):
                self.publish("report", payload)
            with contextlib.suppress(AssertionError):
                return self.wait_for(Receipt, again_after_s)
        raise AssertionError(f"{self.name} got no receipt")

    def report(self, assignment: Assignment, report: bytes) -> Receipt:
        """The bytes once, for who counts them."""
        return self.report_until_receipt(assignment, report, PATIENCE_S)

    def vanish(self) -> None:
        """The connection breaks without a goodbye, so the broker publishes the last will."""
        self._client.loop_stop()
        self._client.socket().close()

    def close(self) -> None:
        hang_up(self._client)


def report_frame(
    assignment: Assignment,
    delta: np.ndarray,
    layout: ParameterLayout,
    num_examples: int = 5,
    seed: int = 1,
    evaluation: frame.LocalEvaluation | None = None,
) -> bytes:
    codec = codec_for(assignment.codec)
    return frame.encode_report(
        frame.Report(
            round=assignment.round,
            attempt=assignment.attempt,
            codec=codec.wire_id,
            layout=layout.fingerprint,
            version=assignment.version,
            num_examples=num_examples,
            steps=1,
            loss=2.0,
            seconds=0.5,
            payload=codec.encode(delta.astype(np.float32), layout, np.random.default_rng(seed)),
            evaluation=evaluation,
        )
    )


@contextlib.contextmanager
def devices(port: int, *names: str) -> Iterator[list[FakeDevice]]:
    made = [FakeDevice(name, port) for name in names]
    try:
        yield made
    finally:
        for device in made:
            device.close()
