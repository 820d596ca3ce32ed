"""What brings the first phone: the commands, with the address at which other machines reach this one."""

from __future__ import annotations

import shlex
import socket
from dataclasses import dataclass

from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.tls.files import names_of, url_for_devices
from nightjar.wire.addresses import is_loopback

_ANYWHERE = "192.0.2.1"
"""An address of the documentation (RFC 5737): the route to it is asked for, and nothing is sent."""
_ALL = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared only


@dataclass(frozen=True, slots=True)
class FirstPhone:
    """What a person does to bring a phone.

    Attributes:
        url: where devices find this coordinator.
        alone: whether no other machine reaches it there.
        address: this machine's address on its network; empty if it has none.
        enrolled: whether devices need a claim.
    """

    url: str
    alone: bool
    address: str
    enrolled: bool

    @property
    def make(self) -> str:
        """The command that makes a claim, on this machine."""
        return (
            f"nightjar-coordinator enrol-token create phone-1 --device phone-1 --url {self.url} --out phone-1.json --qr"
        )

    def use(self, name: str) -> str:
        """The command that enrols a phone with a claim of this name, and starts its agent, there."""
        enrol = f"nightjar-agent enrol --config agent.toml --claim {shlex.quote(name)}.json && "
        return f"{enrol if self.enrolled else ''}nightjar-agent run --config agent.toml"


def first_phone(config: CoordinatorConfig, address: str | None = None) -> FirstPhone:
    """What brings the first phone to a coordinator; ``address`` is this machine's, found if it is None.

    A name of this machine that nobody chose is known to few networks, so its address is named instead; devices check
    the authority of the certificate, and not the name in it.
    """
    found = own_address() if address is None else address
    url = url_for_devices(config) if config.tls else f"http://{names_of(config)[0]}:{config.port}"
    if not config.enrolment.names and config.host in _ALL and found:
        url = f"{'https' if config.tls else 'http'}://{found}:{config.port}"
    alone = is_loopback(config.host) and not config.proxied
    return FirstPhone(url, alone, found, config.tls)


def own_address() -> str:
    """This machine's address on the network through which it reaches others; empty if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect((_ANYWHERE, 9))
            found: str = asked.getsockname()[0]
        except OSError:
            return ""
    return "" if is_loopback(found) else found
