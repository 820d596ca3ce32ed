"""The networks and hosts of a compose file as network namespaces of this machine."""

from __future__ import annotations

import contextlib

import pytest

from nightjar.experiments.silos.hosts import ip
from nightjar.wire.errors import UnavailableError
from tests.skips import NOT_ALLOWED

OUTSIDE = "10.117.0"
"""First three bytes of the addresses in the network that stands for the rest of the world."""


class Networks:
    """A namespace with a bridge per network; it is the compose file's host, at ``HOST`` outside.

    Args:
        prefix: of the names of the namespaces; nobody else uses it.
    """

    HOST = f"{OUTSIDE}.1"

    def __init__(self, prefix: str) -> None:
        self._prefix, self._names, self._cables = prefix, list[str](), 0
        try:
            self.host = self._namespace("host")
            for bridge in ("inside", "outside"):
                ip("-n", self.host, "link", "add", bridge, "type", "bridge")
                ip("-n", self.host, "link", "set", bridge, "up")
        except UnavailableError as error:
            self.close()
            pytest.skip(f"{NOT_ALLOWED} make network namespaces: {error}")
        ip("-n", self.host, "address", "add", f"{self.HOST}/24", "dev", "outside")

    def close(self) -> None:
        for name in self._names:
            with contextlib.suppress(UnavailableError):
                ip("netns", "delete", name)

    def attach(self, name: str, addresses: dict[str, str]) -> str:
        """Make a namespace with an address in each of some networks.

        Args:
            name: of the host in it.
            addresses: network -> address.

        Returns:
            The name of the namespace.
        """
        namespace = self._namespace(name)
        for number, (network, address) in enumerate(addresses.items()):
            self._cables += 1
            cable = f"cable{self._cables}"
            ip("-n", self.host, "link", "add", cable, "type", "veth", "peer", f"eth{number}", "netns", namespace)
            ip("-n", self.host, "link", "set", cable, "master", network, "up")
            ip("-n", namespace, "address", "add", f"{address}/24", "dev", f"eth{number}")
            ip("-n", namespace, "link", "set", f"eth{number}", "up")
        return namespace

    def _namespace(self, name: str) -> str:
        full = f"{self._prefix}-{name}"
        ip("netns", "add", full)
        self._names.append(full)
        ip("-n", full, "link", "set", "lo", "up")
        return full
