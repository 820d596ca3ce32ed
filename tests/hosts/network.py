"""Hosts as network namespaces of this machine, each with a cable to it that can be pulled out."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from tests.skips import NOT_ALLOWED


class Host:
    """A network namespace.

    Args:
        number: distinguishes it from the others of this test process.

    Attributes:
        address: of the host.
        outside: address of this machine, as the host reaches it.
    """

    def __init__(self, number: int) -> None:
        self._name = f"nj{os.getpid()}-{number}"
        self._cable = f"nj{os.getpid()}{'abcdef'[number]}"
        net = f"10.{os.getpid() % 200 + 20}.{number}"
        self.address, self.outside = f"{net}.2", f"{net}.1"
        try:
            _ip("netns", "add", self._name)
            _ip("link", "add", self._cable, "type", "veth", "peer", "name", "eth0", "netns", self._name)
        except subprocess.CalledProcessError as error:
            self.close()
            pytest.skip(f"{NOT_ALLOWED} make network namespaces: {error.stderr.strip()}")
        _ip("address", "add", f"{self.outside}/24", "dev", self._cable)
        for command in ("link set lo up", f"address add {self.address}/24 dev eth0", "link set eth0 up"):
            _ip("-n", self._name, *command.split())
        self.heal()

    def command(self, hostname: str) -> list[str]:
        """What to put before a command, so that it runs there."""
        inside = ["unshare", "--uts", "sh", "-c", f'hostname {hostname} && exec "$@"', "sh"]
        return ["ip", "netns", "exec", self._name, *inside]

    def cut(self) -> None:
        _ip("link", "set", self._cable, "down")

    def heal(self) -> None:
        _ip("link", "set", self._cable, "up")

    def close(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            _ip("netns", "delete", self._name)
        with contextlib.suppress(subprocess.CalledProcessError):
            _ip("link", "delete", self._cable)  # at once; the kernel takes its time with the namespace


@contextlib.contextmanager
def hosts(count: int) -> Iterator[list[Host]]:
    if shutil.which("ip") is None:
        pytest.skip("ip is not installed: apt install iproute2")
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(contextlib.closing(Host(number))) for number in range(count)]


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
