import base64
import hashlib

import pytest

from nightjar.coordinator.config import BrokerKind
from nightjar.coordinator.mqtt import broker
from nightjar.coordinator.mqtt.listeners import Listeners
from nightjar.wire.errors import ConfigError


def test_mosquitto_gets_our_limits_and_keeps_its_state_in_our_folder(tmp_path):
    text = broker.write_mosquitto_files(Listeners("127.0.0.1", 1884, "nightjar", ""), tmp_path).read_text()
    assert "listener 1884 127.0.0.1\n" in text
    assert "allow_anonymous true\n" in text
    assert "password_file" not in text
    assert f"persistence_location {tmp_path}/\n" in text
    assert "max_queued_messages 100000\n" in text
    assert "$" not in text


def test_with_a_password_nobody_is_anonymous_and_the_password_is_not_in_the_files(tmp_path):
    listeners = Listeners("127.0.0.1", 1884, "nightjar", "open sesame")
    text = broker.write_mosquitto_files(listeners, tmp_path).read_text()
    assert "allow_anonymous false\n" in text
    passwords = tmp_path / "passwords"
    assert f"password_file {passwords}\n" in text
    assert passwords.stat().st_mode & 0o777 == 0o600
    assert "sesame" not in passwords.read_text() + text


def test_the_password_line_is_mosquittos():
    line = broker.mosquitto_password_line("nightjar", "open sesame", b"0123456789ab")
    name, rest = line.strip().split(":")
    _, kind, rounds, salt, digest = rest.split("$")
    assert (name, kind, base64.b64decode(salt)) == ("nightjar", "7", b"0123456789ab")
    expected = hashlib.pbkdf2_hmac("sha512", b"open sesame", b"0123456789ab", int(rounds))
    assert base64.b64decode(digest) == expected


def test_without_mosquitto_auto_is_the_embedded_broker_and_mosquitto_is_an_error(monkeypatch):
    monkeypatch.setattr(broker, "find_mosquitto", lambda: None)
    assert broker.choose(BrokerKind.AUTO) == "amqtt"
    assert broker.choose(BrokerKind.EMBEDDED) == "amqtt"
    with pytest.raises(ConfigError, match="apt install mosquitto"):
        broker.choose(BrokerKind.MOSQUITTO)


def test_with_mosquitto_auto_takes_it(monkeypatch):
    monkeypatch.setattr(broker, "find_mosquitto", lambda: "/usr/sbin/mosquitto")
    assert broker.choose(BrokerKind.AUTO) == broker.choose(BrokerKind.MOSQUITTO) == "mosquitto"
    assert broker.choose(BrokerKind.EXTERNAL) == "external"
