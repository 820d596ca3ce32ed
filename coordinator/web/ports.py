"""The web application's interface to the service."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from coordinator.config import CoordinatorConfig
from coordinator.engine.inbox import Inbox
from coordinator.enrolment.certificate_issuer import CertificateIssuer
from coordinator.ports import Clock
from coordinator.storage.blobs import FileBlobs
from coordinator.storage.database import Database
from coordinator.storage.tokens import TokenTable
from wire.addresses import is_loopback


@dataclass(frozen=True, slots=True)
class WebPorts:
    """The parts of the service that the application uses.

    Attributes:
        config: the whole configuration.
        repository: the database, for reading.
        artifacts: the artifacts to serve.
        clock: wall-clock time.
        broker: name of the broker.
        troubles: returns why the service does not work, in words; empty if it does.
        tokens: the tokens of people and programs.
        post: posts ArtifactServed and Operated to the driver.
        leader: returns the name of the host that leads; empty if this process does.
        not_enforced: returns what the broker should have refused but did not.
        office: issues certificates to devices; None without TLS.
    """

    config: CoordinatorConfig
    repository: Database
    artifacts: FileBlobs
    clock: Clock
    broker: str
    troubles: Callable[[], list[str]]
    tokens: TokenTable
    post: Callable[[Inbox], None]
    leader: Callable[[], str] = str
    not_enforced: Callable[[], list[str]] = list
    office: CertificateIssuer | None = None

    @property
    def public_reading(self) -> bool:
        """Whether reading needs no token."""
        chosen = self.config.public_reading
        return is_loopback(self.config.host) and not self.config.proxied if chosen is None else chosen
