"""Brokers as parameters of tests: those that the coordinator starts by itself, and mosquittos configured by hand."""

import os
import pwd
import socket
import ssl
import subprocess
import time
from pathlib import Path

import paho.mqtt.client as paho
import pytest

from nightjar.coordinator.mqtt.broker import find_mosquitto, mosquitto_password_line
from nightjar.coordinator.mqtt.free_ports import free_ports
from tests.processes import end

ROOT = Path(__file__).parents[1]
NEEDS_MOSQUITTO = pytest.mark.skipif(not find_mosquitto(), reason="mosquitto is not installed: apt install mosquitto")
KINDS = ["embedded", pytest.param("mosquitto", marks=NEEDS_MOSQUITTO)]
BY_HAND = [pytest.param("by hand", marks=NEEDS_MOSQUITTO)]


class HandMade:
    """A mosquitto as docs/brokers.md configures it for others; everybody's password is their name.

    Args:
        folder: for its state.
        names: devices that it knows.
        more_access: lines to add to the access list.
        without: how the settings begin that are left out.

    Attributes:
        port: for devices.
        inside: for the coordinator.
    """

    def __init__(self, folder: Path, names: list[str], more_access: str = "", without: str = "") -> None:
        self.port, self.inside = free_ports(2)
        page = (ROOT / "docs" / "brokers.md").read_text()
        _, text, _, access, *_ = page.split("## A configuration for your own mosquitto")[1].split("```")
        places = {
            "listener 1883 127.0.0.1": f"listener {self.inside} 127.0.0.1",
            "listener 8883": f"listener {self.port} 127.0.0.1",
            "/etc/mosquitto": str(folder),
            "/var/lib/mosquitto": str(folder),
        }
        for before, after in places.items():
            assert before in text
            text = text.replace(before, after)
        if without:
            text = "\n".join(line for line in text.splitlines() if not line.startswith(without)) + "\n"
        (folder / "acl").write_text(access + more_access)
        (folder / "passwords").write_text(
            "".join(mosquitto_password_line(name, name, bytes(12)) for name in ("coordinator", *names))
        )
        (folder / "mosquitto.conf").write_text(f"{text}user {pwd.getpwuid(os.geteuid()).pw_name}\n")
        self._log = (folder / "log").open("wb")
        self.process = subprocess.Popen([find_mosquitto(), "-c", folder / "mosquitto.conf"], stderr=self._log)
        for port in (self.port, self.inside):
            wait_for_port(port)

    def close(self) -> None:
        self._log.close()
        end(self.process, 60)


def wait_for_port(port: int) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        else:
            return


def hang_up(client: paho.Client) -> None:
    """Disconnect, and close what paho would leave to the garbage collector.

    It keeps a pair of sockets. Who is in a cycle with it, as callbacks are, leaves the order of their end to chance: a
    ResourceWarning in whatever test the collector then comes by, or after the last one.
    """
    client.disconnect()
    client.loop_stop()
    client.reinitialise()


def use_tls(client: paho.Client, context: ssl.SSLContext) -> None:
    """Let a client use TLS; when a handshake fails, close the socket that paho would leave to the collector too."""
    context.sslsocket_class = _ClosedOnFailure
    client.tls_set_context(context)


class _ClosedOnFailure(ssl.SSLSocket):
    def do_handshake(self, block: bool = False) -> None:
        try:
            super().do_handshake(block)
        except OSError:
            self.close()
            raise
