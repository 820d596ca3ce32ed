"""Where the processes of a federation run: all on loopback, or each on a host of its own, a network namespace.

Needs Linux, iproute2 and root for namespaces. Each has a cable to this machine; :func:`plug` lays one between two.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from typing import Protocol

from nightjar.wire.errors import UnavailableError


class SiloHost(Protocol):
    """A place for processes."""

    @property
    def address(self) -> str:
        """IP address at which the other hosts and this machine reach it."""

    def command(self, hostname: str) -> list[str]:
        """What to put before a command, so that it runs there."""


class Loopback:
    """This machine. Implements :class:`SiloHost`."""

    address = "127.0.0.1"

    def command(self, hostname: str) -> list[str]:
        """Nothing."""
        del hostname
        return []


class Namespace:
    """A network namespace with a cable to this machine that can be pulled out. Implements :class:`SiloHost`.

    Its number, 0 to 25, distinguishes it from the others of this process. ``outside`` is the address of this machine,
    as the host reaches it.

    Raises:
        UnavailableError: this user or machine cannot make one.
    """

    def __init__(self, number: int) -> None:
        self.name = f"nj{os.getpid()}-{number}"
        self._cable = f"nj{os.getpid()}{chr(ord('a') + number)}"
        net = f"10.{os.getpid() % 200 + 20}.{number}"
        self.address, self.outside = f"{net}.2", f"{net}.1"
        try:
            ip("netns", "add", self.name)
            ip("link", "add", self._cable, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        except UnavailableError:
            self.close()
            raise
        ip("address", "add", f"{self.outside}/24", "dev", self._cable)
        for command in ("link set lo up", f"address add {self.address}/24 dev eth0", "link set eth0 up"):
            ip("-n", self.name, *command.split())
        self.heal()

    def command(self, hostname: str) -> list[str]:
        """What to put before a command, so that it runs there."""
        inside = ["unshare", "--uts", "sh", "-c", f'hostname {hostname} && exec "$@"', "sh"]
        return ["ip", "netns", "exec", self.name, *inside]

    def cut(self) -> None:
        """Pull the cable to this machine out."""
        ip("link", "set", self._cable, "down")

    def heal(self) -> None:
        """Put the cable in again."""
        ip("link", "set", self._cable, "up")

    def close(self) -> None:
        """Remove it with its cables."""
        with contextlib.suppress(UnavailableError):
            ip("netns", "delete", self.name)
        with contextlib.suppress(UnavailableError):
            ip("link", "delete", self._cable)  # at once; the kernel takes its time with the namespace


def plug(centre: Namespace, others: Sequence[Namespace]) -> None:
    """Lay a cable from a namespace to each of the others: this machine need not forward what they say.

    Raises:
        UnavailableError: this user or machine cannot.
    """
    for number, other in enumerate(others, 1):
        theirs, ours = "eth1", f"eth{number}"
        ip("-n", centre.name, "link", "add", ours, "type", "veth", "peer", "name", theirs, "netns", other.name)
        for here, there, cable in ((centre, other, ours), (other, centre, theirs)):
            ip("-n", here.name, "link", "set", cable, "up")
            ip("-n", here.name, "route", "add", f"{there.address}/32", "dev", cable, "src", here.address)


@contextlib.contextmanager
def namespaces(count: int) -> Iterator[list[Namespace]]:
    """Network namespaces, which are removed after the block.

    Raises:
        UnavailableError: this user or machine cannot make any.
    """
    if shutil.which("ip") is None:
        msg = "ip is not installed: apt install iproute2"
        raise UnavailableError(msg)
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(contextlib.closing(Namespace(number))) for number in range(count)]


def ip(*arguments: str) -> None:
    """Run ``ip``.

    Raises:
        UnavailableError: it failed.
    """
    done = subprocess.run(["ip", *arguments], check=False, capture_output=True, text=True)  # noqa: S603, S607
    if done.returncode:
        msg = f"ip {' '.join(arguments)}: {done.stderr.strip()}"
        raise UnavailableError(msg)
