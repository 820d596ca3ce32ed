"""The networks and hosts of a compose file as network namespaces of this machine."""

from __future__ import annotations

import subprocess

import pytest

from tests.skips import NOT_ALLOWED

OUTSIDE = "10.117.0"
"""First three bytes of the addresses in the network that stands for the rest of the world."""


def run_ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


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
                run_ip("-n", self.host, "link", "add", bridge, "type", "bridge")
                run_ip("-n", self.host, "link", "set", bridge, "up")
        except subprocess.CalledProcessError as error:
            self.close()
            pytest.skip(f"{NOT_ALLOWED} make network namespaces: {error.stderr.strip()}")
        run_ip("-n", self.host, "address", "add", f"{self.HOST}/24", "dev", "outside")

    def close(self) -> None:
        for name in self._names:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)

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
            run_ip("-n", self.host, "link", "add", cable, "type", "veth", "peer", f"eth{number}", "netns", namespace)
            run_ip("-n", self.host, "link", "set", cable, "master", network, "up")
            run_ip("-n", namespace, "address", "add", f"{address}/24", "dev", f"eth{number}")
            run_ip("-n", namespace, "link", "set", f"eth{number}", "up")
        return namespace

    def _namespace(self, name: str) -> str:
        full = f"{self._prefix}-{name}"
        run_ip("netns", "add", full)
        self._names.append(full)
        run_ip("-n", full, "link", "set", "lo", "up")
        return full
