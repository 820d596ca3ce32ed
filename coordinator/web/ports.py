"""The web application's interface to the service, and what every page uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.enrolment.certificate_issuer import CertificateIssuer
from nightjar.coordinator.ports import Clock
from nightjar.coordinator.rate_limits import DeviceRateLimits
from nightjar.coordinator.records.inbox import Inbox
from nightjar.coordinator.storage.blobs import FileBlobs
from nightjar.coordinator.storage.census import CensusTaker
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.disk_use import DiskForecast
from nightjar.coordinator.storage.tokens import TokenTable
from nightjar.models.manifest import Manifest
from nightjar.models.task_types import figure_names
from nightjar.wire.addresses import is_loopback


@dataclass(frozen=True, slots=True)
class WebPorts:
    """The parts of the service that the application uses."""

    config: CoordinatorConfig
    repository: Database  # for reading
    artifacts: FileBlobs
    clock: Clock
    broker: str  # its name
    troubles: Callable[[], list[str]]  # returns why the service does not work, in words; empty if it does
    tokens: TokenTable
    post: Callable[[Inbox], None]  # posts ArtifactServed and Operated to the driver
    leader: Callable[[], str] = str  # returns the name of the host that leads; empty if this process does
    not_enforced: Callable[[], list[str]] = list  # returns what the broker should have refused but did not
    distrust: Callable[[], str] = str  # returns why the machine's clock is not trusted; empty if it is
    disk: Callable[[], DiskForecast | None] = lambda: None  # returns how full the leader's disk is; None if unknown
    not_pruned: Callable[[], str] = str  # returns why what is not needed cannot be deleted; empty if it can
    issuer: CertificateIssuer | None = None  # issues certificates to devices; None without TLS
    local_user: Callable[[Mapping[str, Any]], bool] = lambda _environ: True  # whether this user's process asks
    limits: DeviceRateLimits | None = None  # of requests by devices; None without limits

    def warnings(self) -> list[str]:
        """What a person should see to before it becomes a trouble, in words."""
        disk, distrust = self.disk(), self.distrust()
        full = [] if disk is None or not disk.scarce else [f"the disk fills: {disk.in_words()}"]
        kept = [f"what nobody needs any more is not deleted: {why}"] if (why := self.not_pruned()) else []
        return full + kept + ([f"the clock is not trusted: {distrust}"] if distrust else [])

    @property
    def public_reading(self) -> bool:
        """Whether reading needs no token."""
        chosen = self.config.public_reading
        return self.reading_by_user if chosen is None else chosen

    @property
    def reading_by_user(self) -> bool:
        """Whether only processes of this machine's root and of the service's user read without a token."""
        unset = self.config.public_reading is None
        return unset and is_loopback(self.config.host) and not self.config.proxied


@dataclass(frozen=True, slots=True)
class Site:
    """The objects that every page uses."""

    ports: WebPorts
    census: CensusTaker
    manifest: Callable[[str], Manifest]  # reads a manifest by its hash; cached
    started_s: float  # when this process started to serve; wall-clock time

    def figures(self, manifest: str) -> tuple[str, str]:
        """What the two shares of a version are called: of the best prediction, and of the best three."""
        return figure_names(self.manifest(manifest).task_type)
